"""The log: one append-only Delta table for each topic, and the sequencer that writes it.

Law: every record that Kafka delivers appears exactly once, with everything already decided that would otherwise
depend on when or how the program ran. After it, every operator is a fold of the log in its recorded order.

- `ingested_at` is one value for each commit and strictly increasing;
- `stream_time` never decreases along the offsets of a partition, and neither dead letters nor replays advance it;
- a partition's first event time starts at the lowest stream time recorded at the end of the previous commit,
  so that a window that closed once can never be reopened;
- `replay` says whether the topic's guard, if it has one, has seen the record's source position before.
"""
