"""Limits that people set while a stream runs: control rows of the log.

Law: new limits stand in a log commit of their own, with a row in every partition known then: their commit time tells the
rows before them from those after, and in each partition they are a row at which what is due can leave.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sequence.log_columns import SET_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class LimitsSet:
    """Limits that were set: of which node, by which request, and the commit time in ms."""

    node: str
    limits: Mapping[str, int | None]
    request: str
    ingested_at_ms: int


def limits_entry(node: str, limits: Mapping[str, int | None], request: str) -> str:
    """The control row's JSON."""
    entry = {"action": SET_LIMITS, "node": node, "limits": dict(limits), "request": request}
    return json.dumps(entry, sort_keys=True)


def limits_in(controls: Iterable[tuple[int, str]]) -> list[LimitsSet]:
    """All limits that were set in a log, oldest first.

    In: controls  see `LogSlice.controls`; each partition repeats them
    """
    known = dict.fromkeys((ms, text) for ms, text in controls if json.loads(text)["action"] == SET_LIMITS)
    return [limits_set(text, ms) for ms, text in known]


def limits_set(control: str, ingested_at_ms: int) -> LimitsSet:
    """The limits that a control row sets. In: its JSON and its commit time."""
    entry = json.loads(control)
    return LimitsSet(entry["node"], entry["limits"], entry["request"], ingested_at_ms)
