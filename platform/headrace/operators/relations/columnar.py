"""Foreign-key joins of tables by Arrow: what `RelationOperator.fold` does, behind the fates that Spark decides.

The rows of all tables come in one frame. As many columns as the widest of them has of a type are shared by all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import Join, Table, quote
from headrace.description.join import INNER
from headrace.operators.columnar import Columnar, ColumnarFold, Found
from headrace.operators.columnar.fold import tallied
from headrace.operators.columnar.keys import NONE, among, encoded, newest, rows_by_key
from headrace.operators.columnar.places import (
    PLACE,
    as_position,
    not_before,
    numbers_of,
    places,
    sorted_topics,
)
from headrace.operators.relations.sides import JoinSide, TableSide
from headrace.operators.relations.store import FOLDED
from headrace.operators.tables.columnar import (
    LatestRows,
    columnar_rows,
    decided_columns,
    without_values,
)
from headrace.spark.frames import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.operators.columnar import HeldFiles
    from headrace.operators.progress import Progress
    from headrace.operators.relations.sides import Leaf, Side

INTERNAL = ("__deleted", "__event_ms", *PLACE)


def columnar_relation(root: Side, state: StructType) -> Columnar | None:
    """How the increments of a node are folded; None: Spark has to.

    In: root   of its sides, whose topics are read by one of them each
        state  the schema of its state
    """
    topics = sorted_topics([topic.name for leaf in root.leaves for topic in leaf.node.topics])
    side = _side_of(root, state)
    if side is None:
        return None
    leaves = [*root.leaves]
    wanted = [decided_columns(leaf.node, topics) for leaf in leaves if isinstance(leaf.node, Table)]
    shared = [_shared(leaf, _row(state, leaf.part)) for leaf in leaves]
    selections = [Selection(*_renamed(columns, names)) for columns, names in zip(wanted, shared, strict=True)]
    tables = {
        leaf.part: Decided(
            {ours: theirs for theirs, ours in names.items()},
            tuple(topics.index(topic.name) for topic in leaf.node.topics),
        )
        for leaf, names in zip(leaves, shared, strict=True)
    }

    def rows(logs: Mapping[str, DataFrame]) -> DataFrame:
        frames = [
            selection.of(leaf.operator.decide(logs))
            for leaf, selection in zip(leaves, selections, strict=True)
        ]
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    return Columnar(ColumnarRelation(side, topics, tables), rows)


def _side_of(side: Side, state: StructType) -> ArrowSide | None:
    """The side as Arrow works it out; None: it cannot."""
    match side:
        case TableSide():
            assert isinstance(side.node, Table)
            rows = columnar_rows(side.node, _row(state, side.part))
            return None if rows is None else ArrowTable(side.part, rows, side.remembers)
        case JoinSide():
            sides = [_side_of(each, state) for each in (side.left, side.right)]
            values = _values(side.node)
            left, right = sides
            if left is None or right is None or values is None:
                return None
            return ArrowJoin(side.part, left, right, side.node.on, side.node.how == INNER, values)
    return None


def _row(state: StructType, part: str) -> StructType:
    """The columns of a part's rows."""
    columns = state[part].dataType
    assert isinstance(columns, T.StructType)
    return columns


def _values(node: Join) -> tuple[tuple[str, str, str], ...] | None:
    """Each value's name, and the side and the column that it repeats; None: one is computed."""
    if node.selection is None:
        left = [(name, "left", name) for name in node.left.values]
        return (*left, *((name, "right", name) for name in node.right.values))
    sides = {"left": node.left, "right": node.right}
    found = []
    for expression in node.selected:
        match expression.repeats:
            case (("left" | "right") as side, name):
                pass
            case (name,):
                side = "left" if name.lower() in {n.lower() for n in node.left.columns} else "right"
            case _:
                return None
        spelled = {column.lower(): column for column in sides[side].columns}.get(name.lower())
        if spelled is None:
            return None
        if expression.name not in node.identity:
            found.append((expression.name, side, spelled))
    return tuple(found)


