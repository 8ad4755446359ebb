"""Lookups: each record with the row that a table had at the record's place in the log, or at its event time.

Law, as of the log (L21): across topics rows are ordered by commit time, topic, partition and offset. A record finds the row
that the table's records before it leave: a maximum over a prefix of that order. An increment takes all topics through one
commit time, so the maximum is that of the state and of the increment's rows before the record.

Law, as of event time (L22): the frontier after a commit is the lowest stream time of all partitions of all topics. A record
is released at the first commit, not before its own, whose frontier is beyond the record's event time. It finds the last
version by (event time, place) among those committed by then that are not beyond its event time. Both are facts of the rows
through that commit.
"""

from headrace.fold.lookups.lookup_in_log import LookupInLog
from headrace.fold.lookups.lookup_in_time import LookupInTime

__all__ = ["LookupInLog", "LookupInTime"]
