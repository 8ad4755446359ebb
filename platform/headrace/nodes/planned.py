"""The micro-batch that is planned to follow a commit of a node's state.

Law: a micro-batch whose results may be there is repeated as it was planned, whoever repeats it. A swap replaces results and
state, so the micro-batch that was planned before is void: the commit of the state says so. Its plan is deleted afterwards,
and no other: a process that was paused would delete the plan of the stream which has gone on since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.lake import small_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace import lake as lakes
    from headrace.lake.paths import Lake

VOID = "void"  # in the record of a commit of the state: the plan that does not hold any more


def planned_after(lake: Lake, name: str, commit: lakes.Commit | None) -> Mapping[str, Any] | None:
    """The plan of the micro-batch after a commit of the state of a node; None: there is none, or it is void.

    In: commit  None: nothing was written yet
    """
    plan: Mapping[str, Any] | None = small_files.read_json(lake.plan(name))
    record: Mapping[str, Any] = {} if commit is None else commit.record
    following = record.get("progress", {}).get("batch", 0) + 1
    return plan if plan is not None and plan["batch"] == following and plan != record.get(VOID) else None
