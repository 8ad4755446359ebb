"""Logs that are written down: which records each log commit brings, in seconds; and what a node makes of them in any cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.description import Node
from headrace.operators.registry import operator_for
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import SECOND, Control, Sequenced, World
from tests.laws.kernel.plans import ONE_GO, Plan
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.verdict import Verdict
from tests.oracle.log_oracle import Arrival, Commit, sequence

Records = Sequence[tuple[str, Any, float]]  # key, value, event time
CUTS = (
    ONE_GO,
    Plan(sizes=(1,)),
    Plan(sizes=(2,), buckets=(3,), crash=1),
    Plan(sizes=(1,), piece_bytes=1, crash=2),
)


def timeline(
    of: pa.DataType, topics: Mapping[str, Mapping[int, Records]], *, drains: Sequence[float] = ()
) -> World:
    """A world. In: of each topic the records of each log commit, by its time; all of partition 0; when there is a drain."""
    logs = []
    for number, (name, commits) in enumerate(topics.items()):
        came = [
            Commit(_ms(at), [Arrival(0, key, _ms(time), value) for key, value, time in records])
            for at, records in commits.items()
        ]
        controls = [Control(_ms(at), "drain") for at in drains] if not number else []
        logs.append(Sequenced(name, sequence(came, None, 0), controls))
    return World(logs, of)


def made(node: Node, world: World) -> list[dict[str, Any]]:
    """The rows that a node makes final, in their order; cut in any way they are the same, and those of the oracle."""
    reading = Reading(node, world)
    verdict = Verdict(reading)
    for plan in CUTS:
        verdict.check(plan)
    rows = run(reading.operator.steps, reading, ONE_GO).rows()
    return [{name: row[name] for name in node.columns} for row in in_order(node, rows)]


def in_order(node: Node, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a node as they stand in its log."""
    return sorted(rows, key=partial(_place, operator_for(node).order))


def _place(order: Sequence[str], row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Where a row stands in its node's log; nulls come last."""
    return (row["__sequence"], *((row.get(name) is None, row.get(name)) for name in order))


def _ms(seconds: float) -> int:
    return round(seconds * SECOND)
