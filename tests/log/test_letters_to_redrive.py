"""Which dead letters can be sent again: what the sequencer would say of them now decides."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

import headrace as hr
from headrace.errors import TransientError
from headrace.lifecycle import redrive
from headrace.lifecycle.corrections import Correction
from headrace.lifecycle.redrive import Letter, Redrive, reasons_of, unsendable
from headrace.log.history.views import REDRIVEN
from headrace.log.schema_store import SchemaStore
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_state import LogState
from headrace.sequence.readers import gunzip
from headrace.sequence.replays.verdicts import AMBIGUOUS_REASON
from headrace.sequence.sequence_records import Sequencer
from headrace.spark.brokers.topic_limits import TopicLimits

pytestmark = pytest.mark.fast


def test_a_letter_with_a_malformed_source_chain_would_be_dead_again(tmp_path: Path) -> None:
    topic = hr.Topic("t", value="n INT", replay_guard=hr.ReplayGuard())
    chain = b'[["screws", 0, 1]]'
    letters = [
        Letter((0, 4), None, b'{"n": 1}', [("source-chain", b"?")], 5),
        Letter((0, 7), None, b'{"n": 1}', [("source-chain", chain)], 5),
        Letter((1, 2), None, b"?", [], 5),
        Letter((1, 3), None, b"{}", [], None),
    ]
    store = SchemaStore(f"file:{tmp_path}", topic)
    chains, none, value, moment = reasons_of(topic, store, letters)
    assert (chains or "").startswith("malformed source-chain")
    assert none is None
    assert value == "malformed value: not a JSON object"
    assert moment == "timestamp: the record timestamp is null"
    assert reasons_of(topic, store, []) == []


@pytest.mark.parametrize(
    ("guard", "corrected", "stays"),
    [
        (None, None, False),
        (hr.ReplayGuard(), None, True),
        (hr.ReplayGuard(ordinals="order"), b'{"chain": null}', True),
        (hr.ReplayGuard(header=None, path="chain"), None, True),
        (hr.ReplayGuard(header=None, path="chain"), b'{"chain": "[["a", 0, 1, 2]]"}', False),
    ],
)
def test_a_letter_whose_chain_was_ambiguous_is_sent_with_another_chain_alone(
    tmp_path: Path, guard: hr.ReplayGuard | None, corrected: bytes | None, stays: bool
) -> None:
    """Sent as it is it would be ambiguous again, or taken for a replay, in each run."""
    topic = hr.Topic("t", key="id STRING", value="chain STRING", replay_guard=guard)
    work = Redrive.__new__(Redrive)
    work._topic = topic
    row = {
        "partition": 0,
        "offset": 4,
        "raw_key": b"k",
        "raw_value": b'{"chain": "x"}',
        "headers": None,
        "ms": 5,
    }
    letter = work._letter(cast("Any", row | {"reason": AMBIGUOUS_REASON}))
    if corrected is not None:
        letter = work._corrected(letter, Correction({"value": corrected}))
    assert (unsendable(letter, TopicLimits(1_000), {0}) is not None) == stays


def test_compressed_letters_are_read_in_pieces_that_are_bounded_without_compression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = hr.Topic("t", value="n INT", format=hr.Json(gzip=True))
    large = gzip.compress(b'{"n": 1' + b" " * 2_000 + b"}")
    letters = [
        Letter((0, at), None, value, [], 5) for at, value in enumerate([b"?", large, large[:-9], large])
    ]
    sizes: list[int] = []
    unpack = gunzip.in_pieces

    def counted(*given: Any) -> Iterator[pa.Table]:
        for piece in unpack(*given):
            sizes.append(int(gunzip.unpacked_sizes(piece["value"]).sum()))
            yield piece

    monkeypatch.setattr(redrive, "in_pieces", counted)
    monkeypatch.setattr(redrive, "UNPACKED_BYTES_MAX", 2_100)
    found = reasons_of(topic, SchemaStore(f"file:{tmp_path}", topic), letters)
    no_object, damaged = "malformed value: not a JSON object", "malformed value: its gzip is cut short"
    assert found == [no_object, None, damaged, None]
    assert len(sizes) >= 3


@pytest.mark.parametrize(
    ("letter", "why"),
    [
        (Letter((0, 4), b"k", b"v" * 400, [], 1), None),
        (Letter((0, 4), b"k", b"v" * 400, [], 0), "Kafka's client takes 0 for the present"),
        (Letter((0, 4), b"k", b"v", [], 4_070_908_800_000), "more than 3,600,000 ms ahead"),
        (Letter((0, 4), None, b"v" * 490, [], 5), "takes 1,000 bytes"),
        (Letter((0, 4), b"k" * 90, b"v" * 400, [], 5), "takes 1,000 bytes"),
        (Letter((0, 4), None, None, [("h", b"v" * 490)], 5), "takes 1,000 bytes"),
        # Before, such a letter stopped each redrive: the client knows no such partition.
        (Letter((3, 4), b"k", b"v", [], 1), "the topic has no partition 3 any more"),
        (
            Letter((0, 4), b"k", b"v", [], 1, ambiguous=True),
            "its source chain is as ambiguous when it is sent again",
        ),
    ],
)
def test_a_letter_that_kafka_would_not_take_as_it_is_stays(letter: Letter, why: str | None) -> None:
    found = unsendable(letter, TopicLimits(1_000), {0})
    assert (found is None) == (why is None)
    assert (why or "") in (found or "")


class FullOfTwo:
    """A producer of Kafka with room for two records; a poll makes room for one."""

    def __init__(self) -> None:
        self.waiting, self.taken = list[Any](), list[int]()

    def produce(self, topic: str, *, value: bytes, on_delivery: Any, **_: Any) -> None:
        if value == b"odd":
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        if len(self.waiting) == 2:
            raise BufferError("Local: Queue full")
        self.waiting.append((len(value), on_delivery))

    def poll(self, _: float) -> None:
        size, report = self.waiting.pop(0)
        self.taken.append(size)
        report(None, None)

    def flush(self, seconds: float) -> int:
        while self.waiting:
            self.poll(seconds)
        return 0


def test_letters_wait_while_kafkas_client_is_full_and_few_are_held_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, large letters ended the redrive with a BufferError, and a thousand of them were held in memory."""
    work, producer = Redrive.__new__(Redrive), FullOfTwo()
    work._topic, work._path = hr.Topic("t", value="a STRING"), f"file:{tmp_path}"
    work.__dict__["_producer"] = producer
    letters = [Letter((0, at), None, b"v" * size, [], 5) for at, size in enumerate((5, 6, 7, 20, 1, 1))]
    work._send(letters)
    assert producer.taken == [5, 6, 7, 20, 1, 1]
    with pytest.raises(TransientError, match="did not take 1 of 2 records"):
        work._send([letters[0], replace(letters[1], value=b"odd")])
    monkeypatch.setattr(redrive, "BYTES_MAX", 12)
    monkeypatch.setattr(redrive, "ROWS_MAX", 2)
    assert [[len(each.value or b"") for each in some] for some in redrive.in_batches(letters)] == [
        *([5, 6], [7], [20], [1, 1])
    ]


