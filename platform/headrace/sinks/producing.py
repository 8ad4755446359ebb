"""The work of an executor for the Kafka sink: it sends one task's records, in order and without a gap.

Law: of what is sent to a partition, the broker holds a prefix at any moment, whatever fails; so when the same rows are
sent again, the position of each record that the broker lacks lies beyond all that it holds. Hence no message may expire
while later ones still go out: messages never time out, and when no progress is made everything is given up at once.
(The JVM client's delivery timeout drops expired batches and goes on with later ones; Spark's writer, which sends through
it, cannot set a record's timestamp either.)
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.spark.topic_limits import NO_TIMESTAMP, TopicLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from confluent_kafka import KafkaError

PATIENCE_S = 30.0  # without any progress, the broker is taken to be away
RECORD_OVERHEAD_BYTES = 256  # of a record and its batch beside key, value and header
OWNED: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "message.timeout.ms": 0,
    "delivery.report.only.error": True,
    "linger.ms": 5,
    "log_level": 0,  # what matters comes back as errors, said in our words
}
Outcome = tuple[int | None, int | None, str | None, str | None, int | None]  # see `refusals.OUTCOMES`


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
        return self.limits.refusal(key, timestamp_ms, int(time.time() * 1000))


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


def _sent(destination: Destination, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcome]:
    production: _Production | None = None
    try:
        for batch in batches:
            if batch.num_rows:
                production = production or _Production(destination)
                yield from production.send(batch)
        if production is not None:
            production.finish()
    except AwayError as away:
        yield None, None, None, str(away), None


class _Production:
    def __init__(self, destination: Destination) -> None:
        from confluent_kafka import Producer

        self._to, self._error = destination, ""
        limit = {"message.max.bytes": max(1_000, destination.limits.record_bytes_max)}
        self._producer = Producer({**destination.options, **limit, **OWNED, "on_delivery": self._failed})

    def send(self, batch: pa.RecordBatch) -> Iterator[Outcome]:
        produce, to = self._producer.produce, self._to
        for partition, key, value, chain, timestamp_ms, sequence, ordinal, problem in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            problem = problem or to.refusal(key, value, chain, timestamp_ms)
            if problem is not None:
                yield sequence, ordinal, problem, None, None
                continue
            at_ms = NO_TIMESTAMP if timestamp_ms is None else timestamp_ms
            record = {"key": key, "value": value, "partition": partition, "timestamp": at_ms}
            headers = [(to.header, chain)]
            while True:
                try:
                    produce(to.topic, headers=headers, **record)
                    break
                except BufferError:
                    self._wait(until=len(self._producer) - 1)
        self._producer.poll(0)
        self._check()

    def finish(self) -> None:
        """Return when the broker has everything; raises AwayError."""
        self._wait(until=0)
        self._check()

    def _wait(self, until: int) -> None:
        left, deadline = len(self._producer), time.monotonic() + PATIENCE_S
        while len(self._producer) > until:
            self._producer.flush(0.2) if until == 0 else self._producer.poll(0.05)
            self._check()
            if len(self._producer) < left:
                left, deadline = len(self._producer), time.monotonic() + PATIENCE_S
            elif time.monotonic() > deadline:
                self._give_up(f"No record was acknowledged in {PATIENCE_S:g} s; {left:,} are waiting.")

    def _check(self) -> None:
        if self._error:
            self._give_up(self._error)

    def _give_up(self, why: str) -> None:
        self._producer.purge()
        raise AwayError(why)

    def _failed(self, error: KafkaError | None, message: object) -> None:
        if error is not None and not self._error:
            self._error = error.str()