def _shared(leaf: Leaf, columns: StructType) -> dict[str, str]:
    """For each column of a table the one that carries it: of each type so many as it has of it."""
    seen: Counter[str] = Counter()
    names = {}
    for name in (*leaf.node.identity, *leaf.node.values):
        kind = columns[name].dataType.simpleString()
        names[name] = f"{kind}:{seen[kind]}"
        seen[kind] += 1
    return names


def _renamed(columns: Sequence[Expr], names: Mapping[str, str]) -> list[Expr]:
    """`decided_columns` of a table under the names that carry them; the table's own come first."""
    carried = [F.col(quote(name)).alias(carrier) for name, carrier in names.items()]
    return [*carried, *columns[len(names) :]]


@dataclass(frozen=True)
class Decided:
    """Where the rows of a table are among all.

    columns  for each column that carries one of the table's that one
    topics   the table's, by number
    """

    columns: Mapping[str, str]
    topics: tuple[int, ...]

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows that are the table's, with its columns."""
        columns = [name for name in rows.column_names if name in self.columns or name.startswith("__")]
        mine = rows.select(columns).rename_columns([self.columns.get(name, name) for name in columns])
        row = np.flatnonzero(np.isin(rows["__source"].to_numpy(), self.topics))
        if not len(row) or row[-1] - row[0] == len(row) - 1:  # they lie together, and are not copied
            return mine.slice(row[0] if len(row) else 0, len(row))
        return mine.take(pa.array(row))


