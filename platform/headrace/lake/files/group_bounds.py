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
        place = self._place(group, path)
        of = None if place is None else self._footer.row_group(group).column(place).statistics
        return None if of is None or not of.has_min_max else (of.min, of.max)

    def _place(self, group: int, path: str) -> int | None:
        """The place of a column. The footer's schema is not asked: with it the footer belongs to a circle, freed late."""
        if path not in self._places:
            columns, places = self._footer.row_group(group), range(self._footer.num_columns)
            same = (at for at in places if columns.column(at).path_in_schema == path)
            self._places[path] = next(same, None)
        return self._places[path]
