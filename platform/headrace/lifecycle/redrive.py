"""Dead letters sent again: once a schema or a description was mended, or with corrected values.

Law: a record that is sent again is a record of Kafka like any other. It gets an offset of its own and stands in the log
once, with a header that names the dead letter (`HEADER`: topic, partition, offset, as JSON); the dead letter stays where it
stands. So the books balance, and results follow as of any record: one for a window that has closed is late, and a replay
guard may refuse it.

Sent is only what the topic's description can read now. Kafka's other consumers get the records, too. Headrace notes below
the log which letters it has sent, so a second run does not send them again; a run that was broken off may send some twice.

Four kinds of letters stay although they can be read: one that is longer than the topic takes; one whose event time is
Kafka's timestamp 0 (1970-01-01 00:00:00.000), because Kafka's client takes 0 for the present; one of a partition that the
topic has no more; and one that a replay guard refused as ambiguous, because its chain would be as ambiguous again. A
correction of a value that holds the chain is sent.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import KafkaException, Producer
from pyspark.sql import functions as F

from headrace.errors import TransientError
from headrace.lake import small_files
from headrace.log.history.views import REDRIVEN as HEADER
from headrace.log.history.views import redriven
from headrace.log.record_task import UNPACKED_BYTES_MAX
from headrace.log.schema_store import SchemaStore
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import DEAD_LETTER, ERASED
from headrace.sequence.log_rows import HEADERS
from headrace.sequence.log_state import LogState
from headrace.sequence.readers.gunzip import in_pieces
from headrace.sequence.replays.verdicts import AMBIGUOUS
from headrace.sequence.sequence_records import Sequencer
from headrace.spark.brokers.topic_limits import TopicLimits
from headrace.spark.kafka import KafkaTopic
from headrace.spark.lake_rows import read_table

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from headrace.description import Topic
    from headrace.lake.paths import Lake
    from headrace.lifecycle.corrections import Correction
    from headrace.spark.kafka import KafkaSettings

FOLDER = "_redriven"  # below the log's table; Delta leaves alone what begins with an underscore
RECORD_OVERHEAD_BYTES = 512  # of a record and its batch beside key, value and headers; `HEADER` included
ROWS_MAX, BYTES_MAX = 1_000, 32 << 20  # that are decoded and sent at once; one letter may be longer
PATIENCE_SECONDS = 60.0
Place = tuple[int, int]  # partition and offset


@dataclass(frozen=True)
class Letter:
    """A dead letter as it is sent, or would be.

    timestamp_ms  Kafka's; None: it is not known
    ambiguous     its source chain is one that the guard has refused as ambiguous
    """

    place: Place
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int | None
    ambiguous: bool = False


@dataclass(frozen=True)
class Redriven:
    """The fate of the dead letters.

    sent     records that were sent; with `dry_run` those that would be
    before   that had been sent before
    left     by the reason for which they still cannot be read
    missing  corrections that name no dead letter
    """

    sent: int
    before: int
    left: Mapping[str, int]
    missing: Sequence[Place] = ()


class Redrive:
    """Sends dead letters of one topic again."""

    def __init__(self, spark: SparkSession, lake: Lake, topic: Topic, kafka: KafkaSettings) -> None:
        self._spark, self._topic, self._kafka = spark, topic, kafka.of(topic.options)
        self._path = lake.log(topic.name)
        self._store = SchemaStore(self._path, topic)

    def run(
        self,
        *,
        reason: str | None = None,
        corrections: Mapping[Place, Correction] | None = None,
        dry_run: bool = False,
        on_read: Callable[[int], None] = lambda letters: None,
    ) -> Redriven:
        """Send what can be read now.

        In:     reason       of dead letters whose reason holds this text; None: of all
                corrections  by partition and offset: these alone are sent, as corrected
                dry_run      send nothing
                on_read      called with the number of dead letters that were looked at so far
        Raises: TransientError when Kafka does not take a record; RegistryAwayError
        """
        done, found, left = self._sent_before(), set[Place](), dict[str, int]()
        sent = before = looked_at = 0
        for some in in_batches(self._letters(reason, corrections)):
            found |= {letter.place for letter in some}
            fresh = [letter for letter in some if letter.place not in done]
            before += len(some) - len(fresh)
            readable = []
            for letter, why in zip(fresh, reasons_of(self._topic, self._store, fresh), strict=True):
                why = why or unsendable(letter, self._limits, self._partitions)
                if why is None:
                    readable.append(letter)
                else:
                    left[why] = left.get(why, 0) + 1
            if not dry_run:
                self._send(readable)
            sent += len(readable)
            looked_at += len(some)
            on_read(looked_at)
        return Redriven(sent, before, left, sorted(set(corrections or ()) - found))

    def _letters(
        self, reason: str | None, corrections: Mapping[Place, Correction] | None
    ) -> Iterator[Letter]:
        dead = read_table(self._spark, self._path).where(
            (F.col("kind") == DEAD_LETTER) & (F.col("reason") != ERASED)
        )
        if reason is not None:
            dead = dead.where(F.contains("reason", F.lit(reason)))
        if corrections is not None:
            dead = dead.where(F.col("offset").isin(sorted({offset for _, offset in corrections})))
        columns = ("partition", "offset", "raw_key", "raw_value", "headers", "reason")
        rows = dead.select(*columns, F.unix_millis("timestamp").alias("ms")).orderBy("partition", "offset")
        for row in rows.toLocalIterator():
            letter = self._letter(row)
            if corrections is None:
                yield letter
            elif letter.place in corrections:
                yield self._corrected(letter, corrections[letter.place])

    def _corrected(self, letter: Letter, correction: Correction) -> Letter:
        guard, corrected = self._topic.replay_guard, correction.of(letter)
        has_other_chain = guard is not None and guard.path is not None and corrected.value != letter.value
        return replace(corrected, ambiguous=letter.ambiguous and not has_other_chain)

    def _letter(self, row: Row) -> Letter:
        headers = [(each["key"], _bytes(each["value"])) for each in row["headers"] or ()]
        # Where the value tells the event time, Kafka's timestamp is not in the log, and nothing depends on it.
        known_ms = int(time.time() * 1000) if self._topic.timestamp is not None else row["ms"]
        place = (row["partition"], row["offset"])
        ambiguous = self._topic.replay_guard is not None and row["reason"].startswith(AMBIGUOUS)
        return Letter(place, _bytes(row["raw_key"]), _bytes(row["raw_value"]), headers, known_ms, ambiguous)

    def _send(self, letters: Sequence[Letter]) -> None:
        if not letters:
            return
        refused: list[str] = []
        for letter in letters:
            named = json.dumps([self._topic.name, *letter.place]).encode()
            headers: list[tuple[str, str | bytes | None]] = [
                *(pair for pair in letter.headers if pair[0] != HEADER),
                (HEADER, named),
            ]
            self._produce(
                key=letter.key,
                value=letter.value,
                partition=letter.place[0],
                timestamp=letter.timestamp_ms or 0,
                headers=headers,
                on_delivery=lambda error, _: refused.append(str(error)) if error is not None else None,
            )
        waiting = self._producer.flush(PATIENCE_SECONDS)
        if waiting or refused:
            raise TransientError(
                f"Topic '{self._topic.name}': Kafka did not take {waiting + len(refused)} of {len(letters)} records.",
                detail=refused[0] if refused else f"It did not answer within {PATIENCE_SECONDS:g} s.",
                hint="Run it again: records that the log holds by then are not sent again.",
            )
        note = [[*letter.place] for letter in letters]
        small_files.write_json(f"{self._path}/{FOLDER}/{uuid.uuid4().hex}.json", note)

    def _produce(self, **record: Any) -> None:
        """Give a record to Kafka's client. While the client is full, wait for Kafka."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self._producer.produce(self._topic.name, **record)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    record["on_delivery"](f"It did not answer within {PATIENCE_SECONDS:g} s.", None)
                    return
                self._producer.poll(0.1)
            except KafkaException as error:
                record["on_delivery"](error.args[0], None)
                return

    @cached_property
    def _producer(self) -> Producer:
        longest = {"message.max.bytes": max(1_000, self._limits.record_bytes_max)}
        return Producer(self._kafka.client_options() | {"enable.idempotence": True, "acks": "all"} | longest)

    @cached_property
    def _limits(self) -> TopicLimits:
        """Which records the topic takes."""
        return KafkaTopic(self._topic.name, self._kafka).limits()

    @cached_property
    def _partitions(self) -> frozenset[int]:
        """The partitions that the topic has now: one that was created again may have fewer than its log."""
        return frozenset(KafkaTopic(self._topic.name, self._kafka).partitions())

    def _sent_before(self) -> set[Place]:
        """The letters that stand in the log again, and those that were sent and may not have come there yet."""
        again = redriven(read_table(self._spark, self._path)).collect()
        noted = small_files.names(f"{self._path}/{FOLDER}")
        files = (small_files.read_json(f"{self._path}/{FOLDER}/{name}") or () for name in noted)
        return {(row["partition"], row["offset"]) for row in again} | {
            (p, o) for file in files for p, o in file
        }


