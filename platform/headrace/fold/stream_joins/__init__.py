"""Joins of two streams: each pair of records with one key that lie close to one another, and records without a partner.

Law (L33): rows of both streams are ordered by commit time, topic, partition and offset. A left record closes at its
event time + after + grace, a right one at its event time + before + grace. The later of two records finds the
earlier one, if the right one is at most `before` earlier and `after` later than the left one, and both close beyond the
later record's own stream time. A record has closed after the first commit after which the lowest stream time of all
partitions of all topics has reached that time. No record of a later commit finds it any more, since its stream time is
not below that (L4). So a record that has no partner then has none for good.
"""

from headrace.fold.stream_joins.stream_joins import StreamJoins

__all__ = ["StreamJoins"]
