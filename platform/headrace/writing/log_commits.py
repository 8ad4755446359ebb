"""The commits of a log, as its rows tell them: their times, how far stream time was after each, and the limits set there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import Suppressed, is_of_kafka
from headrace.description.clocks import WALL
from headrace.engine.log_slices import LogSlice, Origin
from headrace.fold.columns import int64
from headrace.fold.time_limits.limits_in_force import in_force
from headrace.log.commit_row import PREFIX
from headrace.sequence.log_columns import COMPLETE, SET_LIMITS, TICK

if TYPE_CHECKING:
    from headrace.description import Node, Topic

MOMENT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class LogCommits:
    """Some commits of a log.

    closings  of each commit its time, and the closing time after it; None: there is none yet
    limits    the control rows that set limits: commit time and JSON
    complete_ms  the commit with which the topic became complete; None: none of these
    """

    closings: Sequence[tuple[int, int | None]]
    limits: Sequence[tuple[int, str]]
    complete_ms: int | None = None


def read_commits(topic: Topic, uri: str, after_ms: int, upto_ms: int) -> LogCommits:
    """The commits of a topic's log after one commit time and through another. In: uri  of the log's table."""
    part = LogSlice.of(uri, after_ms, upto_ms)
    if not is_of_kafka(topic):
        return _of_node(part)
    said = part.controls()
    commits = [(at_ms, json.loads(each)) for at_ms, each in said if each.startswith(PREFIX)]
    complete = (at_ms for at_ms, each in said if _action(each) == COMPLETE)
    return LogCommits(
        [(at_ms, each["closing_ms"]) for at_ms, each in commits], _limits(said), next(complete, None)
    )


def closings(
    known_ms: Mapping[str, int], read: Mapping[str, LogCommits]
) -> tuple[list[tuple[int, int | None]], dict[str, int]]:
    """Each log commit of some topics and the closing time after it: the lowest, once each topic has one.

    In:  known_ms  of each topic the closing time before; a topic without one is missing
         read      the commits of each topic
    Out: these, and the closing time of each topic after them
    """
    told = [(at_ms, name, ms) for name, log in read.items() for at_ms, ms in log.closings]
    now, found = dict(known_ms), dict[int, int | None]()
    for at_ms, name, closing_ms in sorted(told, key=lambda one: one[:2]):
        if closing_ms is not None:
            now[name] = closing_ms
        found[at_ms] = min(now.values()) if now.keys() == read.keys() else None
    return [*found.items()], now


def longest_waits(
    node: Node, before_ms: int, at_ms: Sequence[int], limits: Sequence[tuple[int, str]]
) -> list[int]:
    """How long the node waits as of each commit, or has waited before: what waits leaves by the limit in force then.

    In: before_ms  the longest limit that was set before; at_ms: commit times; limits: control rows that set limits
    """
    longest_ms = np.full(len(at_ms), max(before_ms, node.longest_wait_ms), np.int64)
    if limits and isinstance(node, Suppressed) and node.clock != WALL:
        number, policies = in_force(node.policy, node.required_name, limits).at(np.array(at_ms, np.int64))
        set_ms = np.array([policy.limit_ms for policy in policies], np.int64)[number]
        longest_ms = np.maximum.accumulate(np.maximum(longest_ms, set_ms))
    found: list[int] = longest_ms.tolist()
    return found


def _of_node(part: LogSlice) -> LogCommits:
    """The commits of a node's log, in which a tick says how far stream time is after each commit."""
    wanted = {"ingested_at": MOMENT, "stream_time": MOMENT, "kind": pa.string(), "control": pa.string()}
    rows = part.read({name: Origin((name,), of) for name, of in wanted.items()})
    ticks, controls = rows.filter(pc.equal(rows["kind"], TICK)), rows.filter(rows["control"].is_valid())
    known = ticks["stream_time"].is_valid().to_pylist()
    times = zip(_ms(ticks, "ingested_at"), _ms(ticks, "stream_time"), known, strict=True)
    said = zip(_ms(controls, "ingested_at"), controls["control"].to_pylist(), strict=True)
    return LogCommits([(at, ms if there else None) for at, ms, there in times], _limits([*said]))


def _ms(rows: pa.Table, name: str) -> list[int]:
    found: list[int] = (int64(rows[name].cast(pa.int64())) // 1_000).tolist()
    return found


def _limits(controls: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(at_ms, said) for at_ms, said in controls if _action(said) == SET_LIMITS]


def _action(said: str) -> str | None:
    """The action of a control row; None: it is a commit row."""
    return None if said.startswith(PREFIX) else str(json.loads(said)["action"])
