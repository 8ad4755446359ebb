"""The work of a task, or of a delivery of few rows, for the Kafka sink: it sends records in order and without a gap.

Law: of what is sent to a partition, the broker holds a prefix at any moment, whatever fails; so when the same rows are
sent again, the position of each record that the broker lacks lies beyond all that it holds. Hence no message may expire
while later ones still go out: messages never time out, and when no progress is made everything is given up at once.
(The JVM client's delivery timeout drops expired batches and goes on with later ones; Spark's writer, which sends through
it, cannot set a record's timestamp either.)

A broker refuses a whole batch because of one record, and a client without gaps ends then. The task sends again what it has
sent since the broker had all of its records, at their positions: in stretches, and the records of a stretch in which one is
refused one at a time. A record that the broker refuses alone is a refused row, and the others follow.
A client that has ended is given nothing more, and what it had not sent is taken from it: librdkafka may keep a message
whose answer, a refusal too, came just behind the fatal error.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.sinks.kept_clients import Client, client_for, keep
from headrace.spark.brokers.topic_limits import NO_TIMESTAMP, TopicLimits

CLIENT_BYTES_MAX = 1_000_000_000  # of a record, for librdkafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import KafkaError, Producer

PATIENCE_S = 30.0  # without any progress, the broker is taken to be away
KEPT_MAX = 50_000  # records in a task's memory; then it waits until the broker has all of them
STRETCH = 1_000  # records that are sent again together
RECORD_OVERHEAD_BYTES = 256  # of a record and its batch beside key, value and header
OWNED: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "max.in.flight": 1,  # of a new client the broker takes any first sequence, also after a batch that it refused
    "delivery.report.only.error": True,
    "message.timeout.ms": 0,
    "linger.ms": 5,
    "log_level": 0,  # what matters comes back as errors, said in our words
}
ALONE: dict[str, Any] = {
    "enable.gapless.guarantee": False,  # without a later record there is no gap, and the client outlives a refusal
    "linger.ms": 0,
}
# Kafka's errors that are about a record; the broker refuses the whole batch, and the client all that follows it.
OF_THE_RECORD = frozenset(
    {"INVALID_RECORD", "INVALID_TIMESTAMP", "MSG_SIZE_TOO_LARGE", "INVALID_MSG_SIZE", "RECORD_LIST_TOO_LARGE"}
)
OF_ANOTHER = frozenset(
    {
        *("_INVALID_DIFFERENT_RECORD", "_GAPLESS_GUARANTEE", "_FATAL", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        *("_PURGE_QUEUE", "_PURGE_INFLIGHT"),
    }
)
Outcome = tuple[int | None, int | None, str | None, str | None, int | None]  # see `refusals.OUTCOMES`


CODECS = ("compression.type", "compression.codec")  # the client's setting has two names


class AwayError(Exception):
    """The broker takes nothing more."""


@dataclass(frozen=True)
class Destination:
    """Where records go: a topic, the client's settings, the records that the topic takes."""

    topic: str
    options: Mapping[str, str]
    header: str
    limits: TopicLimits

    def refusal(
        self, key: bytes | None, value: bytes | None, chain: str, timestamp_ms: int | None
    ) -> str | None:
        """Why a record cannot be sent; None: it can. A broker that refuses one record refuses its whole batch."""
        longest = self.limits.record_bytes_max
        size = len(key or b"") + len(value or b"") + len(chain)
        if size > longest - RECORD_OVERHEAD_BYTES - len(self.header):
            return f"the record has {size:,} bytes, and topic '{self.topic}' takes {longest:,}"
        codec = next((self.options[name] for name in CODECS if name in self.options), "none")
        return self.limits.refusal(key, timestamp_ms, int(time.time() * 1000), codec)


