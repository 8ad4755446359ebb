"""Kafka: whether brokers answer and take the credentials, whether topics exist, and what this client may do with them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation

from headrace.description.sink import Delivery
from headrace.description.wording import listed
from headrace.errors import HeadraceError, TerminalError, TransientError
from headrace.nodes.descriptions.sink_settings import reached_by
from headrace.nodes.descriptions.topics import topics_of
from headrace.operators.registry import operator_for
from headrace.preflight.finding import Finding, tried
from headrace.settings.kafka import FIELDS
from headrace.sinks.kafka import KafkaSink
from headrace.spark.brokers.kafka_client import client_only
from headrace.spark.brokers.kafka_refusals import refusal_of
from headrace.spark.kafka import NO_ANSWER, KafkaTopic, admin_client

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from headrace.description import Node
    from headrace.settings.kafka import KafkaSettings
    from headrace.spark.brokers.topic_limits import TopicLimits

SECONDS = 8.0
RIGHTS = {AclOperation.READ: "Read", AclOperation.WRITE: "Write"}


def check_kafka(nodes: Sequence[Node], settings: KafkaSettings) -> Iterator[Finding]:
    """Ask each broker that a topic or sink of these nodes names, by its own settings before the common ones."""
    own_topics = tried("sinks", partial(_require_other_topics, nodes, settings))
    if not own_topics.ok:
        yield own_topics
    brokers: dict[Any, _Broker] = {}
    for name, own, options, use in _wanted(nodes, settings):
        way = (tuple(own.model_dump().items()), tuple(sorted(options.items())))
        broker = brokers.setdefault(way, _Broker(own, options))
        broker.wanted.setdefault(name, []).append(use)
    for broker in brokers.values():
        reached = tried(f"Kafka {broker.servers}", broker.reach)
        yield reached
        if reached.ok:
            for name, uses in sorted(broker.wanted.items()):
                yield tried(f"topic '{name}'", partial(broker.look_at, name, uses))
            yield from _families(nodes, broker)


def _wanted(
    nodes: Sequence[Node], settings: KafkaSettings
) -> Iterator[tuple[str, KafkaSettings, Mapping[str, str], _Use]]:
    """For each topic its name, the settings of its brokers, more options of librdkafka, and what it is for."""
    for topic in topics_of(nodes).values():
        yield topic.name, settings.of(topic.options), client_only(topic), _Use(AclOperation.READ)
    for node in nodes:
        for sink in node.sinks:
            if isinstance(sink, KafkaSink):
                more = {name: value for name, value in sink.options.items() if name not in FIELDS}
                own = (sink.kafka or settings).of(sink.options)
                yield sink.topic, own, more, _Use(AclOperation.WRITE, partial(_require_own_keys, sink, node))


def _families(nodes: Sequence[Node], broker: _Broker) -> Iterator[Finding]:
    """For each pattern of `hr.topics` whether the broker has topics that match it and that nothing reads."""
    read = topics_of(nodes)
    families = {topic.family for topic in read.values() if topic.family and topic.name in broker.wanted}
    for pattern in sorted(families):
        yield tried(f"topics like '{pattern}'", partial(_require_all, pattern, read, broker))


def _require_all(pattern: str, read: Collection[str], broker: _Broker) -> str:
    matching = [name for name in broker.topics if re.fullmatch(pattern, name)]
    more = sorted({*matching} - {*read})
    if more:
        raise TerminalError(
            f"{listed(more)} {'matches' if len(more) == 1 else 'match'}, and nothing reads it.",
            hint="Add it to the list of hr.topics. `headrace plan` shows what changes, and `headrace apply` does it.",
        )
    return f"{len(matching)} topic(s) match, and all are read"


def _require_other_topics(nodes: Sequence[Node], settings: KafkaSettings) -> str:
    """Refuse a sink to a topic that its node reads, now that the brokers are known."""
    return f"{len(reached_by(nodes, settings))} nodes"


def _require_own_keys(sink: KafkaSink, node: Node, limits: TopicLimits) -> None:
    identity = operator_for(node).identity
    sink.require_own_keys(Delivery(node.required_name, node.key, identity, node.columns, ""), limits)


@dataclass(frozen=True)
class _Use:
    """The right that a use of a topic needs; fits  raises TerminalError for settings of the topic that it cannot have."""

    right: AclOperation
    fits: Callable[[TopicLimits], None] | None = None


class _Broker:
    """Brokers, as some settings reach them, and what is wanted of their topics."""

    def __init__(self, settings: KafkaSettings, options: Mapping[str, str]) -> None:
        self.servers = settings.bootstrap_servers
        self.wanted: dict[str, list[_Use]] = {}
        self._settings, self._options = settings, options
        self._messages: set[str] = set()
        self.topics: Collection[str] = ()

    def reach(self) -> str:
        """Ask for the cluster. Raises: TerminalError for settings that are wrong; TransientError when nobody answers."""
        admin = self._admin
        try:
            cluster = admin.list_topics(timeout=SECONDS)
        except KafkaException as error:
            admin.poll(0)
            raise self._unreachable("; ".join(sorted(self._messages)) or str(error)) from None
        self.topics = tuple(cluster.topics)
        return (
            f"{len(cluster.brokers)} broker(s) answer, by {self._settings.security_protocol or 'PLAINTEXT'}"
        )

    def look_at(self, name: str, uses: Sequence[_Use]) -> str:
        """Ask for a topic, what this client may do there, and its settings. Raises: TerminalError, or TransientError."""
        rights = {use.right for use in uses}
        asked = self._admin.describe_topics(
            TopicCollection([name]), include_authorized_operations=True, request_timeout=SECONDS
        )
        try:
            found = asked[name].result(SECONDS + 2)
        except TimeoutError:
            raise self._unreachable(f"no answer about topic '{name}'") from None
        except KafkaException as error:
            raise self._not_described(name, error, rights) from None
        allowed = set(found.authorized_operations or ())
        missing = sorted(RIGHTS[right] for right in rights if allowed and right not in allowed)
        if missing:
            raise _not_allowed(name, f"this client may not {' and '.join(missing).lower()}", rights)
        for fits in (use.fits for use in uses if use.fits is not None):
            fits(self._limits(name))
        return f"{len(found.partitions)} partition(s), rights as needed"

    def _limits(self, name: str) -> TopicLimits:
        return KafkaTopic(name, self._settings, self._options).limits()

    @cached_property
    def _admin(self) -> AdminClient:
        return admin_client(self._settings, self._options, self._messages)

    def _not_described(self, name: str, error: KafkaException, rights: set[AclOperation]) -> HeadraceError:
        code = error.args[0].code()
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return _not_allowed(name, "it may not be described", rights)
        if code in NO_ANSWER:
            return self._unreachable(str(error))
        return TerminalError(
            f"There is no topic '{name}'.", detail=str(error), hint="Create it, or correct the topic's name."
        )

    def _unreachable(self, detail: str) -> HeadraceError:
        found = refusal_of(detail)
        error = TerminalError if found.lasts else TransientError
        return error(f"Kafka at {self.servers} {found.reason}.", detail=detail, hint=found.fix)


def _not_allowed(name: str, why: str, rights: set[AclOperation]) -> TerminalError:
    needed = ", ".join(["Describe", *sorted(RIGHTS[right] for right in rights)])
    return TerminalError(
        f"Topic '{name}': {why}.", hint=f"Give this client's principal the operations {needed} on the topic."
    )
