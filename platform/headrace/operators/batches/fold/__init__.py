"""Batches: each group's records in the log's order, cut by number, by size or by elapsed wall-clock time.

Law (L14): which batch a record is in is definite at the record's commit; when and why the batch closed, at the first
commit at or beyond its `closed_at`. Cutting I·J is cutting I, then J with the batches that were open after I.

- A batch begins where the one before it ended: a left fold of a group's records, which `cut_batches` computes for all
  groups at once. Its state is when the open batch was opened, and how full it is.
- Two steps: `cut_increment` finds the batches, `gather_events` puts together the records of those that close.
- The state keeps the records of open batches, written once and read once, by hash, when the batch closes. So the work of
  a micro-batch is in proportion to its records and to those of the batches that close, and no log is read again.
"""

from headrace.operators.batches.fold.batched_sink import BatchedSink

__all__ = ["BatchedSink"]
