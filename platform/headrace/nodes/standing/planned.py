"""The micro-batch that is to follow a commit of a node's state, where one was broken off.

Law: a micro-batch whose results are there is repeated as far as they go, whoever repeats it. The commit of the results says
how far, and it is fenced. A plan is a small file, and is not: a process that was paused may write its plan over that of a
stream which has gone on. So a plan counts only while no results are there, and if it begins where the state stands: any cut
of the log is then right. It spares sinks rows of a longer micro-batch in a repetition.
A swap replaces results and state, and its commit of the state voids the plan before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.lake import last_commit, open_table, small_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace import lake as lakes
    from headrace.lake.paths import Lake

VOID = "void"  # in the record of a commit of the state: the plan that does not hold any more


def planned_after(
    lake: Lake, name: str, commit: lakes.Commit | None, *, appended: bool = True
) -> Mapping[str, Any] | None:
    """The micro-batch that was broken off after a commit of the state of a node: its number, and how far it goes.

    In:  commit    None: nothing was written yet
         appended  False: the results of the node are current ones, so none are there before the state is
    Out: None: none was, or nobody has seen anything of it
    """
    record: Mapping[str, Any] = {} if commit is None else commit.record
    progress = record.get("progress", {})
    following, after_ms = progress.get("batch", 0) + 1, progress.get("upto_ms", {})
    given = results_record(lake, name) if appended else {}
    if given.get("batch") == following and given.get("after_ms") == after_ms:
        return {"batch": following, "upto_ms": given["upto_ms"]}
    plan: Mapping[str, Any] | None = small_files.read_json(lake.plan(name))
    if plan is None or plan["batch"] != following or plan == record.get(VOID):
        return None
    return plan if plan["after_ms"] == after_ms else None


def results_record(lake: Lake, name: str) -> Mapping[str, Any]:
    """The record of the last commit of appended results of a node; nothing if there is none."""
    commit = last_commit(open_table(lake.table(name)), f"node/{name}")
    return {} if commit is None else commit.record
