"""The sliding windows that a record came too late for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.description import quote
from headrace.operators.late import late_rows
from headrace.operators.rows import KEPT, LATE
from headrace.operators.sliding.assign import difference_ms, own_end
from headrace.operators.sliding.merge import made_by, within

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import WindowedAggregate


def late_records(assigned: DataFrame, node: WindowedAggregate) -> DataFrame:
    """The windows between whose bounds records lie and that were not open to them; and those that they would have made.

    In:     assigned  every row of the log, as `assign_ends` gives them
    Out:    as `late_rows`; one row per record and closed window
    """
    groups = [F.col(quote(name)) for name in node.by]
    places = ["__topic", "__partition", "__offset", "__stream_ms", "__point", "__from"]
    old = assigned.where(
        F.col("__fate").isin(KEPT, LATE) & (F.col("__from") > own_end(node, F.col("__point")))
    ).select(*groups, *places)
    kept, end_ms = assigned.where(F.col("__fate") == KEPT), F.col("__end")
    missed = within(made_by(kept, node).distinct(), old, node).where(end_ms < F.col("__from"))
    entered = within(
        missed.select(*groups, "__end").distinct(), kept.select(*groups, "__point", "__from"), node
    )
    existing = entered.where(F.col("__from") <= end_ms).select(*groups, "__end").distinct()
    missed = missed.join(existing, [*node.by, "__end"], "left_semi")
    own = old.withColumn("__end", own_end(node, F.col("__point")))
    both = missed.unionByName(own).distinct()
    return late_rows(both, node, start_ms=end_ms - difference_ms(node), end_ms=end_ms, event_ms="__point")
