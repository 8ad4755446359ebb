"""The bounds of columns in each group of rows of a file, by which readers pass groups over.

Law: a group is passed over only if its bounds tell that it has no row that is sought. A file may leave bounds out.
"""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq


class GroupBounds:
    """The bounds that the footer of a file has."""

    def __init__(self, footer: pq.FileMetaData) -> None:
        self._footer = footer
        self._places: dict[str, int | None] = {}

    def of(self, group: int, path: str) -> tuple[Any, Any] | None:
        """The lowest and the highest of a column in a group; None: the file does not say. In: path  with dots."""
        place = self._place(path)
        of = None if place is None else self._footer.row_group(group).column(place).statistics
        return None if of is None or not of.has_min_max else (of.min, of.max)

    def _place(self, path: str) -> int | None:
        if path not in self._places:
            schema, places = self._footer.schema, range(self._footer.num_columns)
            self._places[path] = next((at for at in places if schema.column(at).path == path), None)
        return self._places[path]
