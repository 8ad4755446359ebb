"""The tables that a change of a node replaced: kept beside the new ones for a stated time, so that one can go back.

Law: tables that come back are exactly those that the change replaced, with their progress. A stream of the description
before goes on from there, and reads what came into the log since. So one cannot go back once rows of the log were cut off,
or a key was erased: the tables that were kept are dropped then. Nor can one go back once a log was written again, or was
repaired (see `pasts`). Tables that a repair or an erasure has yet to compute again are not kept.

They are copies, noted when they are whole; a swap that was broken off does not copy what it has already replaced.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.lake import kinds, small_files
from headrace.lake.care.swap import replace_table
from headrace.lifecycle.log_repair.repair_mark import repair_owed
from headrace.lifecycle.pending_erasures import pending
from headrace.lifecycle.rebuilds.pasts import Pasts, logs_of_another_past, pasts_of
from headrace.lifecycle.rebuilds.takeover import take_over, writers_of
from headrace.log.history.writings import WRITINGS
from headrace.nodes.balances.cuts import cut_through
from headrace.nodes.descriptions.compare_rules import logs_of_steps
from headrace.writing.leases.lease import LeaseTakenError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.lake import LakeTable
    from headrace.lake.paths import Lake
    from headrace.lifecycle.rebuilds.takeover import TakenOver
    from headrace.writing.leases.lease import Lease

ADDED = ("carried", "fence", "mends", "mending")  # to a record, by fences and histories


@dataclass(frozen=True)
class Former:
    """The tables that a change replaced.

    fingerprint    of the description by which they were written; replaced_by: of the one that came
    kept_until_ms  they are deleted by the next maintenance after this moment
    batch          the last micro-batch that they hold
    cuts           the commit time through which each log that they have read was cut when they were kept
    pasts          the pasts that all logs had then which they have read, directly or through nodes
    """

    fingerprint: str
    replaced_by: str
    kept_until_ms: int
    batch: int
    cuts: Mapping[str, int] = field(default_factory=dict)
    pasts: Pasts = field(default_factory=dict)


def former_of(lake: Lake, name: str) -> Former | None:
    """The tables that are kept of a node; None: there are none."""
    found = small_files.read_json(_note(lake, name))
    return None if found is None else Former(**found)


def former_record(lake: Lake, name: str) -> Mapping[str, Any]:
    """The record of the state that is kept of a node: how far it goes, and what it has read."""
    state = lakes.last_commit(lakes.open_table(_lake_of_former(lake, name).state(name)), f"node/{name}")
    assert state is not None
    return plain(state.record)


def former_rules(lake: Lake, name: str) -> Mapping[str, Any]:
    """The rules of the description by which the tables that are kept of a node were written."""
    stored = small_files.read_json(_lake_of_former(lake, name).description(name))
    return {} if stored is None else stored["rules"]


def logs_changed_since(lake: Lake, name: str) -> list[str]:
    """The logs that the tables which are kept of a node have read, and whose rows have changed, gone or come back since.

    Not those that they have read through named nodes: what these gave has a log, too. A step without a name comes back with
    the node, and may have been of no description meanwhile: then it was neither rebuilt nor given a balance.
    """
    former, direct = former_of(lake, name), former_record(lake, name).get("progress", {}).get("upto_ms", {})
    read = {*direct, *logs_of_steps(former_rules(lake, name))}
    noted = {} if former is None else former.pasts
    return logs_of_another_past(lake, {log: past for log, past in noted.items() if log in read})


def keep_former(lake: Lake, name: str, replaced_by: str, kept_until_ms: int) -> None:
    """Keep a node's tables, which are about to be replaced. The caller holds the node's lease.

    If a swap or a way back was interrupted, the tables are not copied: their results may be of one description, and their
    state of another. A copy that the interrupted act made is kept.
    """
    commit = lakes.last_commit(lakes.open_table(lake.state(name)), f"node/{name}")
    if commit is None:
        return
    if repair_owed(lake, name) is not None or any(each.node == name for each in pending(lake)):
        drop_former(lake, name)  # they are not what the log leads to
        return
    written_by, known = commit.record["fingerprint"], former_of(lake, name)
    progress = commit.record.get("progress", {})
    batch, read = progress.get("batch", 0), progress.get("upto_ms", {})
    pasts = pasts_of(lake, sorted({*read, *commit.record.get(WRITINGS, {})}))
    former = Former(written_by, replaced_by, kept_until_ms, batch, cut_through(lake, read), pasts)
    stored = small_files.read_json(lake.description(name))
    half_swapped = stored is not None and stored["fingerprint"] != written_by
    if not half_swapped:
        _copy(lake, name, stored, commit.record)
    elif known is None or (known.fingerprint, known.batch) != (written_by, batch):
        # Nobody has kept what was replaced already, or it has gone on since.
        drop_former(lake, name)
        return
    else:
        former = replace(former, cuts=known.cuts, pasts=known.pasts)
    small_files.write_json(_note(lake, name), asdict(former))


def _copy(lake: Lake, name: str, stored: Mapping[str, Any] | None, record: Mapping[str, Any]) -> None:
    """Copy a node's tables, in place of what was kept before. In: record  of the last commit of its state."""
    drop_former(lake, name)
    beside = _lake_of_former(lake, name)
    if stored is not None:
        small_files.write_json(beside.description(name), stored)
    if (plan := small_files.read_json(lake.plan(name))) is not None:
        small_files.write_json(beside.plan(name), plan)
    copy_table(lakes.open_table(lake.table(name)), beside.table(name), kinds.RESULTS, {"writer": "former"})
    copy_table(lakes.open_table(lake.state(name)), beside.state(name), {}, record)
    told = {writer: record_of(lake, name, writer) for writer in writers_of(name)}
    small_files.write_json(f"{lake.former(name)}/results.json", told)


