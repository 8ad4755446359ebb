"""Suppression by a time limit: a key's latest value, when the wait that its first update opened is over.

Law (L19): each row is a function of the log of its partition up to the record that made it leave.

- an update has the timestamp of its record; an aggregate's has the highest of its records so far;
- the suppressor's stream time is the highest stream time of the partition's rows, also of those that no update is made of;
- a key's first update opens a wait; later ones replace the value and keep the place. The wait that was opened at t is over
  at the first row that brings the expiry time to t, itself put first; the next update opens another. The expiry time is the
  highest that stream time less the limit in force has been;
- limits are those described until a control row sets others, from that row on. It is a row like a tick: what is due under
  them leaves there, and what does not fit any more;
- with `emit_early`, the oldest wait leaves when too much waits (see `leave_early`).

Several windows of one record are updated one after another, in the order of their starts.

Steps: by partition the timeline, which it shares with all groups; by group and partition the waits and their values. With
`emit_early` by group the timestamps, by partition one pass over all waits, by group the values. The last step adds up by
partition what waits after each log commit; the bounds of `shut_down` are judged by that.

By the wall clock see `wall_waits`.

A row that leaves has a clock (L32): the end of its wait, however late the row comes that lets it leave (see `timeline`).

Source: Kafka Streams, KTableSuppressProcessorSupplier.java and InMemoryTimeOrderedKeyValueChangeBuffer.java.
There only updates move the suppressor's stream time. By L3 that is not enough: a node's log is never behind its topic's.
"""

from headrace.operators.time_limits.fold.suppress import TimeLimit

__all__ = ["TimeLimit"]
