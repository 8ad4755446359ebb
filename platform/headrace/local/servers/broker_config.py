"""The configuration of a Kafka broker, alone or one of several: KRaft, loopback only, light enough for a laptop."""

from __future__ import annotations

import base64
import secrets
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
OWN_PORTS = range(10_000, 32_000)  # Linux (from 32,768), macOS and Windows (from 49,152) give others away
_GIVEN = set[int]()  # by this process: a server may bind its port long after it was chosen
MESSAGE_BYTES_MAX = 8 * 1024 * 1024
JVM_FLAGS = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOG_FLAGS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
)


@dataclass(frozen=True)
class Quorum:
    """The nodes of one Kafka cluster; each is a broker and a controller.

    controllers  by the id of a node, from 1 on, the port of its controller
    """

    cluster_id: str
    controllers: Mapping[int, int]

    @staticmethod
    def of(nodes: int) -> Quorum:
        """A new cluster of so many nodes, with ports that are free now."""
        return Quorum(new_cluster_id(), {node: free_port() for node in range(1, nodes + 1)})


def server_properties(data_dir: Path, *, port: int, quorum: Quorum, node: int = 1) -> str:
    """Compose `server.properties` of one node: broker and controller in one process, data kept for ever."""
    listeners = f"PLAINTEXT://{HOST}:{port}"
    nodes = len(quorum.controllers)
    enough = max(1, nodes - 1)  # replicas that have a record before its sender is told so
    properties = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{n}@{HOST}:{p}" for n, p in quorum.controllers.items()),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{listeners},CONTROLLER://{HOST}:{quorum.controllers[node]}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data_dir / "log",
        "auto.create.topics.enable": "false",
        # Each node has everything; one of several may be away. Alone it has no group to wait for.
        "default.replication.factor": nodes,
        "min.insync.replicas": enough,
        "offsets.topic.replication.factor": nodes,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": nodes,
        "transaction.state.log.min.isr": enough,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": nodes,
        "share.coordinator.state.topic.min.isr": enough,
        "share.coordinator.state.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        # A killed broker is taken back when its former session has ended: not after Kafka's 9 s.
        "broker.session.timeout.ms": 5000,
        "broker.heartbeat.interval.ms": 500,
        # Retention goes by the records' timestamps, and traffic may be dated long ago.
        "log.retention.ms": -1,
        "message.max.bytes": MESSAGE_BYTES_MAX,
        "replica.fetch.max.bytes": MESSAGE_BYTES_MAX,
        # A small heap and two cores.
        "num.network.threads": 2,
        "num.io.threads": 2,
        "background.threads": 2,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
    }
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def new_cluster_id() -> str:
    """Make a cluster id of the form that Kafka wants: 22 characters that do not begin with a dash."""
    return "H" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


def free_port() -> int:
    """Find a port of the loopback interface that nobody listens on, and that this process has given to nobody.

    It is none that a system gives to whoever asks for any port: until a server binds it, a client or a gateway to the JVM
    could be given it.
    """
    while (port := secrets.choice(OWN_PORTS)) in _GIVEN or not port_is_free(port):
        pass
    _GIVEN.add(port)
    return port


def port_is_free(port: int) -> bool:
    """Say whether a listener could be bound to this port of the loopback interface."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
