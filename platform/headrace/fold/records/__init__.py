"""Streams without state: each record by itself.

1. `pass_on`  counts the fates, and gives each record that is kept as a row.
   `flatten`  does the same, and gives each element of a record's array as a row.

The state holds nothing.
"""

from headrace.fold.records.flatten import ELEMENT, FlatMaps
from headrace.fold.records.pass_on import CHAIN, Records

__all__ = ["CHAIN", "ELEMENT", "FlatMaps", "Records"]
