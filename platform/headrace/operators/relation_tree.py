"""A relation as a tree of stations: its sides, theirs, and so on down to folds of logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.description import (
    Join,
    Refined,
    Relation,
    RunningAggregate,
    Table,
    TableAggregate,
    WindowedAggregate,
)
from headrace.description.aggregates import count
from headrace.description.feeds import LEFT, RESULT, RIGHT, ROWS, below
from headrace.description.join import INNER, OUTER
from headrace.errors import DescriptionError
from headrace.fold.aggregates import Aggregates
from headrace.fold.aggregates.table import spelling
from headrace.fold.changes.deltas import delta_schema
from headrace.fold.changes.station import (
    MADE,
    ByOwnKey,
    Computing,
    Ports,
    Refinement,
    Route,
    Selection,
    StatelessStation,
    Station,
    StationResult,
)
from headrace.fold.contract import Times
from headrace.fold.grouped import ByGroupOfRow, GroupedMembers, GroupedRows
from headrace.fold.grouped.contributions import ROWS as NUMBER
from headrace.fold.grouped.contributions import ByGroup
from headrace.fold.grouped.distinct_values import DistinctValues
from headrace.fold.grouped.picks import PICKED, Pick, plain_field
from headrace.fold.joins import ForeignKeyJoin, OuterJoin
from headrace.fold.joins.sides import MATCHED
from headrace.fold.relations.aggregate_leaves import TotalsLeaf, WindowsLeaf
from headrace.fold.relations.final_windows import FinalWindows
from headrace.fold.relations.leaf import TableLeaf, TableStation
from headrace.fold.relations.refined_rows import RefinedRows
from headrace.fold.relations.relation_steps import Branch, Relations
from headrace.fold.tables.latest_rows import latest_rows_of
from headrace.fold.values.columns import MOMENT
from headrace.fold.window_shape import START
from headrace.fold.windows.shape import Shape

if TYPE_CHECKING:
    from headrace.description import Aggregate

DISTINCT = "count_distinct"
FROM_ROWS = (*PICKED, DISTINCT)  # kinds of aggregates


@dataclass
class ComputedValues(StatelessStation):
    """Takes rows of both sides with the values that the caller has computed, and gives those of the join.

    columns    of the join
    selection  what the caller computes
    """

    part: str
    columns: pa.Schema
    selection: Selection
    scoped: bool = False
    threads = True

    def __post_init__(self) -> None:
        self.routes: Mapping[str, Route] = {self.part: ByOwnKey()}

    def fold(self, ports: Ports, state: Ports, times: Times) -> StationResult:
        """The columns of the join."""
        return StationResult(ports[self.part].select(delta_schema(self.columns).names))


@dataclass(frozen=True)
class Needed:
    """The values of a relation that SQL computes.

    words      what computes them, for an error
    carried    the columns that rows carry for it
    key        the columns of the relation beside these values
    """

    words: str
    computing: Computing
    carried: pa.Schema
    key: Sequence[pa.Field] = ()


@dataclass(frozen=True)
class Grower:
    """Grows the parts of a tree of relations.

    inputs    the columns of each leaf by its part: those of its stream, ROW_COLUMNS, and PASSES if it has conditions
    computed  columns by part. For a join whose select computes values: the columns of the join. For steps after a table: the
              columns that SQL computes (see `refinement_of`)
    """

    inputs: Mapping[str, pa.Schema]
    computed: Mapping[str, pa.Schema]
    per_commit: bool

    def branch(self, node: Relation, part: str = RESULT, wanted: Sequence[str] | None = None) -> Branch:
        """A relation. In: wanted  the columns that a row before must have; None: rows before are not asked for."""
        match node:
            case Table():
                return self._table(node, part, wanted)
            case Join():
                return self._join(node, part)
            case TableAggregate():
                return self._groups(node, part)
            case Refined():
                return self._refined(node, part)
            case RunningAggregate():
                return self._totals(node, part)
            case WindowedAggregate():
                return self._windows(node, part)
        raise AssertionError(f"a relation of another kind: {type(node)}")

    def needed(self, node: Relation, part: str) -> Needed | None:
        """The values that SQL computes of a relation, whatever it computes of those below it; None: there are none."""
        match node:
            case Refined() if node.is_computed:
                refinement = refinement_of(node, part, pa.schema([]))
                rows = self.branch(node.table, below(part, ROWS)).columns
                fields = [rows.field(name).with_name(carry) for name, carry in refinement.source.items()]
                return Needed("A step after a table", refinement, pa.schema(fields))
            case Join() if repeated_values(node) is None:
                selection = selection_of(node, part, pa.schema([]))
                left = self.branch(node.left, below(part, LEFT)).columns
                right = self.branch(node.right, below(part, RIGHT)).columns
                key = [left.field(name) for name in node.key]
                sides = ((left, selection.left), (right, selection.right))
                fields = [
                    pa.field(carry, of.field(name).type) for of, own in sides for name, carry in own.items()
                ]
                fields += [
                    of.with_name(carry) for of, carry in zip(key, selection.key.values(), strict=False)
                ]
                return Needed("The select of a join", selection, pa.schema(fields), key)
        return None

    def _table(self, node: Table, part: str, wanted: Sequence[str] | None) -> Branch:
        kept = tuple(dict.fromkeys((*node.key, *(wanted or ()))))
        rows = latest_rows_of(node, self.inputs[part], kept, per_commit=self.per_commit)
        leaf = TableLeaf(part, self.inputs[part], node.key, rows)
        station = TableStation(part, rows, wanted is not None or rows.remembers)
        return Branch(part, leaf.columns, (leaf,), ((1, station),), 1)

    def _join(self, node: Join, part: str) -> Branch:
        is_outer = node.how == OUTER  # its station knows the rows before of both sides
        left = self.branch(node.left, below(part, LEFT), None if is_outer else node.left.columns)
        right = self.branch(node.right, below(part, RIGHT))
        self._check_types(node, left, right)
        values = repeated_values(node)
        raw = values is None
        if values is None:
            both = ((LEFT, left.columns), (RIGHT, right.columns))
            values = tuple((f"{side}.{name}", side, name) for side, of in both for name in of.names)
        sides = (part, left.part, right.part, left.columns, right.columns, node.key)
        station: ForeignKeyJoin | OuterJoin
        if is_outer:
            station = OuterJoin(*sides, node.right.key, values, raw, self.per_commit)
        else:
            station = ForeignKeyJoin(*sides, node.on, values, node.how == INNER, raw, self.per_commit)
        level = max(left.level, right.level) + 1
        stations: list[tuple[int, Station]] = [*left.stations, *right.stations, (level, station)]
        columns = station.columns
        if raw:
            columns, level = self.computed[part], level + 1
            stations.append((level, ComputedValues(part, columns, selection_of(node, part, columns))))
        return Branch(part, columns, (*left.leaves, *right.leaves), tuple(stations), level, not is_outer)

    def _groups(self, node: TableAggregate, part: str) -> Branch:
        read = [column for _, aggregate in node.aggregates for column in aggregate.columns]
        spelled = [node.table.shape.resolve(name, "aggregate") for name in read]
        rows = self.branch(node.table, below(part, ROWS), (*node.by, *spelled))
        added = [(name, each) for name, each in node.aggregates if each.kind not in FROM_ROWS]
        aggregates = Aggregates.of((*added, (NUMBER, count())), rows.columns)
        by = pa.schema([rows.columns.field(name) for name in node.by])
        if len(added) == len(node.aggregates):
            route = ByGroup(node.by, aggregates, self.per_commit)
            station = GroupedRows(part, rows.part, by, aggregates, route, self.per_commit)
        else:
            names, picks = (
                [name for name, _ in node.aggregates],
                row_aggregates(node.aggregates, rows.columns),
            )
            each = ByGroupOfRow(node.by, tuple(spelled))
            station = GroupedMembers(
                part, rows.part, by, aggregates, each, self.per_commit, picks=picks, shown=names
            )
        level = rows.level + 1
        return Branch(part, station.columns, rows.leaves, (*rows.stations, (level, station)), level)

    def _refined(self, node: Refined, part: str) -> Branch:
        rows = self.branch(node.table, below(part, ROWS), node.table.columns)
        origins = {name: name for name in node.key}
        origins |= {name: origin for name, origin in node.origins.items() if origin is not None}
        refinement = refinement_of(node, part, self.computed.get(part, pa.schema([])))
        of_made = {name: refinement.types.field(f"{MADE}{name}").type for name in refinement.made}
        fields = [
            rows.columns.field(origins[name]).with_name(name)
            if name in origins
            else pa.field(name, of_made[name])
            for name in node.columns
        ]
        level = rows.level + 1 if node.is_computed else rows.level
        computed = refinement if node.is_computed else None
        station = RefinedRows(part, rows.part, pa.schema(fields), origins, computed)
        # Where SQL computes something, rows are brought together for the step after it.
        apart = rows.apart and not node.is_computed
        return Branch(part, station.columns, rows.leaves, (*rows.stations, (level, station)), level, apart)

    def _totals(self, node: RunningAggregate, part: str) -> Branch:
        inputs = self.inputs[part]
        aggregates = Aggregates.of((*node.aggregates, (NUMBER, count())), inputs)
        topics = tuple(topic.name for topic in node.topics)
        leaf = TotalsLeaf(part, inputs, node.by, aggregates, topics, self.per_commit)
        by = pa.schema([inputs.field(name) for name in node.by])
        station = GroupedRows(part, part, by, aggregates, ByOwnKey(), self.per_commit)
        return Branch(part, station.columns, (leaf,), ((1, station),), 1)

    def _windows(self, node: WindowedAggregate, part: str) -> Branch:
        inputs = self.inputs[part]
        aggregates = Aggregates.of((*node.aggregates, (NUMBER, count())), inputs)
        shape = replace(Shape.of(node, inputs), aggregates=aggregates)
        leaf = WindowsLeaf(part, inputs, shape, self.per_commit)
        station: Station = FinalWindows(part, shape, self.per_commit)
        if node.suppression is None:
            by = pa.schema([*shape.by, (START, MOMENT)])
            station = GroupedRows(part, part, by, shape.aggregates, ByOwnKey(), self.per_commit, shape.panes)
        return Branch(part, station.columns, (leaf,), ((1, station),), 1)

    def _check_types(self, node: Join, left: Branch, right: Branch) -> None:
        for mine, theirs in zip(node.on, node.right.key, strict=True):
            of, other = left.columns.field(mine).type, right.columns.field(theirs).type
            wider = node.how != OUTER and any(
                test(of) and test(other) for test in (pa.types.is_integer, pa.types.is_floating)
            )
            if of != other and not wider:
                raise DescriptionError(
                    f"join: '{mine}' is {of} on the left and '{theirs}' is {other} on the right.",
                    hint=f"Cast one of them before: .with_column('{mine}', 'CAST({mine} AS …)').table().",
                )


def relations_of(
    node: Relation,
    inputs: Mapping[str, pa.Schema],
    *,
    changes: bool = True,
    computed: Mapping[str, pa.Schema] | None = None,
    appended: bool = False,
) -> Relations:
    """The kernel of a relation.

    In: inputs    for each leaf (see `description.feeds.leaves_of`) the columns of its stream and ROW_COLUMNS; PASSES if it
                  is a table with conditions
        changes   whether each change is wanted; without it a micro-batch counts as one commit
        computed  for each join whose select computes values the columns of the join, by its part
        appended  whether the changes are the results, and stay
    Raises: DescriptionError when the type of a foreign key is not that of the key
    """
    tree = Grower(inputs, computed or {}, changes).branch(node, RESULT, node.columns)
    return Relations.of(tree, node.key, changes=changes, appended=appended)


def repeated_values(node: Join) -> tuple[tuple[str, str, str], ...] | None:
    """Each value's name, and the side and the column that it repeats; None: SQL computes one."""
    right_key = node.right.key
    if node.selection is None:
        left = [(name, LEFT, name) for name in node.left.values]
        return (*left, *((name, RIGHT, name) for name in node.right.columns if name not in right_key))
    found = []
    for expression in node.selected:
        if expression.name in node.key:
            continue
        source = _source(node, expression.repeats)
        if source is None:
            return None
        found.append((expression.name, *source))
    return tuple(found)


