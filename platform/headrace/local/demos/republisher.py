"""A service between two topics that really crashes, and sends again what it had not committed.

It consumes `stations`, keeps what `tightenings` is about, and appends its own input to the source chain, so that
a replay guard downstream knows what it has seen. The chain stands in a header and in the message itself: services that
cannot set headers do the latter. The messages are Protobuf, and their schema is in a registry.

It commits its offsets now and then, as such services do; killed in between, it starts again from the last commit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer
from confluent_kafka import Consumer, KafkaError, Producer

from headrace.description.formats import Protobuf
from headrace.description.source_chain import source_chain
from headrace.local.servers import lifeline
from headrace.local.tightening_message import Tightening
from headrace.sinks.encoding.protobuf_rows import registered_message
from headrace.spark.brokers.kafka_headers import headers_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from confluent_kafka import Message

SOURCE, TARGET, GROUP = "stations", "tightenings", "republisher"
HEADER = "source-chain"
COMMIT_EVERY = 200
RESTART_SECONDS = 1.0


def command(bootstrap: str, registry: str) -> list[str]:
    """The command that runs it as a process."""
    addresses = ["--bootstrap", bootstrap, "--registry", registry]
    return [sys.executable, "-m", "headrace.local.demos.republisher", *addresses]


def chained(message: Message, options: Mapping[str, object]) -> bytes:
    """The source chain of what is made of a record: the chain that it came with, and its own position.

    In: options  of a consumer
    """
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    (headers,) = headers_of([message], topic, options)
    known = dict(headers).get(HEADER)  # the last one, should there be several
    return source_chain(known, topic, partition, offset)


def tightening(report: Mapping[str, Any], chain: bytes) -> bytes:
    """Write a report as the message that is sent on. In: chain  as in the header."""
    entries = [{"topic": topic, "partition": number, "offset": at} for topic, number, at in json.loads(chain)]
    made = Tightening(envelope={"source_topic_chain": entries}, **report)
    content: bytes = made.SerializeToString()
    return content


def framing(registry: str) -> bytes:
    """The bytes before each message: they name its schema, which is registered unless the registry has it.

    Raises: RegistryAwayError
    """
    described = Protobuf(Tightening, registry=registry)
    return registered_message(described, TARGET, "value", f"republisher: '{TARGET}'", register=True)


def republish(bootstrap: str, registry: str, *, crash_after: int | None, until_end: bool) -> int:
    """Consume, transform and produce in order.

    In:  crash_after  SIGKILL itself after so many records, committed or not; None: never
         until_end    end when the source has nothing more
    Out: the records sent on
    """
    frame = framing(registry)
    options: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "group.instance.id": GROUP,  # a static member: who comes back is let in at once
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
    }
    consumer = Consumer(options)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
        }
    )
    consumer.subscribe([SOURCE])
    sent, ended = 0, set[int]()
    while not (until_end and ended and len(ended) == len(consumer.assignment())):
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
            continue
        report, chain = json.loads(message.value() or b"{}"), chained(message, options)
        producer.produce(
            TARGET,
            key=message.key(),
            value=frame + tightening({name: report[name] for name in ("customer", "screw", "count")}, chain),
            timestamp=message.timestamp()[1],
            headers={HEADER: chain},
        )
        producer.poll(0)
        sent += 1
        if sent % COMMIT_EVERY == 0:
            producer.flush()
            consumer.commit(asynchronous=False)
        if sent == crash_after:
            producer.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    producer.flush()
    if sent % COMMIT_EVERY:
        consumer.commit(asynchronous=False)
    consumer.close()
    return sent


class Republisher:
    """The service as a child process, started again whenever it has crashed, until the block ends."""

    def __init__(self, bootstrap: str, registry: str, log: Path, *, crash_after: int) -> None:
        """In: crash_after  records in each life."""
        self._command = [*command(bootstrap, registry), "--crash-after", str(crash_after)]
        self._log = log
        self._over = threading.Event()
        self.crashes = 0
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)

    def __enter__(self) -> Republisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(15)

    def _keep_alive(self) -> None:
        while not self._over.is_set():
            process = lifeline.spawn(self._command, log=self._log)
            while process.poll() is None and not self._over.wait(0.2):
                pass
            if process.poll() is None:
                lifeline.stop(process, patience_s=5)
            else:
                self.crashes += 1
                self._over.wait(RESTART_SECONDS)


def main(
    registry: Annotated[str, typer.Option(help="Address of the schema registry.")],
    bootstrap: Annotated[str, typer.Option(help="Kafka, as host:port.")] = "127.0.0.1:9092",
    crash_after: Annotated[
        int | None, typer.Option(min=1, help="SIGKILL itself after so many records.")
    ] = None,
    until_end: Annotated[bool, typer.Option(help="End when the source has nothing more.")] = False,
) -> None:
    """Send the records of `stations` on to `tightenings`."""
    sent = republish(bootstrap, registry, crash_after=crash_after, until_end=until_end)
    typer.echo(f"{sent} records sent on to '{TARGET}'.")


if __name__ == "__main__":
    typer.run(main)
