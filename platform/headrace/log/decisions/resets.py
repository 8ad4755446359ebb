"""Resets of a guard: from a control row on, a root partition is judged as if nothing of it had been seen.

Law: the control row says which root and stands in a log commit of its own, so its commit time tells the rows that were
judged before it from those judged after it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace.errors import TerminalError
from headrace.log.decisions.control import control_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.sequence.replays.guards import Guard

ACTION = "reset_guard"


@dataclass(frozen=True)
class Reset:
    """One reset: the root topic, the root partition (None: all of them), and the commit time in ms."""

    root_topic: str
    root_partition: int | None
    ingested_at_ms: int


def control_entry(root_topic: str, root_partition: int | None) -> str:
    """The control row's JSON."""
    entry = {"action": ACTION, "root_topic": root_topic, "root_partition": root_partition}
    return json.dumps(entry, sort_keys=True)


def roots_to_forget(
    topic: str, guard: Guard | None, root_topic: str, root_partition: int | None
) -> set[tuple[str, int]]:
    """The roots that a topic's guard forgets.

    In:     root_partition  None: every partition of the root topic
    Raises: TerminalError when the topic has no guard, or its guard has never seen that root
    """
    if guard is None:
        problem = f"Topic '{topic}' has no replay guard: there is nothing to reset."
        raise TerminalError(problem, hint="Give it one: hr.Topic(…, replay_guard=hr.ReplayGuard()).")
    roots = {(t, p) for t, p in guard.roots() if t == root_topic and root_partition in (None, p)}
    if not roots:
        wanted = root_topic if root_partition is None else f"{root_topic} partition {root_partition}"
        known = ", ".join(f"{root}/{p}" for root, p in sorted(guard.roots())) or "none yet"
        problem = f"Topic '{topic}': its guard knows no root {wanted}."
        raise TerminalError(problem, hint=f"It knows {known}.")
    return roots


def resets_in(log: DataFrame) -> list[Reset]:
    """The resets in a log, oldest first."""
    entries = [(json.loads(control), ms) for ms, control in control_rows(log, ACTION)]
    return [Reset(entry["root_topic"], entry["root_partition"], ms) for entry, ms in entries]


def generation(resets: Sequence[Reset]) -> Expr:
    """How many resets of its root stand before a row: rows of one generation were judged by one guard."""
    number = F.lit(0)
    for reset in resets:
        number = number + F.when(
            _concerned(reset) & (F.unix_millis("ingested_at") > reset.ingested_at_ms), 1
        ).otherwise(0)
    return number


def since_last_reset(resets: Sequence[Reset]) -> Expr:
    """Whether no reset of its root stands after a row."""
    current = F.lit(True)
    for reset in resets:
        current = current & ~(_concerned(reset) & (F.unix_millis("ingested_at") <= reset.ingested_at_ms))
    return current


def _concerned(reset: Reset) -> Expr:
    """Whether a row with a root is of the root that was reset."""
    concerned = F.col("root_topic") == reset.root_topic
    if reset.root_partition is not None:
        concerned = concerned & (F.col("root_partition") == reset.root_partition)
    return F.coalesce(concerned, F.lit(False))
