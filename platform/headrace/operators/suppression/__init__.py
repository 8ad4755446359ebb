"""Suppression by a time limit: a key's latest value, when the wait that its first update opened is over.

Law: each row is a function of the log of its partition up to the record that made it leave.

- an update has the timestamp of its record; an aggregate's has the highest of its records so far;
- the suppressor's stream time is the highest timestamp of its updates and of the ticks: what no update is made of (late
  records, those without a key) does not move it;
- a key's first update opens a wait; later ones replace the value and keep the place. The wait that was opened at t is over
  at the first row that brings the expiry time to t, itself put first; the next update opens another. The expiry time is the
  highest that stream time less the limit in force has been;
- limits are those described until a control row sets others, from that row on. It is a row like a tick: what is due under
  them leaves there, and what does not fit any more;
- so an update joins the open wait exactly if the expiry time before it is below t: a fold over a key's updates alone
  says where waits begin, and one lookup in the partition's expiry time says where they end;
- with `emit_early`, the oldest wait leaves when too much waits. That depends on all keys of a partition, so it is judged in
  one pass over them, in the log's order.

Several windows of one record are updated one after another, in the order of their starts.

Source: Kafka Streams, KTableSuppressProcessorSupplier.java and InMemoryTimeOrderedKeyValueChangeBuffer.java.
"""

from headrace.operators.suppression.operator import SuppressionOperator

__all__ = ["SuppressionOperator"]
