"""Running aggregates: the current totals of every group.

Law: a group's total is the exact merge of its records, in any order; `first`, `last` and `collect` go by the log's.

- a micro-batch appends one partial for each group that it touches, and reads nothing;
- with sinks, several topics are read up to one commit time: rows are emitted in the order across them;
- partials are folded into the table off the hot path; `read` merges what is not folded yet.
"""

from headrace.operators.running.operator import RunningOperator

__all__ = ["RunningOperator"]
