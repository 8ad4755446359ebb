"""A real Kafka broker on this machine, from its published jars: one node, KRaft, no Docker.

    with Broker(Path("data")) as broker:
        create_topics(broker.bootstrap_servers, {"readings": 3})

Invariants:
- it listens on the loopback interface only;
- its data survives stop, kill and restart; one data folder serves one broker at a time;
- it does not outlive the process that started it.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import socket
import subprocess
import time
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.errors import TerminalError
from headrace.local.servers import lifeline
from headrace.local.servers.broker_config import (
    HOST,
    JVM_FLAGS,
    LOG_FLAGS,
    Quorum,
    server_properties,
)
from headrace.local.servers.server import ANSWER_S, LocalServer, run_until_stopped
from headrace.local.servers.topics import create_topics
from headrace.spark.jars import broker_classpath, java

__all__ = ["Broker", "BrokerFailed", "create_topics"]

LOCK_SECONDS = 20.0  # for a broker that ends to give its folder back


class BrokerFailed(TerminalError):
    """The broker did not start, or ended; the detail holds the last lines of its log."""


class Broker(LocalServer):
    """A Kafka broker over one data folder.

    In:     `port` None takes a free one, and keeps it over restarts of this object.
            `quorum` and `node`: the cluster to which it belongs, and its number there; None: it is alone
    """

    noun = "broker"
    failed = BrokerFailed

    def __init__(
        self, data_dir: Path, port: int | None = None, *, quorum: Quorum | None = None, node: int = 1
    ) -> None:
        super().__init__(data_dir.absolute(), port, "broker.log")
        self._quorum, self._node = quorum, node

    @property
    def title(self) -> str:
        """With its address."""
        return f"The broker on {self.bootstrap_servers}"

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as `host:port`."""
        return self.address

    def _launch(self) -> None:
        """Start the process; its storage is formatted the first time."""
        held = self._hold_data_dir()
        try:
            self._choose_port()
            quorum = self._quorum or Quorum.of(1)
            properties = self._write_properties(quorum)
            self._format_storage(properties, quorum)
            command = [*self._java(), "kafka.Kafka", str(properties)]
            self._process = lifeline.spawn(command, log=self.log_file, keep_fds=[held])
        finally:
            os.close(held)

    def _hold_data_dir(self) -> int:
        """Lock the data folder; the child inherits the lock and ends it, so a dying one is waited for."""
        held = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return held
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(held)
                    raise BrokerFailed(
                        f"Another broker runs over '{self.data_dir}'.",
                        hint="Stop it, or name another data folder.",
                    ) from None
                time.sleep(0.1)

    def _write_properties(self, quorum: Quorum) -> Path:
        assert self.port is not None
        properties = self.data_dir / "server.properties"
        properties.write_text(
            server_properties(self.data_dir, port=self.port, quorum=quorum, node=self._node), encoding="utf-8"
        )
        return properties

    def _format_storage(self, properties: Path, quorum: Quorum) -> None:
        if (self.data_dir / "log" / "meta.properties").exists():
            return
        arguments = ["format", "--ignore-formatted", "-t", quorum.cluster_id, "-c", str(properties)]
        command = [*self._java(), "kafka.tools.StorageTool", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerFailed(
                f"Storage in '{self.data_dir}' could not be formatted.", detail=done.stdout + done.stderr
            )

    def _java(self) -> list[str]:
        options = shlex.split(os.environ.get("KAFKA_OPTS", ""))  # what Kafka's own scripts give to its JVM
        return [java(), *JVM_FLAGS, *LOG_FLAGS, *options, "-cp", broker_classpath()]

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.port or 0), timeout=ANSWER_S).close()
            admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
            return bool(admin.list_topics(timeout=ANSWER_S).brokers)
        except (OSError, KafkaException):
            return False


def main(
    data_dir: Annotated[Path, typer.Option(help="Folder for its data, kept for the next start.")],
    port: Annotated[int, typer.Option(help="Port on the loopback interface.")] = 9092,
) -> None:
    """Run a Kafka broker on this machine until Ctrl-C."""
    broker = Broker(data_dir, port)
    run_until_stopped(broker, lambda: f"Kafka is ready on {broker.bootstrap_servers}")


if __name__ == "__main__":
    typer.run(main)
