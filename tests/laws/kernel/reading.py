"""A world as one operator reads it, and as its oracle does.

Steps of streams are SQL, which the laws of the kernel do without: a `select` here only names columns, a
`flat_map` takes a column, and a condition of a
table is that a column is above 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace import oracle
from headrace.description import FlatMap, Join, Node, Refined, Select, WithColumn, parse_expression
from headrace.description.feeds import Feed, feeds_of
from headrace.engine.folding.operators import NodeOperator, operator_of
from headrace.fold.changes.station import MADE, Computing, Refinement
from headrace.fold.changes.station import PASSES as PASSES_STEPS
from headrace.fold.contract import INGESTED, ROW_COLUMNS, STREAM, TOPIC, Clock, Times
from headrace.fold.fates import with_column
from headrace.fold.tables.decide_records import PASSES
from headrace.operators.time_limits.fold.limits_in_force import standing
from tests.laws.kernel.logs import World

Values = Mapping[str, Any]
Pair = tuple[Values | None, Values | None]


@dataclass(frozen=True)
class Computed:
    """What SQL computes of a relation, once more in Python: the select of a join, and the steps after a table.

    part     of the join, or of the steps, in their relation
    columns  of the join; of steps those that SQL makes, and PASSES
    value    of a pair of a left and a right row (None: there is none), or of a row of the table, each value; None: a `where`
             of the steps refuses the row
    more     what else SQL computes
    """

    part: str
    columns: pa.Schema
    value: Any
    more: Computed | None = None

    @property
    def by_part(self) -> dict[str, Computed]:
        """This, and what else SQL computes."""
        return {self.part: self} | (self.more.by_part if self.more else {})

    def for_kernel(self, selections: Mapping[str, Computing], rows: pa.Table) -> pa.Table:
        """As `fold_increment` asks for it."""
        for part, selection in selections.items():
            if isinstance(selection, Refinement):
                rows = self._refined(selection, rows)
                continue
            this, pairs = self.by_part[part], []
            for row in rows.to_pylist():
                left = {name: row[carried] for name, carried in selection.left.items()}
                right = {name: row[carried] for name, carried in selection.right.items()}
                pairs.append(
                    (
                        left if any(value is not None for value in left.values()) else None,
                        right if row[selection.matched] else None,
                    )
                )
            found = [this.value(*pair) for pair in pairs]
            for name in selection.values:
                of = this.columns.field(name).type
                rows = rows.append_column(f"{part}:{name}", pa.array([row[name] for row in found], of))
        return rows

    def for_oracle(self, join: Join, pairs: Sequence[Pair]) -> list[Values]:
        """As `oracle.Log` asks for it."""
        this = next(each for each in self.by_part.values() if {*join.columns} <= {*each.columns.names})
        return [this.value(*pair) for pair in pairs]

    def refine(self, node: Refined, rows: Sequence[Values]) -> list[Values | None]:
        """The same for steps after a table."""
        this = next(each for each in self.by_part.values() if PASSES_STEPS in each.columns.names)
        found = []
        for row in rows:
            made = this.value(row)
            own = {name: row[origin] for name, origin in node.origins.items() if origin is not None}
            found.append(None if made is None else own | made)
        return found

    def _refined(self, refinement: Refinement, rows: pa.Table) -> pa.Table:
        this = self.by_part[refinement.part.removesuffix("_rows") if refinement.part != "rows" else "result"]
        made = []
        for row in rows.to_pylist():
            own = {name: row[carried] for name, carried in refinement.source.items()}
            there = any(own[name] is not None for name in refinement.key)
            made.append(this.value(own) if there else None)
        for name in refinement.types.names:
            plain = name.removeprefix(MADE)
            values = [one is not None if name == PASSES_STEPS else one and one[plain] for one in made]
            rows = rows.append_column(
                f"{refinement.part}:{name}", pa.array(values, this.columns.field(name).type)
            )
        return rows


class Reading:
    """A world of the topics that a node reads."""

    def __init__(
        self, node: Node, world: World, *, changes: bool = False, computed: Computed | None = None
    ) -> None:
        self.node, self.computed = node, computed
        self.topics = [topic.name for topic in node.topics]
        self.world = world.of(*self.topics)
        self.commits = self.world.commits
        self.feeds = {name: self._feed(feed) for name, feed in feeds_of(node).items()}
        self.operator = self._operator(changes)

    def increment(self, after: dict[str, int], upto: dict[str, int]) -> tuple[pa.Table, Times]:
        """Rows as the first step takes them."""
        times = seen(self.world.times(after, upto), self.log, max(after.values(), default=-1))
        before = standing(self.world.limits({}, after), self.node.name or "")
        rows = self.world.between(self._rows, after, upto)
        return rows, replace(times, limits=[*before, *self.world.limits(after, upto)])

    @cached_property
    def _rows(self) -> pa.Table:
        """All rows as the first step takes them, which is decided row by row."""
        return self.operator.kernel.rows(
            {name: with_floor(rows, self.log) for name, rows in self.feeds.items()}
        )

    @cached_property
    def log(self) -> oracle.Log:
        """The same for the oracle."""
        plain = {name: rows.to_pylist() for name, rows in self.feeds.items()}
        compute, refine = (self.computed.for_oracle, self.computed.refine) if self.computed else (None, None)
        schemas = {name: rows.schema for name, rows in self.feeds.items()}
        log = oracle.Log(plain, compute=compute, refine=refine, schemas=schemas)  # type: ignore[arg-type]
        return oracle.read_by(self.node, log)

    def _operator(self, changes: bool) -> NodeOperator:
        own = (*ROW_COLUMNS.names, PASSES)
        columns = {
            name: pa.schema([field for field in rows.schema if field.name not in own])
            for name, rows in self.feeds.items()
        }
        key = self.node, tuple(map(str, columns.values())), changes
        if key not in _KNOWN:
            parts = self.computed.by_part if self.computed else {}
            computed = {part: each.columns for part, each in parts.items()}
            _KNOWN[key] = operator_of(self.node, columns, changes=changes, computed=computed)
        return _KNOWN[key]

    def _feed(self, feed: Feed) -> pa.Table:
        """The rows of a stream."""
        tables = [self._branch(branch.topic, branch.steps) for branch in feed.stream.branches]
        rows = pa.concat_tables([table.select(tables[0].column_names) for table in tables])
        for condition in feed.conditions:
            name, above, nothing = condition.split()
            assert (above, nothing) == (">", "0")
            rows = rows.append_column(PASSES, pc.greater(rows[name], 0))
        return rows.combine_chunks()

    def _branch(self, topic: Any, steps: Sequence[Any]) -> pa.Table:
        rows = self.world.everything
        rows = rows.filter(pc.equal(rows[TOPIC], topic.name)).combine_chunks()
        value = rows["value"].combine_chunks()
        (key,), names = topic.key_columns, [column.name for column in topic.value_columns]
        parts = value.flatten() if len(names) > 1 else [value]
        columns = {key.name: rows["key"], **dict(zip(names, parts, strict=True))}
        for step in steps:
            if isinstance(step, FlatMap):
                assert step.expression == step.name  # an array that is there
                continue
            if isinstance(step, WithColumn):
                columns[step.name] = structs(step.expression, columns)
                continue
            assert isinstance(step, Select)
            read = (parse_expression(sql, "select") for sql in step.expressions)
            columns = {each.name: columns[each.repeats[0]] for each in read}
        return pa.table(columns | {name: rows[name] for name in ROW_COLUMNS.names})


def structs(expression: str, columns: Mapping[str, Any]) -> pa.Array:
    """Several columns as one, as `hr.top` by several of them reads it."""
    names = expression.removeprefix("struct(").removesuffix(")").split(", ")
    parts = [columns[name] for name in names]
    whole = [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in parts]
    return pa.StructArray.from_arrays(whole, names)


_KNOWN: dict[Any, NodeOperator] = {}


def seen(times: Times, log: oracle.Log, after_ms: int) -> Times:
    """Clocks with the stream time of the node, and the idle topics, as the oracle finds them.

    In: after_ms  the commit time after which the increment begins
    """
    commits = [(at, clock_at(clock, log, at)) for at, clock in times.commits]
    after = clock_at(times.after, log, max(times.after.upto_ms.values(), default=-1))
    return replace(times, before=clock_at(times.before, log, after_ms), after=after, commits=commits)


def clock_at(clock: Clock, log: oracle.Log, at_ms: int) -> Clock:
    """A clock after the last commit through a commit time."""
    place = bisect_right(log.all_commits, at_ms, key=lambda commit: commit.at_ms) - 1
    if place < 0:
        return clock
    return replace(clock, idle=log.all_commits[place].idle, lowest_ms=log.commits[place][1].lowest_ms)


def with_floor(rows: pa.Table, log: oracle.Log) -> pa.Table:
    """Rows with the stream times that they have for the node."""
    floors: dict[int, int | None] = {}
    before_ms: int | None = None
    for at_ms, times in log.commits:
        floors[at_ms], before_ms = before_ms, times.lowest_ms
    stream = [
        ms if ms is None or (floor := floors[at]) is None or topic not in log.driving else max(ms, floor)
        for at, topic, ms in zip(*(rows[name].to_pylist() for name in (INGESTED, TOPIC, STREAM)), strict=True)
    ]
    return with_column(rows, STREAM, pa.array(stream, pa.int64()))
