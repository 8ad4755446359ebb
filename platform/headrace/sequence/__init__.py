"""The sequencer's decisions, as pure functions over Arrow: typed, judged, in stream time; no Spark, no file, no clock.

Law: each record that Kafka delivers becomes one row of the log. The outcome of `decode` for a record is a function of that
record and of the commit time alone. It does not depend on the chunk in which the record came, nor on the way in which its
JSON was read (L1 to L5, L13).

A record goes through `decode` (key, value, event time, or why not), `chains` (where it comes from), a guard (was it sent
before), and `stream_time`. `sequence_records` does all four. The first is a function of rows and may run in many tasks.
Stream time and the monotone guard need the records of a partition together. The exact guard needs all of a commit.

JSON is read as RFC 8259 and the declared types demand. Arrow reads chunks of records. `strict_json` reads, record by record,
all that Arrow refuses or would read too leniently. Both give the same values (`tests/laws/kernel/test_sequence_json.py`).
"""
