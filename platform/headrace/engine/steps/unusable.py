"""Records that a node cannot use, because one of its steps raises. They pass the steps by.

Law: a record is unusable for a feed if its fate is open in the log, and computing the columns that the operator reads
raises for that record alone. So which records are unusable follows from the log and the description (L30).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from headrace.description.feeds import Feed
from headrace.fold.fates import DEAD_LETTER, FILTERED
from headrace.sequence.log_columns import ERASED, RECORD
from headrace.sequence.operator_rows import REFUSED
from headrace.spark.frames import local_frame
from headrace.spark.row_steps import RAW, raw_column, refuses

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

POSITION = ("topic", "partition", "offset")
PLACE = ("ingested_ms", *POSITION)  # in the order of all logs
Place = Mapping[str, Any]
ITS_FATE, ITS_REASON = "__unusable_fate", "__unusable_reason"
MARKS = f"topic STRING, partition INT, offset BIGINT, {ITS_FATE} STRING, {ITS_REASON} STRING"


@dataclass(frozen=True)
class Unusable:
    """One record that a feed cannot use.

    ingested_ms  commit time of its log commit
    fate         `dead_letter`; or `filtered`, if a step before the one that raises refuses the record
    reason       which step raises, and what it says; None if it is filtered
    """

    feed: str
    topic: str
    partition: int
    offset: int
    ingested_ms: int
    fate: str
    reason: str | None

    @property
    def place(self) -> Place:
        """Where it is."""
        return {name: getattr(self, name) for name in PLACE}


def marked(
    name: str, feed: Feed, logs: Mapping[str, DataFrame], unusable: Sequence[Unusable]
) -> dict[str, DataFrame]:
    """The logs of a feed by topic, with the fate and reason of the records that it cannot use; of others these are null."""
    mine = [each for each in unusable if each.feed == name]
    return {topic: _with_marks(logs[topic], mine) for topic in feed.topics}


def open_rows(feed: Feed, rows: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The rows for which the steps of a feed are evaluated. In: rows  marked."""
    is_open = has_open_fate(deletes=feed.deletes) & F.col(ITS_FATE).isNull()
    return {topic: log.where(is_open) for topic, log in rows.items()}


def decided_rows(feed: Feed, rows: Mapping[str, DataFrame]) -> list[DataFrame]:
    """The other rows, in columns by which their fate is told: RAW, and REFUSED if a step refuses. In: rows  marked."""
    was_open = has_open_fate(deletes=feed.deletes)
    fate, reason = (F.when(was_open, F.col(its)) for its in (ITS_FATE, ITS_REASON))
    marks = {
        "kind": F.when(fate == DEAD_LETTER, DEAD_LETTER).otherwise(F.col("kind")),
        "reason": F.coalesce(reason, F.col("reason")),
    }
    more = [F.coalesce(fate == FILTERED, F.lit(False)).alias(REFUSED)] if refuses(feed.stream) else []
    is_decided = ~was_open | F.col(ITS_FATE).isNotNull()
    found = []
    for topic in {each.name: each for each in feed.stream.topics}.values():
        own = {name: F.col(raw_column(name, topic, clocks=feed.clocked)) for name in RAW} | marks
        chosen = [column.alias(RAW[name]) for name, column in own.items()]
        found.append(rows[topic.name].where(is_decided).select(*chosen, *more))
    return found


def has_open_fate(*, deletes: bool) -> Column:
    """True for a row of a log whose fate the steps decide; see `operator_rows`.

    In: deletes  whether a tombstone deletes its key; then the steps decide on tombstones, too
    """
    erased = F.coalesce(F.col("reason") == ERASED, F.lit(False))
    is_open = (F.col("kind") == RECORD) & ~erased & ~_holds("replay")
    return is_open if deletes else is_open & ~_holds("tombstone")


def _holds(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(False))


def _with_marks(log: DataFrame, unusable: Sequence[Unusable]) -> DataFrame:
    if not unusable:
        nothing = F.lit(None).cast("string")
        return log.select("*", nothing.alias(ITS_FATE), nothing.alias(ITS_REASON))
    told = {(each.topic, each.partition, each.offset): (each.fate, each.reason) for each in unusable}
    rows = [(*place, *fate) for place, fate in told.items()]
    return log.join(F.broadcast(local_frame(log.sparkSession, rows, MARKS)), [*POSITION], "left")


def words_of(place: Place) -> str:
    """Where a record is, as errors say it."""
    return f"{place['topic']}, partition {place['partition']}, offset {place['offset']}"
