"""Kafka: whether brokers answer and take the credentials, whether topics exist, and what this client may do with them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation

from headrace.errors import HeadraceError, TerminalError, TransientError
from headrace.nodes.topics import topics_of
from headrace.preflight.finding import Finding, tried
from headrace.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.description import Node
    from headrace.settings.kafka import KafkaSettings

SECONDS = 8.0
RIGHTS = {AclOperation.READ: "Read", AclOperation.WRITE: "Write"}
Wanted = dict[str, tuple["KafkaSettings", set[AclOperation]]]


def check_kafka(nodes: Sequence[Node], settings: KafkaSettings) -> Iterator[Finding]:
    """Ask each broker that a topic or sink of these nodes names, by its own settings before the common ones."""
    groups: dict[Any, Wanted] = {}
    for name, own, right in _wanted(nodes, settings):
        asked = groups.setdefault(tuple(sorted(own.client_options().items())), {})
        asked.setdefault(name, (own, set()))[1].add(right)
    for wanted in groups.values():
        own = next(iter(wanted.values()))[0]
        said: set[str] = set()
        admin = _client(own, said)
        reached = tried(f"Kafka {own.bootstrap_servers}", partial(_reach, admin, own, said))
        yield reached
        if reached.ok:
            for name, (_, rights) in sorted(wanted.items()):
                yield tried(f"topic '{name}'", partial(_look_at, admin, name, rights))


def _wanted(
    nodes: Sequence[Node], settings: KafkaSettings
) -> Iterator[tuple[str, KafkaSettings, AclOperation]]:
    for topic in topics_of(nodes).values():
        yield topic.name, settings.of(topic.options), AclOperation.READ
    for node in nodes:
        for sink in node.sinks:
            if isinstance(sink, KafkaSink):
                yield sink.topic, settings.of(sink.options), AclOperation.WRITE


def _client(settings: KafkaSettings, said: set[str]) -> AdminClient:
    own: dict[str, Any] = {"log_level": 2, "error_cb": lambda error: said.add(error.str())}
    return AdminClient({**settings.client_options(), **own})


def _reach(admin: AdminClient, settings: KafkaSettings, said: set[str]) -> str:
    try:
        brokers = admin.list_topics(timeout=SECONDS).brokers
    except KafkaException as error:
        admin.poll(0)
        raise _unreachable(settings, "; ".join(sorted(said)) or str(error)) from None
    return f"{len(brokers)} broker(s) answer, by {settings.security_protocol or 'PLAINTEXT'}"


def _unreachable(settings: KafkaSettings, detail: str) -> HeadraceError:
    """Why no broker takes this client, in words that lead to the setting."""
    server, lower = settings.bootstrap_servers, detail.lower()
    if "authentication" in lower or "sasl" in lower:
        return TerminalError(
            f"Kafka at {server} refuses the credentials.",
            detail=detail,
            hint="Correct HEADRACE_KAFKA_USERNAME, …_PASSWORD and …_SASL_MECHANISM.",
        )
    if "ssl" in lower or "certificate" in lower:
        return TerminalError(
            f"Kafka at {server}: TLS fails.",
            detail=detail,
            hint="Correct HEADRACE_KAFKA_SSL_CA_LOCATION, …_SSL_CERTIFICATE_LOCATION and …_SSL_KEY_LOCATION.",
        )
    return TransientError(
        f"Kafka at {server} does not answer.",
        detail=detail,
        hint="Start the broker, correct HEADRACE_KAFKA_BOOTSTRAP_SERVERS, or set HEADRACE_KAFKA_SECURITY_PROTOCOL "
        "if the broker speaks TLS or SASL.",
    )


def _look_at(admin: AdminClient, name: str, rights: set[AclOperation]) -> str:
    asked = admin.describe_topics(
        TopicCollection([name]), include_authorized_operations=True, request_timeout=SECONDS
    )
    try:
        found = asked[name].result(SECONDS + 2)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise _not_allowed(name, "it may not be described", rights) from None
        raise TerminalError(
            f"There is no topic '{name}'.", detail=str(error), hint="Create it, or correct the topic's name."
        ) from None
    allowed = set(found.authorized_operations or ())
    missing = sorted(RIGHTS[right] for right in rights if allowed and right not in allowed)
    if missing:
        raise _not_allowed(name, f"this client may not {' and '.join(missing).lower()}", rights)
    return f"{len(found.partitions)} partition(s), rights as needed"


def _not_allowed(name: str, why: str, rights: set[AclOperation]) -> TerminalError:
    needed = ", ".join(["Describe", *sorted(RIGHTS[right] for right in rights)])
    return TerminalError(
        f"Topic '{name}': {why}.", hint=f"Give this client's principal the operations {needed} on the topic."
    )
