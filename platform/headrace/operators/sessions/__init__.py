"""Session windows: a group's events, each at most `gap` from another, with final results.

Law: the sessions of a group are a left fold of its records in the log's order. A record joins, and thereby merges, the
group's open sessions within `gap` of it; a session closes when the stream time of its partition reaches its last event
plus gap plus grace. A record that joins none and whose own time plus gap plus grace lies at or before its row's stream
time is late. So which sessions there are, and what is in them, is a function of the log alone.

- a group is the record key, so it lives in one partition; a key that has moved to another has sessions of its own in
  either, each by its partition's stream time: rows are told apart by group, both bounds and partition;
- a record that itself raises stream time joins before what its time closes: two events exactly `gap` apart are one
  session also without grace;
- a session is emitted once and never revised, and its place in the log's order is that of the commit that closed it;
- records that follow one another within `gap` are aggregated before the fold (see `runs`), and the fold begins anew where
  nothing is open any more, so its cost grows with disorder and not with the log;
- the state of a group is the open sessions, as partial aggregates, of the newest micro-batch that touched it.

Source: KIP-94, Kafka Streams' KStreamSessionWindowAggregate.java; differences are stated in the formalism (L17).
"""

from headrace.operators.sessions.operator import SessionOperator

__all__ = ["SessionOperator"]
