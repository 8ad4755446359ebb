"""Several Kafka brokers on this machine, one cluster: each record is on all of them, and one of them may be away.

    with Brokers(Path("data")) as cluster:
        create_topics(cluster.bootstrap_servers, {"readings": 3})

Each is a `Broker`, with its invariants.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient

from headrace.local.servers.broker import Broker, BrokerFailed
from headrace.local.servers.broker_config import Quorum


class Brokers:
    """A cluster of brokers, below one folder. In: nodes  how many; with three, one may be away."""

    def __init__(self, data_dir: Path, nodes: int = 3) -> None:
        quorum = Quorum.of(nodes)
        self.members = [
            Broker(data_dir / f"broker-{node}", quorum=quorum, node=node) for node in quorum.controllers
        ]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all members, for clients: any member may be away."""
        return ",".join(member.bootstrap_servers for member in self.members)

    def wait_ready(self, timeout_s: float = 300.0) -> Self:
        """Return when each has joined.

        Raises: BrokerFailed when one has ended or is missing at the end of the time
        """
        deadline = time.monotonic() + timeout_s
        for member in self.members:
            member.wait_ready(deadline - time.monotonic())
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        while (joined := len(admin.list_topics(timeout=timeout_s).brokers)) < len(self.members):
            if time.monotonic() > deadline:
                raise BrokerFailed(f"Of {len(self.members)} brokers {joined} came within {timeout_s:g} s.")
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        """Shut all of them down at once: the last ones of a cluster would wait for the others."""
        with ThreadPoolExecutor(len(self.members)) as threads:
            list(threads.map(Broker.stop, self.members))

    def __enter__(self) -> Self:
        """Start all of them, and wait until they are one cluster."""
        try:
            for member in self.members:
                member.start()
            return self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
