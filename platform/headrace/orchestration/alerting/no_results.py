"""Tables that have had no result for too long, as a channel of alerts asked for (`no_result_for`).

Law: a table is told once when it has been silent for so long, and once when it has a result again. A node that a person lets
rest is not told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.description.durations import format_duration, optional_ms
from headrace.fold.fates import KEPT
from headrace.lake import open_table, small_files
from headrace.lake.paths import Lake
from headrace.log.clock import SystemClock
from headrace.nodes.standing.emptiness import why_no_result
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.writing.leases.lease import lease_taken_ms

if TYPE_CHECKING:
    from headrace.description import Duration, Node
    from headrace.orchestration.pipeline import Pipeline

LAKE, CLOCK = "HEADRACE_LAKE", SystemClock()
SAID_MAX = 600  # letters of one line


@dataclass
class Silence:
    """A table as of the look that found its newest result.

    results   a number that grows with each result
    since_ms  when it was first seen so high
    reported      whether people were told
    """

    results: int
    since_ms: int
    reported: bool = False


def no_result_ms(channel: object) -> int | None:
    """How long a channel lets a table be silent; None: for ever. In: a channel, with `no_result_for` or without."""
    asked: Duration | None = getattr(channel, "no_result_for", None)
    return optional_ms(asked, "no_result_for")


def lake_of(pipeline: Pipeline) -> Lake | None:
    """The lake of a pipeline; None: nobody has said where it lies."""
    root = pipeline.lake_root or os.environ.get(LAKE)
    return None if root is None else Lake(root)


def silent_tables(
    lake: Lake,
    nodes: tuple[Node, ...],
    limit_ms: int,
    known: Mapping[str, Silence],
    now_ms: Callable[[], int] = CLOCK.now_ms,
) -> tuple[list[str], dict[str, Silence]]:
    """The lines to tell, and each table as of now. In: known  as of the look before."""
    lines, found, facts = list[str](), dict[str, Silence](), LakeFacts(lake)
    for node in nodes:
        name, now = node.required_name, now_ms()
        results, before = _results(node, facts), known.get(name)
        if before is None or results != before.results:
            if before is not None and before.reported:
                lines.append(f"{name} has results again.")
            found[name] = Silence(results, now)
            continue
        rests = small_files.exists(lake.paused(name))
        is_due = now - before.since_ms >= limit_ms and not before.reported and not rests
        if is_due:
            lines.append(
                f"{name} has had no result for {format_duration(limit_ms)}. {_why(node, facts)}"[:SAID_MAX]
            )
        found[name] = Silence(results, before.since_ms, before.reported or is_due)
    return lines, found


def _results(node: Node, facts: LakeFacts) -> int:
    """A number that grows with each result: rows that were appended, or records that revise rows."""
    if node.has_days:
        table = open_table(facts.lake.table(node.required_name))
        return table.snapshot().rows if table.exists else 0
    progress = facts.progress(node.required_name)
    return 0 if progress is None else progress.totals().get(KEPT, 0)


def _why(node: Node, facts: LakeFacts) -> str:
    runs = lease_taken_ms(facts.lake.lease(f"node/{node.required_name}"), CLOCK) is not None
    return f"{'' if runs else 'Its stream does not run. '}{why_no_result(node, facts)}"
