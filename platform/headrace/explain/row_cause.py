"""`why`: a row of a node, the records that made it, and those of its key that did not count.

Law: without any record that is not named, the oracle's row is equal. Without one that is *deciding*, it differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.description.epoch_time import milliseconds, moment
from headrace.description.node_output import NodeOutput
from headrace.description.windows import START
from headrace.engine.slices.log_parts import rows_of_place
from headrace.errors import DescriptionError, TerminalError
from headrace.explain.recomputation import Recomputation, place_of
from headrace.explain.scope_size import read_evidence, require_small
from headrace.lake import open_table
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.descriptions.references import resolve_references
from headrace.observe.sought_keys import Sought
from headrace.operators.key_scope import KeyScope
from headrace.operators.provenance import late_by_ms
from headrace.oracle.fates import LATE, OPEN, USED
from headrace.oracle.values import identity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.oracle import Results
    from headrace.oracle.log import Row

ROWS_MAX = 10  # rows that one call explains
Values = Mapping[str, Any]


@dataclass(frozen=True)
class NamedRecord:
    """A record that took part in a row.

    feed      "result", or the side of a join, or the "versions" of a lookup's table
    event_ms, stream_ms  event time; stream time of its partition when it arrived, for the node
    values    its columns, after the row-wise steps
    deciding  whether the row differs without it; None: not recomputed, which would cost too much
    without   the columns of the row that differ without it; None: there is no such row then, or it is not known
    """

    feed: str
    topic: str
    partition: int
    offset: int
    event_ms: int | None
    stream_ms: int | None
    values: Values
    deciding: bool | None = None
    without: Values | None = None


@dataclass(frozen=True)
class UncountedRecord:
    """A record of the key, and of the window if there is one, that did not count, with the reason and its numbers."""

    topic: str
    partition: int
    offset: int
    event_ms: int | None
    stream_ms: int | None
    fate: str
    reason: str | None
    late_ms: int | None = None


@dataclass(frozen=True)
class Cause:
    """The cause of a row.

    version  of the node's Delta table
    state    "final" or "current", or "open": the window may still change
    opening_records  how many records of the node's topics the opening balance stands for, over a cut log
    proved   True if the oracle makes this row of the log's records, and of the named records alone
    timer_ms of a processor's row that a timer gave, the time at which the timer was due
    above    the causes of the node's rows among the records
    """

    node: str
    row: Values
    version: int
    state: str
    records: Sequence[NamedRecord]
    uncounted: Sequence[UncountedRecord]
    opening_records: int = 0
    proved: bool = True
    timer_ms: int | None = None
    above: Sequence[Cause] = field(default=())


def causes_of(
    spark: SparkSession, lake: Lake, node: Node, values: Values, *, depth: int = 1, large: bool = False
) -> list[Cause]:
    """Explain the rows of a node that have some values.

    In:     values  of columns of the node's table; texts are read as the column's type. `window` is `window_start`
            depth   through how many nodes above to go
            large   whether to read logs of any size, by Spark
    Raises: DescriptionError for a column that there is not, or too many rows; TerminalError when there is no such row, the
            node has not run, or its logs and tables are too large
    """
    return ExplainedNode(spark, lake, node, large=large).causes(values, depth, None)


class ExplainedNode:
    """A node as of its last micro-batch."""

    def __init__(self, spark: SparkSession, lake: Lake, node: Node, *, large: bool) -> None:
        self.spark, self.lake, self.large = spark, lake, large
        self.node = node = resolve_references(lake, node)
        self.name = name = node.required_name
        self.require_small(keyed=True)
        self.results = open_table(lake.table(name))
        self.evidence = read_evidence(spark, lake, node)
        self.scope = KeyScope(node, self.evidence, self.evidence.progress.frontier_ms(node))
        opening = read_opening(lake, node)
        self.opening_records = sum(sum(opening.records(topic.name).values()) for topic in node.topics)

    def require_small(self, *, keyed: bool) -> None:
        """See `scope_size.require_small`. In: keyed  whether the rows of some keys are enough."""
        hint = "Spark reads the records of the key."
        require_small(self.lake, self.node, large=self.large, hint=hint, keyed=keyed)

    def causes(self, values: Values, depth: int, as_of_ms: int | None) -> list[Cause]:
        """In: as_of_ms  the log commit through which the logs are read; None: all that the node has read."""
        sought = self.sought(values)
        keys = self.keys(sought)
        self._require_few(0 if keys is None else keys.num_rows, "keys", values)  # before a log is read
        log = self._scope_of(sought).log(keys)
        log = log if as_of_ms is None else log.through(as_of_ms)
        recomputed = Recomputation(self.scope, log, keys, sought.values.to_pylist()[0])
        rows = recomputed.rows()
        known = {recomputed.shown(row) for row in rows}
        rows = [*{recomputed.shown(row): row for row in rows}.values()]
        if self.opening_records and as_of_ms is None:
            # The oracle does not know the opening balance: of its rows those count that the table has, too.
            stored = self.evidence.table(sought.columns, sought.values)
            known &= {recomputed.shown(row) for row in stored}
            hidden = not self.node.shows_open
            rows = [row for row in rows if recomputed.shown(row) in known or (hidden and self._is_open(row))]
            rows += [row for row in stored if recomputed.shown(row) not in known]
        if not rows:
            raise TerminalError(
                f"Node '{self.name}' has no row with {_in_words(values)}.",
                hint=f'See its rows: headrace sql "SELECT * FROM {self.name}".',
            )
        self._require_few(len(rows), "rows", values)
        return [self._cause(recomputed, row, depth, is_made=recomputed.shown(row) in known) for row in rows]

    def _require_few(self, number: int, what: str, values: Values) -> None:
        if number > ROWS_MAX:
            raise DescriptionError(
                f"Node '{self.name}' has {number:,} {what} with {_in_words(values)}; {ROWS_MAX} at most are explained.",
                hint="Add a value, such as window=… or that of another column.",
            )

    def sought(self, values: Values) -> Sought:
        """The values that rows of interest have, as the table has them."""
        short = {} if "window" in self.node.columns else {"window": START}
        named = {short.get(name, name): value for name, value in values.items()}
        if unknown := [name for name in named if name not in self.node.columns]:
            raise DescriptionError(
                f"Node '{self.name}' has no column '{unknown[0]}'.",
                hint=f"Its columns are {', '.join(self.node.columns)}.",
            )
        return Sought.of(self.node, named, self.results)

    def _scope_of(self, sought: Sought) -> KeyScope:
        """The scope that is read: for one window, what makes it."""
        start = sought.values[START][0].as_py() if START in sought.columns else None
        return self.scope if start is None else self.scope.of_windows(milliseconds(start) * 1_000)

    def keys(self, sought: Sought) -> pa.Table | None:
        """The keys whose records are replayed; None: all."""
        if self.scope.part is None:
            return None
        by, of = self.scope.by, self.evidence.columns(self.scope.part)
        schema = pa.schema([of.field(name) for name in by])
        if {*by} <= {*sought.columns}:
            return sought.values.select([*by]).cast(schema)
        stored = self.evidence.table(sought.columns, sought.values)
        known = {identity(row[n] for n in by): {n: row[n] for n in by} for row in stored}
        return pa.Table.from_pylist([*known.values()], schema)

    def _cause(self, recomputed: Recomputation, row: Values, depth: int, *, is_made: bool) -> Cause:
        results = recomputed.results()
        records = recomputed.records()
        counted = {place_of(r) for _, r in records if results.fates.get(place_of(r)) in (USED, OPEN)}
        places = recomputed.contributors(row, results) if is_made else counted
        deciding = self._deciding(recomputed, row, places) if is_made else {}
        named = [
            _named(feed, r, *deciding.get(place_of(r), (None, None)))
            for feed, r in records
            if place_of(r) in places
        ]
        return Cause(
            self.name,
            {name: row.get(name) for name in self.node.columns},
            self.evidence.version,
            self._state(row),
            named,
            [*self._uncounted(row, records, results)],
            self.opening_records,
            is_made,
            row.get("__due"),
            [*self._above(records, places, depth)],
        )

    def _deciding(
        self, recomputed: Recomputation, row: Values, places: set[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], tuple[bool, Values | None]]:
        """Whether each named record decides, and what differs without it; the newest come first."""
        decided = {}
        for place in sorted(places, key=lambda each: (each[2], each), reverse=True):
            if recomputed.is_exhausted:
                break
            decided[place] = recomputed.without(row, place)
        return decided

    def _is_open(self, row: Values) -> bool:
        return self.node.has_windows and "__sequence" not in row

    def _state(self, row: Values) -> str:
        if self._is_open(row):
            return "open"
        return "current" if self.node.day_column is None else "final"

    def _uncounted(
        self, row: Values, records: Sequence[tuple[str, Row]], results: Results
    ) -> list[UncountedRecord]:
        """The records of the key that met another fate; of a windowed row those of its window."""
        bounds = (row[START], row["window_end"]) if self.node.has_windows else None
        uncounted = []
        for _, record in records:
            place = place_of(record)
            missed = [
                end
                for topic, partition, offset, start, end in results.late
                if (topic, partition, offset) == place and _is_of(bounds, start, end)
            ]
            fate = LATE if missed else results.fates.get(place, record.fate)
            if fate is None or (fate in (USED, OPEN)):
                continue
            if not missed and bounds is not None and not _is_in(bounds, record.event_ms):
                continue
            late_ms = late_by_ms(self.node, record, missed[0]) if missed else None
            uncounted.append(
                UncountedRecord(*place, record.event_ms, record.stream_ms, fate, record.reason, late_ms)
            )
        return uncounted

    def _above(
        self, records: Sequence[tuple[str, Row]], places: set[tuple[str, int, int]], depth: int
    ) -> list[Cause]:
        """The causes of the records that are rows of nodes."""
        writers = {
            t.name: t.written_by for t in self.node.topics if isinstance(t, NodeOutput) and t.written_by
        }
        above: list[Cause] = []
        explained = dict[str, ExplainedNode]()
        for record in {place_of(r): r for _, r in records if place_of(r) in places}.values():
            writer = writers.get(record.topic)
            if writer is None or depth <= 0:
                continue
            if record.topic not in explained:
                explained[record.topic] = ExplainedNode(self.spark, self.lake, writer, large=self.large)
            of = explained[record.topic]
            as_of_ms = record.at_ms if of.node.day_column is None else None
            above += of.causes(self._written(record, of.node), depth - 1, as_of_ms)
        return above

    def _written(self, record: Row, writer: Node) -> dict[str, Any]:
        """The values that tell a row of a node: those of its key, and of the window."""
        assert record.offset is not None
        (row,) = rows_of_place(self.lake.log(record.topic), record.partition, record.offset)
        values = {**(row["key"] or {}), **(row["value"] or {})}
        names = writer.key if writer.day_column is None and writer.key else writer.columns
        return {n: values[n] for n in names if n in values and not isinstance(values[n], list | dict)}


def _named(feed: str, record: Row, deciding: bool | None, without: Values | None) -> NamedRecord:
    place = place_of(record)
    return NamedRecord(
        feed, *place, record.event_ms, record.stream_ms, dict(record.values), deciding, without
    )


def _is_of(bounds: tuple[Any, Any] | None, start_ms: int, end_ms: int) -> bool:
    """Whether a missed window is that of a row; of a session whether it would lie in it."""
    if bounds is None:
        return True
    first, last = bounds
    return (moment(start_ms), moment(end_ms)) == (first, last) or (
        start_ms == end_ms and first <= moment(start_ms) <= last
    )


def _is_in(bounds: tuple[Any, Any], time_ms: int | None) -> bool:
    return time_ms is not None and bounds[0] <= moment(time_ms) < bounds[1]


def _in_words(values: Values) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
