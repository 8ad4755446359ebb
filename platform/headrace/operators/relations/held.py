"""What a join holds, by the files of its tables, and what a micro-batch adds (see `store`), in the task that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.columnar.places import as_position, numbers_of, places
from headrace.operators.relations.store import FOLDED
from headrace.spark.keys import among, encoded, newest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.operators.columnar import HeldFiles


class HeldRows:
    """What is held as of a micro-batch, and what the next one changes.

    changes  for each part its rows: the columns of the node, and `arrow_sides.INTERNAL`
    """

    def __init__(self, held: HeldFiles, through: int, topics: Sequence[str]) -> None:
        """In: through  the last micro-batch; topics  as they are numbered."""
        self._held, self._through, self._topics = held, through, topics
        self._known: dict[str, pa.Table] = {}
        self.changes: dict[str, pa.Table] = {}

    def lookup(
        self, part: str, key: Sequence[str], by: Sequence[str], wanted: Sequence[pa.ChunkedArray]
    ) -> pa.Table:
        """The current rows, deleted ones too, that have a combination of values which is wanted in the columns `by`.

        In:  key  the identity of the part's rows
        Out: the columns of the node, and `INTERNAL`
        """
        folded, pending = self._folded(part, by, wanted), self._pending(part)
        keys = wanted
        if [*by] != [*key]:
            # A row that was among those wanted may not be any more: the newest of each key tells.
            mine = pending.filter(pa.array(among(columns_of(pending, by), wanted)))
            keys = columns_of(pa.concat_tables([folded, mine]), key)
        rows = pa.concat_tables([folded, pending.filter(pa.array(among(columns_of(pending, key), keys)))])
        rows = rows.combine_chunks()
        (number,), count = encoded(columns_of(rows, key))
        rows = rows.take(pa.array(newest(number, count, numbers_of(rows, ["__batch"]))))
        rows = rows.filter(pa.array(among(columns_of(rows, by), wanted))).combine_chunks()
        own = {name: rows[name] for name in rows.column_names if name not in ("__at", "__batch")}
        return pa.table(own | places(whole(rows["__at"]), self._topics))

    def as_state(self) -> list[pa.Table]:
        """The rows of the state table that the changes are."""
        found = []
        for part, rows in self.changes.items():
            columns = {name: rows[name] for name in rows.column_names} | {
                "__at": as_position(rows, self._topics)
            }
            fields = [*self._held.state.schema.field(part).type]
            arrays = [whole(columns[each.name]).cast(each.type) for each in fields]
            row = pa.StructArray.from_arrays(arrays, fields=fields)
            found.append(pa.table({"__part": pa.repeat(pa.scalar(part), rows.num_rows), part: row}))
        return found

    def _folded(self, part: str, by: Sequence[str], wanted: Sequence[pa.ChunkedArray]) -> pa.Table:
        rows = self._held.parts[part].matching(by, [whole(column) for column in wanted])
        gone = pa.repeat(pa.scalar(False), rows.num_rows)
        more = {"__deleted": gone, "__batch": pa.repeat(pa.scalar(FOLDED, pa.int32()), rows.num_rows)}
        columns = {name: rows[name] for name in rows.column_names}
        if "__gone" in columns:
            more["__deleted"] = columns.pop("__gone")
        return self._like_pending(part, columns | more)

    def _pending(self, part: str) -> pa.Table:
        """All changes that are not folded."""
        if part not in self._known:
            held = self._held
            rows = held.state.within("__batch", held.folded + 1, self._through, ["__batch", part], part=part)
            row = whole(rows[part])
            columns = dict(zip(row.type.names, row.flatten(), strict=True)) | {"__batch": rows["__batch"]}
            self._known[part] = self._like_pending(part, columns)
        return self._known[part]

    def _like_pending(self, part: str, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
        fields = [*self._held.state.schema.field(part).type, self._held.state.schema.field("__batch")]
        return pa.table({each.name: columns[each.name].cast(each.type) for each in fields})


def columns_of(rows: pa.Table, names: Sequence[str]) -> list[pa.ChunkedArray]:
    """Some columns of rows."""
    return [rows[name] for name in names]


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