def _source(node: Join, path: tuple[str, ...]) -> tuple[str, str] | None:
    """The side and the column that a path names; None: it is no column."""
    sides = {LEFT: node.left.columns, RIGHT: node.right.columns}
    if not path or len(path) > 2 or (len(path) == 2 and path[0] not in sides):
        return None
    *side_named, name = path
    on_left = name.lower() in {column.lower() for column in node.left.columns}
    side = side_named[0] if side_named else LEFT if on_left else RIGHT
    spelled = {column.lower(): column for column in sides[side]}.get(name.lower())
    return None if spelled is None else (side, spelled)


def refinement_of(node: Refined, part: str, types: pa.Schema) -> Refinement:
    """The columns of a table's steps that the caller computes. In: types  the types of these columns and of PASSES."""
    source = below(part, ROWS)
    made = [name for name in node.columns if node.origins.get(name, name) is None]
    carried = {name: f"{source}:{name}" for name in node.table.columns}
    return Refinement(source, carried, node.key, node.steps, made, types)


def selection_of(node: Join, part: str, types: pa.Schema) -> Selection:
    """The values of a join that the caller computes. In: types  the columns of the join."""
    carried = {
        side: {name: f"{part}:{side}.{name}" for name in of.columns}
        for side, of in ((LEFT, node.left), (RIGHT, node.right))
    }
    values = {e.name: e.sql for e in node.selected if e.name not in node.key}
    key = {name: f"{part}:{name}" for name in node.key} if node.how == OUTER else {}
    return Selection(part, carried[LEFT], carried[RIGHT], f"{part}:{MATCHED}", values, types, key)


def row_aggregates(
    aggregates: Sequence[tuple[str, Aggregate]], rows: pa.Schema
) -> tuple[Pick | DistinctValues, ...]:
    """Those of a description. In: rows  the columns of the table."""
    found: list[Pick | DistinctValues] = []
    for name, each in aggregates:
        if each.kind == DISTINCT:
            assert each.column is not None
            found.append(DistinctValues(name, plain_field(rows.field(spelling(rows, each.column)))))
        elif each.kind in PICKED:
            found.append(Pick.described(name, each, rows))
    return tuple(found)