class Store:
    """What is held as of a micro-batch, and what the next one changes (see `store.Store`).

    changes  for each part its rows: the columns of the node, and `INTERNAL`
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
            mine = pending.filter(pa.array(among(_of(pending, by), wanted)))
            keys = _of(pa.concat_tables([folded, mine]), key)
        rows = pa.concat_tables([folded, pending.filter(pa.array(among(_of(pending, key), keys)))])
        rows = rows.combine_chunks()
        (number,), count = encoded(_of(rows, key))
        rows = rows.take(pa.array(newest(number, count, numbers_of(rows, ["__batch"]))))
        rows = rows.filter(pa.array(among(_of(rows, by), wanted))).combine_chunks()
        own = {name: rows[name] for name in rows.column_names if name not in ("__at", "__batch")}
        return pa.table(own | places(_whole(rows["__at"]), self._topics))

    def as_state(self) -> list[pa.Table]:
        """The rows of the state table that the changes are."""
        found = []
        for part, rows in self.changes.items():
            columns = {name: rows[name] for name in rows.column_names} | {
                "__at": as_position(rows, self._topics)
            }
            fields = [*self._held.state.schema.field(part).type]
            arrays = [_whole(columns[each.name]).cast(each.type) for each in fields]
            row = pa.StructArray.from_arrays(arrays, fields=fields)
            found.append(pa.table({"__part": pa.repeat(pa.scalar(part), rows.num_rows), part: row}))
        return found

    def _folded(self, part: str, by: Sequence[str], wanted: Sequence[pa.ChunkedArray]) -> pa.Table:
        rows = self._held.parts[part].matching(by, [_whole(column) for column in wanted])
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
            row = _whole(rows[part])
            columns = dict(zip(row.type.names, row.flatten(), strict=True)) | {"__batch": rows["__batch"]}
            self._known[part] = self._like_pending(part, columns)
        return self._known[part]

    def _like_pending(self, part: str, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
        fields = [*self._held.state.schema.field(part).type, self._held.state.schema.field("__batch")]
        return pa.table({each.name: columns[each.name].cast(each.type) for each in fields})


def _of(rows: pa.Table, names: Sequence[str]) -> list[pa.ChunkedArray]:
    return [rows[name] for name in names]


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


class ArrowSide(ABC):
    """Current rows by key (see `sides.Side`)."""

    part: str

    @property
    @abstractmethod
    def key(self) -> tuple[str, ...]:
        """The columns of its identity."""

    @abstractmethod
    def changed(self, came: Mapping[str, pa.Table], store: Store) -> pa.Table:
        """What a micro-batch changes: the columns of the node, and `INTERNAL`; one row per key.

        In: came  for each table by its part the rows that were decided
        """

    def changes(self, came: Mapping[str, pa.Table], store: Store) -> pa.Table:
        """The same, and it is noted in the store, with what changes below."""
        rows = self.changed(came, store)
        store.changes[self.part] = rows
        return rows


@dataclass(frozen=True)
class ArrowTable(ArrowSide):
    """A table (see `sides.TableSide`)."""

    part: str
    rows: LatestRows
    remembers: bool

    @property
    def key(self) -> tuple[str, ...]:
        """Of the table."""
        return self.rows.key

    def changed(self, came: Mapping[str, pa.Table], store: Store) -> pa.Table:
        """The latest record of each key; where an older one can come later, the later of it and the current row."""
        rows = self.rows.of_increment(came[self.part])
        if not self.remembers:
            return rows
        known = store.lookup(self.part, self.key, self.key, _of(rows, self.key))
        return self.rows.of(pa.concat_tables([rows, known.select(rows.column_names)]))


@dataclass(frozen=True)
class ArrowJoin(ArrowSide):
    """A join (see `sides.JoinSide`).

    inner   whether rows without a match are left out
    values  each value's name, and the side and the column that it repeats
    """

    part: str
    left: ArrowSide
    right: ArrowSide
    on: tuple[str, ...]
    inner: bool
    values: tuple[tuple[str, str, str], ...]

    @property
    def key(self) -> tuple[str, ...]:
        """That of the left side."""
        return self.left.key

    def changed(self, came: Mapping[str, pa.Table], store: Store) -> pa.Table:
        """The results of the left rows that changed, and of those that refer to a right row that changed."""
        left, right = self.left.changes(came, store), self.right.changes(came, store)
        referring = store.lookup(self.left.part, self.left.key, self.on, _of(right, self.right.key))
        others = _without(_alive(referring), left, self.left.key)
        wanted = _of(_alive(left), self.on)
        known = store.lookup(self.right.part, self.right.key, self.right.key, wanted)
        others, known = (
            each.select(of.column_names)
            for each, of in ((others, left), (_without(known, right, self.right.key), right))
        )
        return self._joined(pa.concat_tables([left, others]), _alive(pa.concat_tables([right, known])))

    def _joined(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """Each left row with the right row that it refers to, if that is there (see `sides.JoinSide.joined`)."""
        left, right = left.combine_chunks(), right.combine_chunks()
        (mine, theirs), count = encoded(_of(left, self.on), _of(right, self.right.key))
        row = rows_by_key(theirs, count)[mine]
        matched = row != NONE
        of_right = pa.array(row, mask=~matched)
        deleted = left["__deleted"].to_numpy()
        if self.inner:
            deleted = deleted | ~matched
        columns = {name: left[name] for name in self.key}
        for name, side, column in self.values:
            columns[name] = left[column] if side == "left" else right[column].take(of_right)
        columns["__deleted"] = pa.array(deleted)
        columns["__event_ms"] = pc.max_element_wise(left["__event_ms"], right["__event_ms"].take(of_right))
        here, there = numbers_of(left, PLACE), [_at(each, row) for each in numbers_of(right, PLACE)]
        later = matched & not_before(there, here)
        for name, own, others in zip(PLACE, here, there, strict=True):
            columns[name] = pa.array(np.where(later, others, own))
        return without_values(pa.table(columns), [name for name, _, _ in self.values])


def _at(values: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Values at rows, anything where there is none."""
    return values[row] if len(values) else np.zeros(len(row), values.dtype)


def _alive(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(rows["__deleted"]))


def _without(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose keys others do not have."""
    return rows.filter(pa.array(~among(_of(rows, key), _of(others, key))))


@dataclass(frozen=True)
class ColumnarRelation(ColumnarFold):
    """A tree of joins and tables as a node.

    topics  of all tables, as they are numbered
    tables  by their parts
    """

    root: ArrowSide
    topics: tuple[str, ...]
    tables: Mapping[str, Decided]

    def fold(self, rows: pa.Table, upto_ms: Mapping[str, int], held: HeldFiles, progress: Progress) -> Found:
        """See `RelationOperator.fold`."""
        after = progress.after(upto_ms, tallied(rows, self.topics), self.topics)
        store = Store(held, progress.batch, self.topics)
        self.root.changes({part: table.of(rows) for part, table in self.tables.items()}, store)
        return Found(None, store.as_state(), after)
