"""Logs as plain rows for the oracle. Steps of streams are done in Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from headrace import oracle
from headrace.description import Node, Where
from headrace.description.feeds import feeds_of
from tests.oracle.log_oracle import Log

Value = dict[str, Any]
Row = dict[str, Any]


def row_of(
    at: tuple[int, str, int, int | None],
    values: Mapping[str, Any],
    event_ms: int | None,
    stream_ms: int | None,
    fate: str | None,
    size: int = 0,
) -> Row:
    """A plain row (see `oracle.Log`)."""
    place = dict(zip(("__ingested_ms", "__topic", "__partition", "__offset"), at, strict=True))
    times = {"__event_ms": event_ms, "__stream_ms": stream_ms}
    return {**values, **place, **times, "__size_bytes": size, "__fate": fate, "__reason": None}


def rows_of_log(node: Node, log: Log) -> list[Row]:
    """The rows of the only stream of a node that has the columns `key` and `value`."""
    (feed,) = feeds_of(node).values()
    (branch,) = feed.stream.branches
    topic, found = branch.topic.name, []
    for at, (arrival, offset, stream) in zip(log.ingested, log.rows, strict=True):
        fate = None if arrival.kind == "record" else arrival.kind
        values = {"key": arrival.key, "value": arrival.value if fate is None else None}
        if fate is None and not all(holds(step, values) for step in branch.steps):
            fate = "filtered"
        event_ms = None if fate == "dead_letter" else arrival.ts
        place = (at, topic, arrival.partition, offset)
        found.append(row_of(place, values, event_ms, stream, fate))
    for at, partition, stream in log.ticks:
        found.append(row_of((at, topic, partition, None), {"key": None, "value": None}, None, stream, "tick"))
    return found


def results_of_log(node: Node, log: Log) -> oracle.Results:
    """What a node makes of the log of its only topic."""
    return oracle.results(node, oracle.Log({"result": rows_of_log(node, log)}))


def holds(step: Any, values: Mapping[str, Any]) -> bool:
    """Whether a step keeps a row."""
    return not isinstance(step, Where) or is_true(step.expression, values)


def is_true(sql: str, values: Mapping[str, Any]) -> bool:
    """A comparison of a column with a number or a text: null makes it false, and to SQL NaN is the highest number."""
    name, operator, literal = sql.split()
    value: Any = values[name]
    other: Any = literal.strip("'") if literal.startswith("'") else int(literal)
    if value is None:
        return False
    value = math.inf if value != value else value
    return bool(
        {">": lambda: value > other, ">=": lambda: value >= other, "<>": lambda: value != other}[operator]()
    )


def shown(value: Any) -> Any:
    """Times as ms since 1970."""
    return round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value


def by_identity(node: Node, rows: Iterable[Mapping[str, Any]]) -> dict[Any, Value]:
    """Rows by key (by its value, if it is one column), with the other columns; a key that occurs twice is an error."""
    found: dict[Any, Value] = {}
    for row in rows:
        key = tuple(shown(row[name]) for name in node.key)
        at = key[0] if len(key) == 1 else key
        assert at not in found, f"{at} occurs twice"
        found[at] = {name: shown(row[name]) for name in node.columns if name not in node.key}
    return found


def fates(found: oracle.Results) -> Counter[tuple[str, int, str]]:
    """How many records met which, by topic and partition."""
    return Counter((topic, partition, fate) for (topic, partition, _), fate in found.fates.items())
