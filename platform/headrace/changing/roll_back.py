"""Go back: the tables that the last act of a pipeline replaced stand in the place of the new ones again.

Law: see `former`. All nodes of the act go back together, those that read others first. Sinks keep what they have.

A stream that runs hands the nodes over, and waits then: its code describes the tables that are gone.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.changing.acts import UNDONE, Act, last_act, write_act
from headrace.changing.plan_changes import stored_node
from headrace.description import with_unnamed
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.lifecycle.rebuilds.former import (
    bring_back,
    former_of,
    former_record,
    former_rules,
    logs_changed_since,
)
from headrace.log.clock import SystemClock
from headrace.log.history.writings import written_again
from headrace.nodes.balances.cuts import cut_through
from headrace.nodes.descriptions.compare_rules import nodes_read
from headrace.nodes.descriptions.renamed import renamed_to
from headrace.spark.session import pipeline_session
from headrace.writing.leases.handover import handed_over
from headrace.writing.leases.lease import require_leases
from headrace.writing.leases.lease_waits import take_lease_patiently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock

RESTORED = "restore the description before, and start the stream again: it goes on from there."
WHO = "headrace rollback"


def roll_back(
    spark: SparkSession,
    lake: Lake,
    clock: Clock | None = None,
    *,
    nodes: Sequence[Node] | None = None,
) -> list[str]:
    """Undo the last act of a pipeline; run again after a crash it goes on.

    In:     nodes  of the pipeline, as described before the act or after it; None: the lake has one pipeline
    Out:    the nodes whose tables are those from before
    Raises: TerminalError, before anything is changed, when there is nothing to go back to, or it would not be lawful;
            LeaseTakenError while a rebuild or backfill of these nodes runs, or a stream that hands nothing over
    """
    session, clock = pipeline_session(spark), clock or SystemClock()
    act = last_act(lake, None if nodes is None else [each.required_name for each in with_unnamed(nodes)])
    if act is None or act.state == UNDONE:
        raise TerminalError(
            "There is nothing to go back to: no change was applied, or it was undone already."
        )
    names = [each.node for each in act.nodes]
    with ExitStack() as stack:
        held = stack.enter_context(handed_over(session, lake, names, clock, what=WHO))
        leases = [*held.values()]
        for each in act.nodes:
            for kind in ("rebuild", "backfill"):
                folder, writer = lake.lease(f"{kind}/{each.node}"), f"Rollback of '{each.node}'"
                leases.append(take_lease_patiently(session, folder, writer, clock))
                stack.callback(leases[-1].release)
        back = _required(lake, act)
        for name in reversed(back):
            bring_back(lake, name, partial(require_leases, leases))
        write_act(lake, replace(act, state=UNDONE))
    return back


def _required(lake: Lake, act: Act) -> list[str]:
    """The nodes whose tables have to be brought back."""
    found, gone = [], []
    for each in act.nodes:
        former, held = former_of(lake, each.node), stored_node(lake, each.node)
        if small_files.read_json(lake.opening(each.node)) is not None:
            gone.append(f"{each.node}: rows of its log were cut off since.")
        elif (other := renamed_to(lake, each.node)) is not None:  # nobody writes the tables of this name
            gone.append(f"{each.node}: it was renamed to {other} since.")
        elif former is not None and (former.fingerprint, former.replaced_by) == (each.before, each.after):
            record = former_record(lake, each.node)
            cuts = cut_through(lake, record.get("progress", {}).get("upto_ms", {}))
            if renamed := [
                node for node in nodes_read(former_rules(lake, each.node)) if renamed_to(lake, node)
            ]:
                gone.append(f"{each.node}: it read the log of {', '.join(renamed)}, which was renamed since.")
            elif others := written_again(lake, record):
                gone.append(f"{each.node}: the log of {', '.join(others)} was written again since.")
            elif cut := sorted(topic for topic, ms in cuts.items() if former.cuts.get(topic) != ms):
                # The new node need not read that topic, and then it has no balance of it either.
                gone.append(f"{each.node}: rows of the log of {', '.join(cut)} were cut off since.")
            elif changed := logs_changed_since(lake, each.node):
                gone.append(f"{each.node}: older rows of the log of {', '.join(changed)} have changed since.")
            else:
                found.append(each.node)
        elif held is None or held.written_by != each.before or held.is_interrupted(each.after):
            # Else it was never swapped in, or is back already.
            gone.append(f"{each.node}: {_why_not_kept(act)}")
    if gone:
        raise TerminalError(
            "You cannot go back to the tables before the last change.",
            detail="\n".join(gone),
            hint="Restore the former description, and run headrace apply: the tables are rebuilt from the log.",
        )
    return found


def _why_not_kept(act: Act) -> str:
    if act.written_again:
        return f"the change wrote the log of {', '.join(act.written_again)} again, so no former tables were kept."
    return (
        "its former tables were deleted (kept for a time, or until a key is erased), or a repair or an erasure had yet to "
        "compute them again."
    )
