"""An empty lake for each test, and a broker whose clients have names and rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from headrace.local.servers.topics import create_topics
from tests.broker.harness import lake
from tests.broker.second_listener import SecondListener
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from headrace.lake.paths import Lake

__all__ = ["Lake", "lake"]
USER, PASSWORD = "reader", "right"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
ALL: Any = None  # of a name, a client, a host
ANY = AclBindingFilter(
    ResourceType.ANY, ALL, ResourcePatternType.ANY, ALL, ALL, AclOperation.ANY, AclPermissionType.ANY
)


class SaslBroker(SecondListener):
    """Its second listener is for clients with a password; the tests prepare rights by the first, too."""

    def __init__(self, data_dir: Path) -> None:
        text = "sasl.enabled.mechanisms=PLAIN\n"
        text += f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN} required user_{USER}="{PASSWORD}";\n'
        text += "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        text += "super.users=User:ANONYMOUS\n"
        super().__init__(data_dir, "SASL_PLAINTEXT", "SASL_PLAINTEXT", text)


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
            each.result(PATIENCE_S)
        # The controller has them; the broker goes by them a moment later.
        until(lambda: len(admin.describe_acls(ANY).result(PATIENCE_S)) == len(given))
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
