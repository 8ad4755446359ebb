"""Limits that people set while a stream runs: control rows of the log.

The log of the node's first topic sets them. A row of each other log says that it ticks for them, too: readers pass it over.

Law: new limits stand in a log commit of their own, with a row in every partition known then: their commit time tells the
rows before them from those after, and in each partition they are a row at which what is due can leave.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.log.decisions.moves import anywhere
from headrace.sequence.log_columns import LIMITS_ELSEWHERE, SET_LIMITS
from headrace.sequence.log_state import LastRow, LogState, PartitionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class LimitsSet:
    """Limits that were set: of which node, by which request, and the commit time in ms."""

    node: str
    limits: Mapping[str, int | None]
    request: str
    ingested_at_ms: int


def limits_entry(
    node: str, limits: Mapping[str, int | None], request: str, *, elsewhere: bool = False
) -> str:
    """The control row's JSON. In: elsewhere  whether another log sets them."""
    action = LIMITS_ELSEWHERE if elsewhere else SET_LIMITS
    entry = {"action": action, "node": node, "limits": dict(limits), "request": request}
    return json.dumps(entry, sort_keys=True)


def limits_rows(
    state: LogState, node: str, limits: Mapping[str, int | None], request: str, elsewhere: bool
) -> dict[LastRow, str | None]:
    """The control rows, each with its JSON: in every partition, or in one where another log sets the limits.

    In: request  tells the change from others
    """
    entry = limits_entry(node, limits, request, elsewhere=elsewhere)
    if elsewhere:
        return {anywhere(state): entry}
    partitions = state.partitions or {0: PartitionState(0)}
    return {LastRow(p, None, s.stream_ms): entry for p, s in sorted(partitions.items())}


def limits_in(controls: Iterable[tuple[int, str]]) -> list[LimitsSet]:
    """All limits that were set in a log, oldest first.

    In: controls  see `LogSlice.controls`; each partition repeats them
    """
    known = dict.fromkeys((ms, text) for ms, text in controls if json.loads(text)["action"] == SET_LIMITS)
    return [limits_set(text, ms) for ms, text in known]


def requests_in(controls: Iterable[tuple[int, str]]) -> set[str]:
    """The requests that a log has carried out. In: controls  see `LogSlice.controls`."""
    return {json.loads(text).get("request", "") for _, text in controls}


def limits_set(control: str, ingested_at_ms: int) -> LimitsSet:
    """The limits that a control row sets. In: its JSON and its commit time."""
    entry = json.loads(control)
    return LimitsSet(entry["node"], entry["limits"], entry["request"], ingested_at_ms)