def sender(destination: Destination) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`.

    In:  rows sorted as they are to be sent: partition, key, value, chain, timestamp_ms, sequence, ordinal, problem
    Out: outcomes (see `refusals.OUTCOMES`), when the broker has everything else for good
    """

    def send(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield outcomes_batch(list(_sent(destination, batches)))

    return send


def outcomes_batch(outcomes: list[Outcome]) -> pa.RecordBatch:
    """Outcomes as Arrow."""
    whose = {"sequence": pa.int64(), "ordinal": pa.int32()}
    fields = whose | {"reason": pa.string(), "away": pa.string(), "staged": pa.int64()}
    columns = list(zip(*outcomes, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, fields.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(fields))


def outcomes_of(batches: Iterable[pa.RecordBatch]) -> list[Outcome]:
    """Outcomes that came as Arrow."""
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def _sent(destination: Destination, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcome]:
    production: _Production | None = None
    try:
        for batch in batches:
            if batch.num_rows:
                production = production or _Production(destination)
                yield from production.send(batch)
        if production is not None:
            yield from production.finish()
            production.keep()
    except AwayError as away:
        yield None, None, None, str(away), None


class _Production:
    def __init__(self, destination: Destination) -> None:
        self._to = destination
        self._sent: list[tuple[Any, ...]] = []  # rows, since the broker had all of them for the last time
        self._error = ""  # one that stops the delivery
        self._refusal, self._has_ended = "", False  # of a record; and whether the client takes no more
        self._client = client_for(destination.topic, self._settings(OWNED), self._reported)

    @property
    def _producer(self) -> Producer:
        return self._client.producer

    def send(self, batch: pa.RecordBatch) -> Iterator[Outcome]:
        refusal = self._to.refusal
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            _, key, value, chain, timestamp_ms, sequence, ordinal, problem = row
            problem = problem or refusal(key, value, chain, timestamp_ms)
            if problem is None:
                self._produce(row)
                self._sent.append(row)
            else:
                yield sequence, ordinal, problem, None, None
        self._poll(0)
        self._check()
        if self._has_ended or len(self._sent) >= KEPT_MAX:
            yield from self.finish()

    def finish(self) -> Iterator[Outcome]:
        """Return when the broker has everything that it does not refuse; raises AwayError."""
        self._wait(until=0)
        if self._has_ended:
            for first in range(0, len(self._sent), STRETCH):
                yield from self._again(self._sent[first : first + STRETCH])
        self._sent.clear()

    def keep(self) -> None:
        """Leave the client to the next delivery."""
        keep(self._client, self._settings(OWNED))

    def _again(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[Outcome]:
        """Send records again. If the broker refuses one, each is sent alone, and the answer is about that record."""
        if self._has_ended:
            self._open(OWNED)
        if self._is_taken(rows):
            return
        self._open(OWNED | ALONE)
        for row in rows:
            if self._is_taken([row]):
                continue
            if not self._refusal:
                self._give_up("The client gave a record up, and the broker did not refuse it.")
            sequence, ordinal = row[5:7]
            yield sequence, ordinal, self._refusal, None, None
        self._open(OWNED)
        self._has_ended = False

    def _is_taken(self, rows: Sequence[tuple[Any, ...]]) -> bool:
        self._refusal, self._has_ended = "", False
        for row in rows:
            self._produce(row)
        self._wait(until=0)
        return not (self._refusal or self._has_ended)

    def _open(self, owned: Mapping[str, Any]) -> None:
        self._client = Client(self._settings(owned))
        self._client.report = self._reported

    def _settings(self, owned: Mapping[str, Any]) -> dict[str, Any]:
        limit = {"message.max.bytes": min(max(1_000, self._to.limits.record_bytes_max), CLIENT_BYTES_MAX)}
        return {**self._to.options, **limit, **owned}

    def _produce(self, row: tuple[Any, ...]) -> None:
        from confluent_kafka import KafkaException

        partition, key, value, chain, timestamp_ms, *_ = row
        at_ms = NO_TIMESTAMP if timestamp_ms is None else timestamp_ms
        record: dict[str, Any] = {"key": key, "value": value, "partition": partition, "timestamp": at_ms}
        headers: list[tuple[str, str | bytes | None]] = [(self._to.header, chain)]
        while not self._has_ended:
            try:
                self._producer.produce(self._to.topic, headers=headers, **record)
                return
            except BufferError:
                self._wait(until=len(self._producer) - 1)
            except KafkaException as error:
                self._reported(error.args[0], None)
                return

    def _wait(self, until: int) -> None:
        left, deadline = len(self._producer), time.monotonic() + PATIENCE_S
        while len(self._producer) > until:
            if self._has_ended:  # what waits in the client may wait for good
                self._producer.purge(in_flight=False)
            self._poll(0.05)
            self._check()
            if len(self._producer) < left:
                left, deadline = len(self._producer), time.monotonic() + PATIENCE_S
            elif time.monotonic() > deadline:
                self._give_up(f"No record was acknowledged in {PATIENCE_S:g} s; {left:,} are waiting.")
        self._check()

    def _poll(self, seconds: float) -> None:
        """Take reports. A client that ends raises here, and then not every record is reported."""
        from confluent_kafka import KafkaException

        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._reported(error.args[0], None)
        except SystemError:  # a report was made while the client raised
            self._has_ended = True

    def _check(self) -> None:
        if self._error:
            self._give_up(self._error)

    def _give_up(self, why: str) -> None:
        self._producer.purge()
        raise AwayError(why)

    def _reported(self, error: KafkaError | None, _: object) -> None:
        if error is None:
            return
        name = error.name()
        if name in OF_THE_RECORD:
            self._refusal, self._has_ended = f"the broker refuses the record: {error.str()} ({name})", True
        elif error.fatal() or name in OF_ANOTHER:
            self._has_ended = True
        else:
            self._error = self._error or error.str()
