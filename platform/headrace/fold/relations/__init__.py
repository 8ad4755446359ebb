"""Relations made of tables and of aggregates of streams: joins and groups of them, to any depth, as one chain of steps.

Law (L16, L20, L23): a relation takes changes of relations and gives changes of its own. In a commit a key has at most one
row before and one row after; both follow from the rows that its inputs have before the commit and after it. So changes
follow from the logs, if increments take all topics through one commit time; the rows after them always do.

The first step decides records, counts them, and keeps the latest of each key. Each further step holds the stations whose
inputs have come so far; other changes pass through it.
"""

from headrace.fold.relations.relation_steps import Relations

__all__ = ["Relations"]
