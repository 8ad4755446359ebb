"""Result rows as sinks get them: each with its place in the log's order.

Law: a row's place is the commit that made it final or changed it (`__sequence`), and its rank among the rows of that commit
(`__ordinal`). All rows of a commit lie in one increment, so neither cuts nor buckets show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.description import (
    Batches,
    Lookup,
    SessionWindows,
    Suppressed,
    WindowedAggregate,
    quote,
)
from headrace.description.lookup import EVENT
from headrace.fold.contract import DELETED, KEY, OFFSET, PARTITION, TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from headrace.description import Node

SEQUENCE, TIMESTAMP = "__sequence", "__timestamp"
POSITION = (TOPIC, PARTITION, OFFSET)


def final_rows(node: Node, results: DataFrame) -> DataFrame:
    """Rows of appended results. In, Out: see `OperatorFrames.emitted`."""
    return _placed(node, results, _order(node))


def changed_rows(node: Node, changes: DataFrame) -> DataFrame:
    """Rows of current results that a micro-batch has changed. Out: see `OperatorFrames.emitted`."""
    return _placed(node, changes, (*POSITION, TIMESTAMP, KEY))


def _order(node: Node) -> Sequence[str]:
    """In which order rows of one commit go."""
    match node:
        case WindowedAggregate(window=SessionWindows()):
            return ("window_end", KEY, TOPIC, PARTITION)
        case WindowedAggregate():
            return ("window_end", KEY)
        case Batches():
            return ("opened_at", *POSITION)
        case Suppressed():
            return (PARTITION, OFFSET, "__sub", "__opened_ms", KEY, "window_start")
        case Lookup(as_of=as_of) if as_of == EVENT:
            return (TIMESTAMP, "__ingested_at", *POSITION)
    return POSITION


def _placed(node: Node, rows: DataFrame, order: Sequence[str]) -> DataFrame:
    by = (F.col(name).asc_nulls_last() for name in order if name in rows.columns)
    rank = F.row_number().over(Window.partitionBy(SEQUENCE).orderBy(*by))
    deleted = F.col(DELETED) if DELETED in rows.columns else F.lit(False)
    return rows.select(
        *(F.col(quote(name)) for name in node.columns),
        deleted.alias(DELETED),
        F.timestamp_millis(TIMESTAMP).alias(TIMESTAMP),
        SEQUENCE,
        (rank - 1).alias("__ordinal"),
    )
