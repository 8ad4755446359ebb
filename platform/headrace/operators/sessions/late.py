"""Records that came too late for the session that they would have formed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.operators.late import late_rows
from headrace.operators.partials import kept_partials
from headrace.operators.sessions.fold import assigned
from headrace.operators.sessions.runs import runs_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate


def late_records(decided: DataFrame, node: WindowedAggregate) -> DataFrame:
    """The sessions that records came too late for: a late record joins no open one, so it is both bounds of its session.

    In:     decided  every row of the log, as `decide_by_group` gives them
    Out:    as `late_rows`; one row per late record
    """
    alone = assigned(kept_partials(runs_of(decided, node, (), {})), node).where(F.col("__session").isNull())
    event_ms = F.col("__start_ms")
    return late_rows(alone, node, start_ms=event_ms, end_ms=event_ms, event_ms="__start_ms")
