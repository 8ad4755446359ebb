"""Demo traffic on a Kafka topic: history dated days back, or a live stream at a steady rate."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Annotated

import typer
from confluent_kafka import KafkaError, Message, Producer

from headrace.errors import TransientError
from headrace.local.broker_config import MESSAGE_BYTES_MAX
from headrace.local.readings import DAY_MS, SECOND_MS, Reading, Sensors
from headrace.local.topics import create_topics

TOPIC = "readings"
PARTITIONS = 3
RATE = 200.0
HISTORY_DAYS = 3
HISTORY_RECORDS = 40_000
PATIENCE_S = 600.0  # how long a record is kept for a broker that is away
FAREWELL_S = 15.0  # and how long when the stream of records is asked to stop
BEHIND_MAX_S = 30.0  # after a longer pause, such as a laptop's sleep, what was missed is not made up for


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
            }
        )

    def send(self, reading: Reading) -> None:
        """Queue one record; blocks while the queue is full.

        Raises: DeliveryFailed when an earlier one was given up.
        """
        while not self._failures:
            try:
                self._producer.produce(
                    self._topic,
                    key=reading.key,
                    value=reading.value,
                    timestamp=reading.timestamp_ms,
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

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)


def produce_history(
    bootstrap: str,
    *,
    topic: str = TOPIC,
    days: int = HISTORY_DAYS,
    records: int = HISTORY_RECORDS,
    seed: int = 7,
    until_ms: int | None = None,
) -> int:
    """Write back-dated records, spread evenly over the `days` before `until_ms` (default now), at once.

    Out:    the number of records written; their order is that of time, but for the usual disorder.
    Raises: DeliveryFailed.
    """
    end_ms = until_ms if until_ms is not None else now_ms()
    sender, sensors = Sender(bootstrap, topic), Sensors(seed)
    for number in range(records):
        sender.send(sensors.read(end_ms - days * DAY_MS * (records - number) // records))
    sender.finish(PATIENCE_S)
    return records


def produce_live(
    bootstrap: str,
    *,
    topic: str = TOPIC,
    rate: float = RATE,
    records: int | None = None,
    seed: int = 7,
    stop: threading.Event | None = None,
) -> int:
    """Write `rate` records per second, dated now, until `records` are written or `stop` is set.

    Out:    the number of records written.
    Raises: DeliveryFailed.
    """
    sender, sensors, written = Sender(bootstrap, topic), Sensors(seed), 0
    for count in paced(rate, stop or threading.Event()):
        left = count if records is None else min(count, records - written)
        for _ in range(left):
            sender.send(sensors.read(now_ms()))
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


def main(
    bootstrap: Annotated[str, typer.Option(help="Kafka, as host:port.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="Topic to write to; made when it does not exist.")] = TOPIC,
    rate: Annotated[float, typer.Option(min=0.1, help="Live records per second.")] = RATE,
    history_days: Annotated[
        int, typer.Option(min=0, help="Write this many days of back-dated records at once, then end.")
    ] = 0,
    records: Annotated[
        int | None, typer.Option(min=1, help=f"End after so many; history has {HISTORY_RECORDS} by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same readings.")] = 7,
) -> None:
    """Write readings of 50 imaginary sensors, some late, some broken, until Ctrl-C."""
    create_topics(bootstrap, {topic: PARTITIONS})
    if history_days:
        count = records or HISTORY_RECORDS
        written = produce_history(bootstrap, topic=topic, days=history_days, records=count, seed=seed)
    else:
        stop = threading.Event()
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, lambda *_: stop.set())
        written = produce_live(bootstrap, topic=topic, rate=rate, records=records, seed=seed, stop=stop)
    typer.echo(f"{written} records written to '{topic}'.")


if __name__ == "__main__":
    typer.run(main)
