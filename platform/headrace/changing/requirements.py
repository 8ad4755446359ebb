"""Conditions of an act: the plan refuses nothing, and each sink can get what is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description.wording import listed
from headrace.errors import TerminalError
from headrace.operators.registry import operator_for
from headrace.writing.delivery.redeliver import can_be_put_right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.changing.plan import ChangePlan
    from headrace.description import Node

# Sinks get nothing, the rows that differ, or every row.
NOTHING, DIFFERENCES, ALL = "none", "differences", "all"
EMITS = (NOTHING, DIFFERENCES, ALL)


def require_applicable(plan: ChangePlan) -> None:
    """Raises: TerminalError when the plan refuses a topic or a node."""
    if plan.refused:
        reasons = [
            f"{each.node}: {each.reason}. {each.way_out}" for each in plan.nodes if each.node in plan.refused
        ]
        topics = [f"topic {t.topic}: {t.detail}. {t.way_out}" for t in plan.topics if t.topic in plan.refused]
        raise TerminalError(
            f"The plan refuses {', '.join(plan.refused)}: nothing is applied.",
            detail="\n".join([*topics, *reasons]),
            hint="Resolve these first: see headrace plan.",
        )


def require_emittable(node: Node, emit: str, rekeyed: Sequence[str]) -> None:
    """Check what sinks get.

    In:     rekeyed  see `NodePlan`
    Raises: TerminalError when a sink of the node cannot get what is asked for, or needs more
    """
    if emit not in EMITS:
        raise TerminalError(f"emit: {emit!r} does not exist; there are {', '.join(EMITS)}.")
    if rekeyed and emit == NOTHING:
        raise TerminalError(
            f"Node '{node.required_name}': its rows have another identity now, {listed(operator_for(node).identity)}. "
            f"With emit={emit!r} the key of {listed(rekeyed)} stays the former one, and the sink takes no row.",
            hint="Apply with --emit differences: it replaces the key and the rows.",
        )
    for sink in node.sinks if emit != NOTHING else ():
        appended = node.day_column is not None
        if not can_be_put_right(sink) and not (emit == ALL and appended):
            why = "cannot be corrected" if appended else "cannot be corrected, and its table has revised rows"
            raise TerminalError(
                f"Node '{node.required_name}': sink '{sink.name}' {why}, so it cannot get emit={emit!r}.",
                hint="Apply with --emit none: the sink keeps its rows."
                + (" Or with --emit all." if appended else ""),
            )
