"""Schema registries: whether they answer, and take the credentials."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.description.formats import Debezium, Protobuf
from headrace.description.formats.registry import Registry, RegistryAwayError, address_of
from headrace.nodes.descriptions.topics import topics_of
from headrace.preflight.finding import Finding, tried
from headrace.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.description import Node


def check_registries(nodes: Sequence[Node]) -> Iterator[Finding]:
    """Ask each registry that a format of a topic or of a sink of these nodes names, and that is ever asked."""
    named = {str(getattr(of, "env_var_name", of)): of for of in _named(nodes)}
    for told, of in sorted(named.items()):
        yield tried(f"schema registry {told}", partial(_subjects, of))


def _named(nodes: Sequence[Node]) -> list[Any]:
    topics = topics_of(nodes).values()
    sinks = [sink for node in nodes for sink in node.sinks if isinstance(sink, KafkaSink)]
    read = [part for topic in topics for part in (topic.key_format, topic.format)]
    plain = [part.format if isinstance(part, Debezium) else part for part in read]
    formats: list[object] = [of for of in plain if not isinstance(of, Protobuf)]  # read without a registry
    formats += [part for sink in sinks for part in (sink.key_format, sink.format)]
    return [of for of in (getattr(part, "registry", None) for part in formats) if of is not None]


def _subjects(of: Any) -> str:
    try:
        return f"answers, and shows {Registry(address_of(of, 'registry')).subjects():,} subjects"
    except RegistryAwayError as error:
        fix = "Start it, or correct its address and the variables HEADRACE_REGISTRY_…."
        raise RegistryAwayError(error.message, detail=error.detail, hint=fix) from None
