"""Streams without state: each record by itself.

1. `pass_on`  counts the fates, and gives each record that is kept as a row.

The state holds nothing.
"""

from headrace.fold.records.pass_on import Records

__all__ = ["Records"]
