"""Lookups: each record with the row that a table had at the record's place in the log.

Law: across topics rows are ordered by commit time, topic, partition and offset. A record finds the row that the
table's records before it leave: a maximum over a prefix of that order, so it does not matter where increments end, if each
takes all topics up to one commit time.

- the state holds the table's latest rows, appended per micro-batch; the newest row of a key stands for all before;
- an increment is joined as of in one pass: its records, the table's changes and what is held, by key, in the log's order.
"""

from headrace.operators.lookups.operator import LookupOperator

__all__ = ["LookupOperator"]