def in_batches(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """Letters that are held in memory together, in their order."""
    batch, size = list[Letter](), 0
    for letter in letters:
        longer = len(letter.key or b"") + len(letter.value or b"")
        if batch and (len(batch) == ROWS_MAX or size + longer > BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(letter)
        size += longer
    if batch:
        yield batch


def unsendable(letter: Letter, limits: TopicLimits, partitions: Collection[int]) -> str | None:
    """Why a letter that can be read is not sent; None: it is. In: limits, partitions  of the topic."""
    if letter.place[0] not in partitions:
        return f"the topic has no partition {letter.place[0]} any more"
    if letter.ambiguous:
        return f"{AMBIGUOUS}: its source chain is as ambiguous when it is sent again; let its service number the outputs"
    headers = sum(len(name) + len(content or b"") for name, content in letter.headers)
    size = len(letter.key or b"") + len(letter.value or b"") + headers + RECORD_OVERHEAD_BYTES
    if size > limits.record_bytes_max:
        return f"the record is too long for its topic, which takes {limits.record_bytes_max:,} bytes"
    return limits.refusal(letter.key, letter.timestamp_ms, int(time.time() * 1000))


def reasons_of(topic: Topic, store: SchemaStore, letters: Sequence[Letter]) -> list[str | None]:
    """Why each cannot be read; None: it can.

    In: letters  by partition and offset
    """
    if not letters:
        return []
    compressed = RecordFormat.of(topic, store.known).compressed
    pieces = in_pieces(_records(letters), compressed, UNPACKED_BYTES_MAX)
    return [why for piece in pieces for why in _reasons(topic, store, piece)]


def _reasons(topic: Topic, store: SchemaStore, records: pa.Table) -> list[str | None]:
    while True:
        sequencer = Sequencer(RecordFormat.of(topic, store.known))
        decoded = sequencer.read(records, LogState(), int(time.time() * 1000)).decoded
        if not decoded.asked:
            found: list[str | None] = decoded.reasons.as_column().to_pylist()
            return found
        store.learn(decoded.asked)


def _records(letters: Sequence[Letter]) -> pa.Table:
    """The letters as `Sequencer.read` takes records."""
    headers = [
        [{"key": name, "value": content} for name, content in letter.headers] or None for letter in letters
    ]
    return pa.table(
        {
            "partition": pa.array([letter.place[0] for letter in letters], pa.int32()),
            "offset": pa.array([letter.place[1] for letter in letters], pa.int64()),
            "key": pa.array([letter.key for letter in letters], pa.binary()),
            "value": pa.array([letter.value for letter in letters], pa.binary()),
            "timestamp": pa.array([letter.timestamp_ms for letter in letters], pa.int64()),
            "headers": pa.array(headers, HEADERS),
        }
    )


def _bytes(content: bytearray | bytes | None) -> bytes | None:
    return None if content is None else bytes(content)
