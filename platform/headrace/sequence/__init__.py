"""The sequencer's decisions, as pure functions over Arrow: typed, judged, in stream time; no Spark, no file, no clock.

Law: each record that Kafka delivers becomes one row of the log. What `decode` says of a record is a function of that record
and of the commit time alone: not of the chunk in which it came, nor of the way in which its JSON was read (L1 to L5, L13).

A record goes through `decode` (key, value, event time, or why not), `chains` (where it comes from), a guard (was it sent
before), and `stream_time`. `sequence_records` is all of these. The first is a function of rows and may run in many tasks;
stream time and the monotone guard need the records of a partition together; the exact guard needs all of a commit.

JSON is read as RFC 8259 and the declared types have it. Arrow reads chunks of records; what it refuses, and what it would
forgive, goes through `strict_json` record by record, and both give the same (`tests/laws/kernel/test_sequence_json.py`).
"""
