"""Running aggregates: the current totals of every group.

Law (L9, L12): a group's total is the exact merge of its records, in any order; `first`, `last` and `collect` take them in
the order of the log. So totals after a commit do not depend on how the log was cut, nor on buckets.

A *partial* is the aggregate of some records of a group in a form that merges, such as a sum and a count for an average. With
it go the number of records, the highest event time, and the position of the last record in the log.

One micro-batch:
  1. A record whose values an aggregate cannot take becomes a dead letter. Tombstones and other records that the stream has
     refused come with their fate. Every other record counts; null is a group.
  2. The records that count give one partial per group, which the state gains as a row of `totals`.
  3. This partial merges with the group's totals before the micro-batch. The node's table gets one row per group.
  4. If changes are wanted, each log commit of a group gives one more row, with the totals before and after it.

Source: Kafka Streams, KStreamAggregate.java.
"""

from headrace.operators.totals.fold.fold_totals import Totals
from headrace.operators.totals.fold.merge_totals import MergeTotals

__all__ = ["MergeTotals", "Totals"]
