"""Rows of logs as an operator decides them, as frames: for people, for checks, never on a stream's way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.description import quote
from headrace.description.feeds import RESULT
from headrace.engine.feed_rows import PackedFeeds
from headrace.engine.operators import rows_for
from headrace.fold.contract import PARTITION, ROW_COLUMNS, TOPIC, Clock, Times
from headrace.fold.keys import with_keys
from headrace.fold.lookups import LookupInLog, LookupInTime
from headrace.fold.lookups.count_fates import once
from headrace.fold.processors import Processors
from headrace.fold.processors.global_tables import Packing
from headrace.fold.relations import Relations
from headrace.fold.sessions import Sessions
from headrace.fold.sliding import SlidingWindows
from headrace.fold.stream_joins import StreamJoins
from headrace.fold.tables import Tables
from headrace.fold.windows import Windows
from headrace.spark.one_task import made_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.engine.unusable import Unusable
    from headrace.nodes.bound_operator import BoundOperator

Feeds = Mapping[str, pa.Table]


def decided(bound: BoundOperator, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]) -> DataFrame:
    """The rows of logs with FATE and REASON completed, one for each row of the logs.

    In:  unusable  the records among them for which steps raise
    Out: ROW_COLUMNS; where the node has one feed, the columns that its operator reads before them
    """
    kernel = bound.operator.kernel
    twice = len({*bound.operator.node.topics}) < sum(
        len(feed.topics) for feed in bound.operator.feeds.values()
    )
    rows = bound.rows.frame(logs, unusable)
    if twice:  # a row that several feeds have is decided in one place
        rows = _by_partition(bound, rows)
    return _made(bound, rows, partial(_decide, kernel), whole=twice)


def late(
    bound: BoundOperator, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]
) -> DataFrame | None:
    """Late records and what they came too late for (see `late_records` of the operator); None: nothing can be late."""
    kernel, rows = bound.operator.kernel, bound.rows.frame(logs, unusable)
    match kernel:
        case Windows():
            return _made(bound, rows, partial(_late, kernel), whole=False)
        case SlidingWindows():
            by = [F.col(quote(name)) for name in kernel.shape.keys]
            tasks = rows.sparkSession.sparkContext.defaultParallelism
            return _made(bound, rows.repartition(tasks, *by), partial(_late_of_groups, kernel), whole=True)
        case Sessions():
            rows = _by_partition(bound, rows)
            return _made(bound, rows, partial(_late_for_sessions, kernel), whole=True)
        case LookupInTime() | StreamJoins():
            return _made(bound, rows, partial(_late_decided, kernel), whole=False)
        case Tables() if kernel.rows.forget_ms is not None:
            return _made(bound, rows, partial(_late, kernel), whole=False)
    return None


def _made(
    bound: BoundOperator, rows: DataFrame, make: Callable[[Feeds], pa.Table], *, whole: bool
) -> DataFrame:
    feeds = bound.rows.packed
    schema = make(feeds.empty()).schema
    return made_of(rows, partial(_unpack, feeds, make), feeds.names, schema=schema, whole=whole)


def _unpack(feeds: PackedFeeds, make: Callable[[Feeds], pa.Table], rows: pa.Table) -> pa.Table:
    return make(feeds.unpacked(rows))


def _by_partition(bound: BoundOperator, rows: DataFrame) -> DataFrame:
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    carried = bound.rows.packed.carrying(PARTITION)
    return rows.repartition(tasks, F.coalesce(*(F.col(quote(name)) for name in carried)))


def _decide(kernel: Any, feeds: Feeds) -> pa.Table:
    rows = rows_for(kernel, feeds)
    match kernel:
        case LookupInLog() | LookupInTime():
            return once(rows).select(ROW_COLUMNS.names)
        case StreamJoins():
            return (once(rows) if kernel.sides.shared else rows).select(ROW_COLUMNS.names)
        case Processors(packing=Packing()):
            return once(rows).select(ROW_COLUMNS.names)
        case Relations():
            found: pa.Table = kernel.decide(rows)
            return found
    names = [*feeds[RESULT].column_names]
    found = kernel.decide(rows)
    return found.select(names)


def _late(kernel: Windows | Tables, feeds: Feeds) -> pa.Table:
    return kernel.late(feeds[RESULT])


def _late_of_groups(kernel: SlidingWindows, feeds: Feeds) -> pa.Table:
    return kernel.late(with_keys(feeds[RESULT], kernel.shape.keys))


def _late_for_sessions(kernel: Sessions, feeds: Feeds) -> pa.Table:
    rows = with_keys(feeds[RESULT], [*kernel.shape.keys, TOPIC, PARTITION])
    return kernel.late(rows, Times(Clock(), Clock()))


def _late_decided(kernel: LookupInTime | StreamJoins, feeds: Feeds) -> pa.Table:
    return kernel.late(rows_for(kernel, feeds))
