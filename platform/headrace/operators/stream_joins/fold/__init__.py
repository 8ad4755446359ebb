"""Joins of two streams: each pair of records with one key that are near one another, and records without a partner.

Law (L33): a left record *closes* at its event time + after + grace, a right one at its event time + before + grace. Two
records of one key are a pair if the right one is at most `before` earlier and `after` later than the left one, and both
close beyond the stream times of both. So the pair does not depend on which record is committed first. Its row is final at
the later commit. A record is *open* until the lowest stream time of the node reaches the time at which it closes. No record
of a later commit is its partner, since its stream time is not below that (L4). So a record that has no partner then has
none for good.

One micro-batch:
  1. `BothSides.decide` puts the records of both streams into one table. A record that has closed by its own stream time is
     late. One without a key is filtered, unless its side leaves alone. Dead letters, tombstones and other records that a
     stream has refused come with their fate. The records that are left are kept.
  2. If a topic is on both sides, each of its records is there twice; `CountFates` counts it once.
  3. By key, the open records of the state (`records`) that are near the kept ones meet these (`find_pairs`). Two records of
     the state met in an earlier micro-batch.
  4. Each pair gives a row (`result_rows`). If a side leaves alone, those of its records that close in this micro-batch give
     one, unless they have a partner in it or a *mark* in the state (`matched`), which says that they had one before.
  5. The state gains the kept records that are still open, and marks of open records that have found a partner.
"""

from headrace.operators.stream_joins.fold.stream_joins import StreamJoins

__all__ = ["StreamJoins"]
