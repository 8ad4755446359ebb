"""The descriptions of a life: its topics, its nodes, and the bytes of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import headrace as hr
from headrace.description import Node
from tests.laws.kernel.pipelines import Choose, Pipeline
from tests.lives.story import Made, Sent

BASE_MS = 1_700_000_000_000  # of the timestamps of records, and of the clock
MALFORMED = (b"", b"{", b"nonsense", b'{"value": "much"}', b"[1]", b"\xff\xfe")
T = hr.Topic("t", key="key STRING", value="value BIGINT", idle_timeout="20 seconds")
DATED = hr.Topic(
    "t", key="key STRING", value="value BIGINT, ms BIGINT", timestamp="ms", idle_timeout="20 seconds"
)
U = hr.Topic("u", key="key STRING", value="value BIGINT", format=hr.Number("int64"), idle_timeout="1 minute")


def digits(number: int) -> Choose:
    """Choices that follow from a number."""
    rest = number

    def choose(some: Sequence[Any]) -> Any:
        nonlocal rest
        rest, digit = divmod(rest, len(some))
        return some[digit]

    return choose


def described(
    made: Sequence[Made], renamed: Mapping[int, int] | None = None, *, dated: bool = False
) -> list[Node]:
    """The nodes of a life, each after those that it reads. In: renamed  how often, by the node's number; dated: see `Life`"""
    first = DATED.select("key", "value") if dated else T.stream
    pipeline, times, nodes = Pipeline(U.stream, first), renamed or {}, list[Node]()
    for place, each in enumerate(made):
        name = name_of(place, times.get(place, 0))
        before = name_of(place, times[place] - 1) if times.get(place) else None
        if each.twin_of is not None and each.twin_of < place:
            nodes.append(nodes[each.twin_of].named(name, renamed_from=before))
            continue
        chosen = digits(each.number)
        nodes.append(pipeline.add(each.kind, chosen, name, anywhere=not each.follows, renamed_from=before))
    return nodes


def name_of(place: int, times: int) -> str:
    """The name of a node that was renamed so often."""
    return f"node_{place}{'x' * times}"


def content(record: Sent, *, dated: bool = False) -> Any:
    """The bytes of a record's value, or what makes them. In: dated  see `Life`"""
    if dated and (record.topic, record.partition) == ("t", 2):
        return None
    if record.kind == "tombstone":
        return None
    if record.kind == "malformed":
        return MALFORMED[record.at % len(MALFORMED)]
    if record.topic == "u":
        return record.value
    return {"value": record.value} | ({"ms": BASE_MS + record.at} if dated else {})