def drop_former(lake: Lake, name: str) -> bool:
    """Delete what is kept of a node; False if there is nothing."""
    found = bool(small_files.names(lake.former(name)))
    small_files.delete(_note(lake, name))  # first: what follows is no whole copy any more
    small_files.delete(lake.former(name))
    lakes.forget(lake.former(name))
    return found


def drop_outdated(lake: Lake, now_ms: int, take: Callable[[str], Lease]) -> list[str]:
    """Delete what was kept for long enough, and what it had given to nodes that have followed; the names of the nodes.

    In: take  takes the lease of a node's rebuilds, which an act and its undoing hold, too. A node whose lease is held is
              left for the next time
    """
    found = []
    for name in small_files.names(f"{lake.root}/former"):
        former = former_of(lake, name)
        if former is None or former.kept_until_ms > now_ms:
            continue
        try:
            lease = take(name)
        except LeaseTakenError:
            continue
        try:
            if former == former_of(lake, name):  # not what was kept since
                drop_former(lake, name)
                drop_unused_log(lake, name, former.fingerprint[:12])
                found.append(name)
        finally:
            lease.release()
    return found


def drop_unused_log(lake: Lake, name: str, generation: str) -> None:
    """Delete what a node gave to others by a description that is not that of its tables, unless one of them reads it."""
    stored, given = small_files.read_json(lake.description(name)), lake.log(f"{name}@{generation}")
    is_current = stored is not None and stored["fingerprint"][:12] == generation
    if not is_current and not _is_read(lake, f"{name}@{generation}"):
        small_files.delete(given)
        lakes.forget(given)


def _is_read(lake: Lake, output: str) -> bool:
    """Whether tables of a node were last written by a description that reads this log."""
    names = small_files.names(f"{lake.root}/tables")
    return any(f'"{output}"' in json.dumps(small_files.read_json(lake.description(name))) for name in names)


