"""Running aggregates: the current totals of every group.

Law (L9, L12): a group's total is the exact merge of its records, in any order; `first`, `last` and `collect` go by the
log's. So totals after a commit do not depend on how the log was cut, nor on buckets.

- A micro-batch adds one partial for each group that it touches, and reads what is held of these groups alone.
- It gives one row for each of them: the totals, and the place of the record that changed them last.

Source: Kafka Streams, KStreamAggregate.java.
"""

from headrace.operators.totals.fold.fold_totals import Totals
from headrace.operators.totals.fold.merge_totals import MergeTotals

__all__ = ["MergeTotals", "Totals"]
