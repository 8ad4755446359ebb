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


def _named(nodes: Sequence[Node]) -> Iterator[Any]:
    for topic in topics_of(nodes).values():
        for part in (topic.key_format, topic.format):
            of = part.format if isinstance(part, Debezium) else part
            if not isinstance(of, Protobuf):  # the numbers of fields tell what its bytes mean
                yield from _registry(of)
    sinks = [sink for node in nodes for sink in node.sinks if isinstance(sink, KafkaSink)]
    for sink in sinks:
        for written in (sink.key_format, sink.format):
            yield from _registry(written)


def _registry(of: object) -> Iterator[Any]:
    registry = getattr(of, "registry", None)
    return iter(() if registry is None else (registry,))


def _subjects(of: Any) -> str:
    try:
        return f"answers, and shows {Registry(address_of(of, 'registry')).subjects():,} subjects"
    except RegistryAwayError as error:
        fix = "Start it, or correct its address and the variables HEADRACE_REGISTRY_…."
        raise RegistryAwayError(error.message, detail=error.detail, hint=fix) from None
