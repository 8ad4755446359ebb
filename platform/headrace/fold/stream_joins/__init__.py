"""Joins of two streams: each pair of records with one key that lie close to one another, and records without a partner.

Law (L33): rows of both streams are ordered by commit time, topic, partition and offset. Of two records the later one finds
the earlier, if their event times differ by at most `within` and the lower event time + within + grace is beyond the later
record's own stream time. A record closes at the first commit after which the lowest stream time of all partitions of all
topics has reached its event time + within + grace. No record of a later commit finds it any more, since its stream time is
not below that (L4). So a record that has no partner then has none for good.
"""

from headrace.fold.stream_joins.stream_joins import StreamJoins

__all__ = ["StreamJoins"]
