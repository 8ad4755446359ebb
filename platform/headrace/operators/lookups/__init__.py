"""Lookups: each record with the row that a table had at the record's place in the log, or at its event time.

Law, as of the log: across topics rows are ordered by commit time, topic, partition and offset. A record finds the row that
the table's records before it leave: a maximum over a prefix of that order, so it does not matter where increments end, if
each takes all topics up to one commit time.

- the state holds the table's latest rows, appended per micro-batch; the newest row of a key stands for all before;
- an increment is joined as of in one pass: its records, the table's changes and what is held, by key, in the log's order.

Law, as of event time: the frontier at a commit time is the lowest stream time of all partitions of all topics, each as of
then. A record is released at the first commit time, not before its own, at which the frontier is beyond its timestamp. It
finds the last version by (timestamp, place), among those committed by then, that is not beyond its timestamp. Both are facts
of the rows through its release. A row of the table that comes late changes no record released before, and is found by those
released after.

- the state holds the records that wait and the versions that some record can still find, each appended once.
"""

from headrace.operators.lookups.event import EventLookupOperator
from headrace.operators.lookups.operator import LookupOperator

__all__ = ["EventLookupOperator", "LookupOperator"]
