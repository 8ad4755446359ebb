"""Session windows: a group's events, each at most `gap` from another, with final results.

Law (L17): the sessions of a group are a left fold of its records in the log's order. A record joins, and thereby merges, the
group's open sessions within `gap` of it; a session closes when the stream time of its partition reaches its last event
plus gap plus grace. A record that joins none and whose own time plus gap plus grace lies at or before its row's stream
time is late. So which sessions there are, and what is in them, is a function of the log alone.

- a group is the record key, so it lives in one partition; a key that has moved to another has sessions of its own in
  either, each by its partition's stream time;
- a record that itself raises stream time joins before what its time closes: two events exactly `gap` apart are one
  session also without grace. Which records raise it concerns the whole partition, so without grace a step by partition
  (`mark_raises`) comes before the fold by group and partition. With grace it makes no difference;
- a session is emitted once and never revised, by the first log commit that closes it;
- an open session is one state row, told apart by group, partition and last event. One that grows or becomes part of
  another leaves a deleted row under its old last event.

One micro-batch (`Sessions`), for each group and partition:
  1. A record whose values an aggregate cannot take becomes a dead letter. Tombstones and other records that the stream has
     refused come with their fate. The others are kept.
  2. `make_runs` puts kept records that follow one another within `gap` into *runs*: a run enters the fold as one interval.
  3. `join_runs` gives each run, and each open session of the state, its session. All groups are numbered at once; plain
     Python sees only *stretches* in which a run reaches back to an earlier session. Records without a session are late.
  4. `merge_sessions` computes the sessions: bounds, number of records, partial aggregates.
  5. Sessions that stream time has closed become results. The state gains a row for each open session that a record has
     joined, and a deleted row for each old last event.

Source: KIP-94, Kafka Streams' KStreamSessionWindowAggregate.java; differences are stated in the formalism (L17).
"""

from headrace.operators.sessions.fold.fold_sessions import Sessions
from headrace.operators.sessions.fold.session_changes import SessionChanges

__all__ = ["SessionChanges", "Sessions"]