def bring_back(lake: Lake, name: str, require_leases: Callable[[], object]) -> None:
    """Put the tables that are kept in the place of the node's, and keep them no longer.

    In: require_leases  raises when the caller does not hold the node's leases any more

    A crash on the way is noticed as one of a rebuild is, and this may be done again. An act that was broken off may have
    kept tables that it did not replace. These stay as they are, for the node may have gone on since.
    """
    beside, record = _lake_of_former(lake, name), former_record(lake, name)
    stored = small_files.read_json(beside.description(name))
    writers, left = take_over(lake, name), small_files.read_json(lake.plan(name))
    require_leases()  # behind the fence: this process may have been paused
    is_replaced = _is_replaced(lake, name)
    if stored is not None:
        small_files.write_json(lake.description(name), stored)
        require_leases()  # a writer that takes a lease later reads these rules
    if not is_replaced:
        drop_former(lake, name)
        return
    _bring_back_plan(lake, beside, name, left)
    told = small_files.read_json(f"{lake.former(name)}/results.json") or {}
    replace_results(writers, name, lakes.open_table(beside.table(name)), told)
    replace_table(writers.state, lakes.open_table(beside.state(name)), record)
    drop_former(lake, name)


def _is_replaced(lake: Lake, name: str) -> bool:
    """Whether a swap may have replaced some of a node's tables since they were kept."""
    former = former_of(lake, name)
    commit = lakes.last_commit(lakes.open_table(lake.state(name)), f"node/{name}")
    if former is None or commit is None or commit.record["fingerprint"] != former.fingerprint:
        return True
    stored = small_files.read_json(lake.description(name))
    if stored is not None and stored["fingerprint"] == former.fingerprint:
        return False  # a swap notes its rules before it replaces anything
    # It looks at the tables again afterwards, so nothing was replaced if they have gone on.
    return former.batch in (None, commit.record.get("progress", {}).get("batch", 0))


def _bring_back_plan(lake: Lake, former: Lake, name: str, left: Any) -> None:
    """The results may hold a micro-batch that a crash had interrupted: it is repeated as it was planned.

    In: left  the plan that was there while the leases were held; another one is of a stream that has gone on since
    """
    if small_files.read_json(lake.plan(name)) != left:
        return
    plan = small_files.read_json(former.plan(name))
    if plan is None:
        small_files.delete(lake.plan(name))
    else:
        small_files.write_json(lake.plan(name), plan)


def replace_results(writers: TakenOver, name: str, source: LakeTable, record: Mapping[str, Any]) -> None:
    """Let a node's result table hold what another holds.

    In: record  for each writer of results the record that says how far they go; of one that is missing: not at all
    """
    fold, node = writers_of(name)
    folded = record.get(fold) or {"batch": 0, "upto_ms": {}}
    replace_table(writers.maintainer, source, {**folded, "writer": fold})
    writers.appender.append([], {"batch": 0, **(record.get(node) or {}), "writer": node})


def record_of(lake: Lake, name: str, writer: str) -> dict[str, Any] | None:
    """The newest record of one who says how far the results of a node go; None: there is none."""
    found = lakes.last_commit(lakes.open_table(lake.table(name)), writer)
    return None if found is None else plain(found.record)


def copy_table(
    source: LakeTable, target: str, settings: Mapping[str, str], record: Mapping[str, Any]
) -> None:
    """Make a table that holds what another one holds."""
    made = lakes.create(target, source.schema, settings)
    replace_table(lakes.TableWriter(made, lakes.APPENDER), source, plain(record))


def plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without what the fence and the history add to it."""
    return {key: value for key, value in record.items() if key not in ADDED}


def _lake_of_former(lake: Lake, name: str) -> Lake:
    return replace(lake, nodes=f"{lake.former(name)}/tables")


def _note(lake: Lake, name: str) -> str:
    return f"{lake.former(name)}/former.json"
