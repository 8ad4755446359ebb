"""Streams without state: each record by itself.

`pass_on` counts the fates, and gives each record that is kept as a row. The state holds nothing.
"""

from headrace.fold.records.pass_on import CHAIN, ELEMENT, Records

__all__ = ["CHAIN", "ELEMENT", "Records"]
