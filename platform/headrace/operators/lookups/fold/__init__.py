"""Lookups: each record with the row that a table had at the record's place in the log, or at its event time.

Law, as of the log (L21): across topics rows are ordered by commit time, topic, partition and offset. A record finds the row
that the table's records before it leave: a maximum over a prefix of that order. An increment takes all topics through one
commit time, so the maximum is that of the state and of the increment's rows before the record.

Law, as of event time (L22): a record is due at its event time, or at its own stream time if that is later. It is released
at the first commit, not before its own, after which the lowest stream time of the node is beyond that. It finds the last
version by (event time, place) among those that are not beyond its event time, and whose stream time is not beyond the time
at which the record is due. Event times and stream times tell all of this, so it does not depend on commits.
"""

from headrace.operators.lookups.fold.lookup_in_log import LookupInLog
from headrace.operators.lookups.fold.lookup_in_time import LookupInTime

__all__ = ["LookupInLog", "LookupInTime"]