def test_a_letter_that_becomes_a_tombstone_takes_its_time_from_the_log_and_not_from_the_redrive() -> None:
    """Its topic reads event times from values, so Kafka's timestamp of the redriven record is the moment of the redrive."""
    topic = hr.Topic("t", key="id STRING", value="at BIGINT", timestamp="at")
    work = Redrive.__new__(Redrive)
    work._topic = topic
    row = {"partition": 0, "offset": 1, "raw_key": b"k", "raw_value": b"?", "headers": None, "ms": None}
    dead = work._letter(cast("Any", row | {"reason": "malformed value"}))
    sent = work._corrected(dead, Correction({"value": None}))
    hour, minute = 3_600_000, 60_000
    assert sent.timestamp_ms is not None
    assert sent.timestamp_ms > 11 * hour
    letters = [
        Letter((0, 0), b"k", f'{{"at": {10 * hour}}}'.encode(), [], 5),
        dead,
        replace(sent, place=(0, 2), headers=[(REDRIVEN, b'["t", 0, 1]')]),
        Letter((0, 3), b"k", f'{{"at": {10 * hour + 5 * minute}}}'.encode(), [], 5),
    ]
    sequencer, state, rows = Sequencer(RecordFormat.of(topic)), LogState(), list[dict[str, Any]]()
    for number, letter in enumerate(letters):
        done = sequencer.sequence(redrive._records([letter]), state, None, sent.timestamp_ms + number)
        rows, state = [*rows, *done.rows.to_pylist()], done.state
    times = [(each["kind"], _ms(each["timestamp"]), _ms(each["stream_time"])) for each in rows]
    ten, later = 10 * hour, 10 * hour + 5 * minute
    assert [kind for kind, *_ in times] == ["record", "dead_letter", "record", "record"]
    assert [ms for *_, ms in times] == [ten, ten, ten, later]
    assert (rows[2]["tombstone"], times[2][1]) == (True, ten)


def _ms(moment: Any) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
