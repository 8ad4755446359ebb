"""Joins of two streams: each pair of records with one key that lie close to one another, and records without a partner.

Law (L33): a left record closes at its event time + after + grace, a right one at its event time + before + grace. Two
records of one key are a pair if the right one is at most `before` earlier and `after` later than the left one, and both
close beyond the stream time of each. So the pair does not depend on which record is committed first. It is written for the
later commit. A record has closed after the first commit after which the lowest stream time of the node has reached that
time. No record of a later commit is its partner, since its stream time is not below that (L4). So a record that has no
partner then has none for good.
"""

from headrace.operators.stream_joins.fold.stream_joins import StreamJoins

__all__ = ["StreamJoins"]
