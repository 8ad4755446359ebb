"""An empty lake for each test, and a broker whose clients have names and rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from headrace.local.broker import Broker
from headrace.local.broker_config import HOST, Quorum, free_port
from headrace.local.topics import create_topics
from tests.broker.harness import lake

if TYPE_CHECKING:
    from headrace.lake.paths import Lake

__all__ = ["Lake", "lake"]
USER, PASSWORD = "reader", "right"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SaslBroker(Broker):
    """A broker with a second listener, for clients with a password; the tests prepare topics and rights by the first."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.sasl_port = free_port()

    @property
    def sasl_servers(self) -> str:
        return f"{HOST}:{self.sasl_port}"

    def _write_properties(self, quorum: Quorum) -> Path:
        path = super()._write_properties(quorum)
        text = path.read_text()
        for name in ("listeners", "advertised.listeners"):
            text = text.replace(f"\n{name}=", f"\n{name}=SASL_PLAINTEXT://{HOST}:{self.sasl_port},")
        text = text.replace("protocol.map=", "protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,")
        text += "sasl.enabled.mechanisms=PLAIN\n"
        text += f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN} required user_{USER}="{PASSWORD}";\n'
        text += "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        text += "super.users=User:ANONYMOUS\n"
        path.write_text(text)
        return path


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    """`reader` may read `readings` and `in`, write `out` and describe `counts`; of `secrets` it may know nothing."""
    with SaslBroker(tmp_path_factory.mktemp("sasl") / "kafka") as running:
        topics = {"readings": 2, "counts": 1, "secrets": 1, "in": 1, "out": 1}
        create_topics(running.bootstrap_servers, topics)
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        given = [("readings", AclOperation.READ), ("counts", AclOperation.DESCRIBE)]
        given += [("in", AclOperation.READ), ("out", AclOperation.WRITE)]
        made = admin.create_acls([_may(topic, operation) for topic, operation in given])
        for each in made.values():
            each.result(10)
        yield running


def _may(topic: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
