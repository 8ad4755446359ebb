"""Processors: a user's class is called for the records of each group, in the log's order, and for timers.

Law (L34): what a processor forwards, and what its stores hold, is a function of the logs. Each log commit calls it for a
group in four phases: timers by the wall clock, records, timers by the stream clock, and `close` if there is a drain. Each
phase follows from the group's stores and timers before it, from its records in the commit, and from the clocks before and
after the commit. So folding I·J is folding I, then J from the stores and timers after I.

- `process_records` reads the stores of the groups that have records or timers that are due, and no others.
- User code runs record by record. All else (order, state, results) is done for all groups at once.
- `process_batches` gives a vectorised processor all records of a bucket as one table. That a batch does not show is the
  user's to keep; the oracle, which gives it one record at a time, finds out.
- `release` holds records back in the order of time.
- Entries of stores may end by the stream clock: what is there in a commit follows from the clock after the commit before.
"""

from headrace.operators.processors.fold.processors import Processors

__all__ = ["Processors"]
