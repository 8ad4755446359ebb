"""Demo traffic on a Kafka topic: history dated days back, or a live stream at a steady rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import KafkaError, Producer

from headrace.errors import TransientError
from headrace.local.servers.broker_config import MESSAGE_BYTES_MAX

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
DAY_MS = 24 * 60 * MINUTE_MS
SEED = 7  # of the demos
PATIENCE_S = 600.0  # how long a record is kept for a broker that is away
FAREWELL_S = 15.0  # and how long when the stream of records is asked to stop
BEHIND_MAX_S = 30.0  # after a longer pause, such as a laptop's sleep, what was missed is not made up for


@dataclass(frozen=True)
class Message:
    """One Kafka record: `value` is JSON, or broken bytes, or None; `timestamp_ms` is its event time."""

    key: str
    value: bytes | None
    timestamp_ms: int


class Source(Protocol):
    """A writer to one topic of the demo."""

    def read(self, now_ms: int) -> Message:
        """The next message, at a nominal time that never falls."""
        ...


class DeliveryFailed(TransientError):
    """Kafka did not take some records in time; the message counts them and the detail gives its reason."""


class Sender:
    """A producer that waits rather than loses: through a full queue, and through a broker that is away."""

    def __init__(self, bootstrap: str, topic: str, *, patience_s: float = PATIENCE_S) -> None:
        self._topic = topic
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # where the JVM's clients would put a key
                "linger.ms": 20,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "message.timeout.ms": int(patience_s * SECOND_MS),
                "log_level": 3,  # errors: that a new broker is not ready yet is tried again, and none of a person's business
            }
        )

    def send(self, message: Message) -> None:
        """Queue one record; blocks while the queue is full.

        Raises: DeliveryFailed when an earlier one was given up.
        """
        while not self._failures:
            try:
                self._producer.produce(
                    self._topic,
                    key=message.key,
                    value=message.value,
                    timestamp=message.timestamp_ms,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(0.5)
            else:
                self._producer.poll(0)
                return
        self.finish(0)

    def finish(self, timeout_s: float) -> None:
        """Wait until everything queued is delivered.

        Raises: DeliveryFailed when something was given up, or is not delivered in time.
        """
        undelivered = self._producer.flush(timeout_s) + len(self._failures)
        if undelivered:
            raise DeliveryFailed(
                f"Topic '{self._topic}': {undelivered} records were not delivered.",
                detail=str(self._failures[0]) if self._failures else None,
                hint="Is the broker up?",
            )

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failures.append(error)


def produce_history(
    bootstrap: str, topic: str, source: Source, *, days: int, records: int, until_ms: int | None = None
) -> int:
    """Write back-dated records, spread evenly over the `days` before `until_ms` (default now), at once.

    Out:    the number of records written; their order is that of time, but for the usual disorder.
    Raises: DeliveryFailed.
    """
    end_ms = until_ms if until_ms is not None else now_ms()
    sender = Sender(bootstrap, topic)
    for number in range(records):
        sender.send(source.read(end_ms - days * DAY_MS * (records - number) // records))
    sender.finish(PATIENCE_S)
    return records


def produce_live(
    bootstrap: str,
    topic: str,
    source: Source,
    *,
    rate: float,
    records: int | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Write `rate` records per second, dated now, until `records` are written or `stop` is set.

    Out:    the number of records written.
    Raises: DeliveryFailed.
    """
    sender, written = Sender(bootstrap, topic), 0
    for count in paced(rate, stop or threading.Event()):
        left = count if records is None else min(count, records - written)
        for _ in range(left):
            sender.send(source.read(now_ms()))
        written += left
        if written == records:
            break
    sender.finish(FAREWELL_S)
    return written


def paced(rate: float, stop: threading.Event) -> Iterator[int]:
    """Give, ten times a second, how many records are due, until `stop` is set."""
    began, given = time.monotonic(), 0
    while not stop.wait(0.1):
        elapsed = time.monotonic() - began
        if elapsed - given / rate > BEHIND_MAX_S:
            began, given, elapsed = time.monotonic(), 0, 0.0
        due = int(elapsed * rate) - given
        given += due
        yield due


def now_ms() -> int:
    """Read the wall clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
