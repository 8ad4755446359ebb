"""Batches: each group's records in the log's order, cut by number, size or elapsed wall-clock time.

Law: which batch a record is in, and when and why that batch closed, is a function of the log through a frontier.

- where a batch begins depends on where the one before it ended, so each group's records are folded one after another;
- the state is one small row for each group whose batch is open: it says where the batch began and how full it is;
- the records of a batch that was open before an increment are read again from the log when the batch closes.
"""

from headrace.operators.batches.operator import BatchOperator

__all__ = ["BatchOperator"]
