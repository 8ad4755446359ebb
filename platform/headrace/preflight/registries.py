"""Schema registries: whether they answer, and take the credentials."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.description.formats import Debezium
from headrace.description.formats.registry import Registry, RegistryAwayError, address_of
from headrace.nodes.descriptions.topics import topics_of
from headrace.preflight.finding import Finding, tried
from headrace.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.description import Node, Topic


def check_registries(nodes: Sequence[Node]) -> Iterator[Finding]:
    """Ask each registry that a format of a topic or of a sink of these nodes names."""
    named = {str(getattr(of, "env_var_name", of)): of for of in _named(nodes)}
    for told, of in sorted(named.items()):
        yield tried(f"schema registry {told}", partial(_subjects, of))


def _named(nodes: Sequence[Node]) -> Iterator[Any]:
    sinks = [sink for node in nodes for sink in node.sinks if isinstance(sink, KafkaSink)]
    of_all: list[Topic | KafkaSink] = [*topics_of(nodes).values(), *sinks]
    for each in of_all:
        for part in (each.key_format, each.format):
            registry = getattr(part.format if isinstance(part, Debezium) else part, "registry", None)
            if registry is not None:
                yield registry


def _subjects(of: Any) -> str:
    try:
        return f"answers, and shows {Registry(address_of(of, 'registry')).subjects():,} subjects"
    except RegistryAwayError as error:
        fix = "Start it, or correct its address and the variables HEADRACE_REGISTRY_…."
        raise RegistryAwayError(error.message, detail=error.detail, hint=fix) from None
