"""The latest row of every key.

Law (L15): a table's row of key k is a function of the set of k's records, however they were grouped on the way: the one
that is highest by position or, ordered by timestamp, by event time and then position. There is none if that record is a
tombstone or fails a condition of the table. A maximum of maxima is the maximum of all, so rows may be merged in any order,
and twice.

A change is one row per key and log commit: the row before the commit and the row after it. If increments take all topics
through one commit time, changes do not depend on cuts either. The latest rows never do.
"""
