"""Let a node go on under another name: its tables are copied, with progress and balances.

Law: a fold does not depend on the node's name, so the tables of the new name are those that a node of that name would have
built. Three things depend on it. Limits that people have set or asked for stand under the name: a rename is then refused. A
delivery that was broken off goes on under the name, by which sinks know its rows: a rename is refused until it is whole. And
the node's log for others has the name: it is written again, so its readers are rebuilt. A stream that runs hands the node
over, and does not go on under the former name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headrace import lake as lakes
from headrace.description.limits import is_suppressed
from headrace.engine.slices.log_slices import LogSlice
from headrace.errors import TerminalError
from headrace.lake import kinds, small_files
from headrace.lake.care.swap import replace_table
from headrace.lifecycle.live_limits import limits_topic
from headrace.lifecycle.log_repair.repair_mark import repair_owed
from headrace.lifecycle.pending_erasures import inherit_pending
from headrace.lifecycle.rebuilds.former import plain, record_of
from headrace.lifecycle.rebuilds.takeover import take_over, writers_of
from headrace.log.clock import SystemClock
from headrace.log.commit_row import PREFIX
from headrace.nodes.balances.opening import BEFORE, STATE, entries_of
from headrace.nodes.descriptions.renamed import forget_renamed, has_to_be_renamed, note_renamed
from headrace.nodes.standing.planned import planned_after
from headrace.nodes.standing.state_commits import last_state_commit
from headrace.sequence.log_columns import SET_LIMITS
from headrace.writing.leases.lease import lease_taken_ms, require_leases
from headrace.writing.leases.requests import SUFFIX, pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.description import Node
    from headrace.lake import LakeTable
    from headrace.lake.paths import Lake
    from headrace.writing.leases.lease import Lease

NO_RENAME = "Leave renamed_from out: the node is then a new one, built from the log."
ALL_MS = 1 << 50  # a commit time beyond all


@dataclass(frozen=True)
class Obstacle:
    """Why a node cannot have another name, and what to do."""

    reason: str
    way_out: str = NO_RENAME


def why_not_renamed(lake: Lake, node: Node, *, is_at_rest: bool = False) -> Obstacle | None:
    """Why a node cannot go on from the tables of its former name; None: it can, or does not say that it had one.

    A delivery of a stream that runs is not broken off: the stream completes it before it hands the node over.

    In: is_at_rest  the caller holds the lease of the former name, so no stream delivers
    """
    before = node.renamed_from
    if before is None:
        return None
    # The lease is read first: a stream that ends after that leaves a commit of the state, and it is read below.
    rests = is_at_rest or lease_taken_ms(lake.lease(f"node/{before}"), SystemClock()) is None
    commit = last_state_commit(lake, before)
    if commit is None:
        return None
    if (topic := repair_owed(lake, before)) is not None:
        return Obstacle(
            f"a repair of the log of '{topic}' still owes '{before}' under that name",
            f"Run the code of before with headrace repair {topic}, and apply again.",
        )
    progress: Mapping[str, Any] = commit.record.get("progress", {})
    if progress.get("limits") or _has_limits_to_come(lake, node, before, progress.get("upto_ms", {})):
        return Obstacle(f"limits of '{before}' were set in the log, and stand under that name")
    if rests and _has_sinks(lake, node, before) and planned_after(lake, before, commit) is not None:
        return Obstacle(
            f"a delivery of '{before}' to its sinks was broken off, and sinks know its rows by that name",
            "Run the code of before until the node has written its next micro-batch, and apply again.",
        )
    return None


def require_renamable(lake: Lake, node: Node) -> None:
    """Refuse a rename whose obstacle has come up since the plan was made. The caller holds the leases of both names.

    Raises: TerminalError
    """
    obstacle = why_not_renamed(lake, node, is_at_rest=True) if has_to_be_renamed(lake, node) else None
    if obstacle is not None:
        raise TerminalError(
            f"Node '{node.required_name}' cannot go on from the tables of '{node.renamed_from}': {obstacle.reason}.",
            hint=obstacle.way_out,
        )


def _has_limits_to_come(lake: Lake, node: Node, before: str, upto_ms: Mapping[str, int]) -> bool:
    """Whether limits of the former name are asked for, or stand in the log where the node has not read it."""
    if not is_suppressed(node):
        return False
    topic = limits_topic(node).name
    asked = (small_files.read_json(f"{lake.requests(topic)}/{name}{SUFFIX}") for name in pending(lake, topic))
    if any(isinstance(each, dict) and each.get("node") == before for each in asked):
        return True
    if not lakes.exists(lake.log(topic)):
        return False
    read_ms = upto_ms.get(topic, min(upto_ms.values(), default=-1))
    controls = LogSlice.of(lake.log(topic), read_ms, ALL_MS).controls()
    entries = (json.loads(control) for _, control in controls if not control.startswith(PREFIX))
    return any(entry["action"] == SET_LIMITS and entry["node"] == before for entry in entries)


def _has_sinks(lake: Lake, node: Node, before: str) -> bool:
    """Whether the node delivers to sinks, by its description or by the one that the lake holds."""
    described = small_files.read_json(lake.description(before)) or {}
    return bool(node.sinks or described.get("remarks", {}).get("sinks"))


def rename_node(lake: Lake, before: str, after: str, leases: Iterable[Lease]) -> None:
    """Copy the tables of a node to another name, and let it rest if it rests. If another process has done so, do nothing.

    The state goes last: before it is there, the new name has no tables, and this is done again. Results and state are
    written behind a fence. So a process that was paused puts nothing over what a stream has written under the new name.

    In:     leases  of both names, which the caller holds
    Raises: LeaseLostError or FencedError when somebody has taken the node; then this process renames nothing
    """
    if last_state_commit(lake, after) is not None:
        return
    held = partial(require_leases, [*leases])
    take_over(lake, before)  # a writer that was paused commits no more
    note = note_renamed(lake, before, after)
    try:
        held()  # whoever takes one later reads that note
        inherit_pending(lake, before, after)
        _copy_node(lake, before, after, held)
    except BaseException:
        forget_renamed(lake, before, note)
        raise


def _copy_node(lake: Lake, before: str, after: str, require_leases: Callable[[], object]) -> None:
    """In: require_leases  raises when somebody has taken a lease."""
    commit = last_state_commit(lake, before)
    assert commit is not None
    results, state = lakes.open_table(lake.table(before)), lakes.open_table(lake.state(before))
    _make(lake.table(after), results, kinds.RESULTS)
    _make(lake.state(after), state, kinds.state(()))
    writers = take_over(lake, after)
    require_leases()  # behind the fence
    _copy_small_files(lake, before, after, require_leases)
    replace_table(writers.appender, results, {"writer": "renamed"})
    for one, other in zip(writers_of(before), writers_of(after), strict=True):
        if (told := record_of(lake, before, one)) is not None:
            writers.appender.append([], {**told, "writer": other})
    replace_table(writers.state, state, {**plain(commit.record), "writer": f"node/{after}"})


def _make(uri: str, like: LakeTable, settings: Mapping[str, str]) -> None:
    """Make an empty table, unless a rename that was broken off has left one."""
    if not lakes.exists(uri):
        lakes.create(uri, like.schema, settings)


def _copy_small_files(lake: Lake, before: str, after: str, require_leases: Callable[[], object]) -> None:
    """Copy what lies beside results and state, over what a rename that was broken off has left.

    Tables are written behind a fence, or into folders that nobody else knows; a small file only if nobody has written it.
    """
    folders = small_files.names(lake.openings(after))
    files = (lake.opening, lake.paused, lake.description)
    left = {place: small_files.read_json(place(after)) for place in files}
    require_leases()  # so they are those of a rename that was broken off
    copied = {place: small_files.read_json(place(before)) for place in files}
    if (balance := copied[lake.opening]) is not None:
        copied[lake.opening] = _copy_balance(lake, before, after, balance, require_leases)
    for name in folders:
        small_files.delete(f"{lake.openings(after)}/{name}")
    for kind in ("unusable", "refused"):
        for name in small_files.names(f"{lake.root}/{kind}/{before}"):
            table = f"{lake.root}/{kind}/{before}/{name}"
            # A sink's notes beside its table are of rows with the former name.
            if small_files.names(f"{table}/_delta_log"):
                _copy(table, f"{lake.root}/{kind}/{after}/{name}", "copied", require_leases)
    for place, content in copied.items():
        require_leases()
        if content is not None:
            _write(place(after), content, left[place])


def _write(uri: str, content: Any, left: Any) -> None:
    """Write a small file, unless somebody has written it since it was read. In: left  its content then; None: none."""
    if left is None:
        small_files.write_json(uri, content, overwrite=False)
    elif small_files.read_json(uri) == left:
        small_files.write_json(uri, content)


def _copy_balance(
    lake: Lake, before: str, after: str, balance: Mapping[str, Any], require_leases: Callable[[], object]
) -> dict[str, Any]:
    """Copy the tables of a balance into new folders; the content of the file that names them."""
    copies = []
    for entry in entries_of(balance):
        folder = uuid4().hex
        source = f"{lake.openings(before)}/{entry['folder']}/{STATE}"
        _copy(source, f"{lake.openings(after)}/{folder}/{STATE}", f"opening/{after}", require_leases)
        copies.append({name: of for name, of in entry.items() if name != BEFORE} | {"folder": folder})
    return copies[0] | ({BEFORE: copies[1]} if copies[1:] else {})


def _copy(source: str, target: str, writer: str, require_leases: Callable[[], object]) -> None:
    """Let a table hold what another holds, also one that a rename has left, unless another process has taken it since."""
    table = lakes.open_table(source)
    _make(target, table, kinds.state(()))
    appender = lakes.TableWriter(lakes.open_table(target), lakes.APPENDER)
    require_leases()  # behind the fence
    replace_table(appender, table, {"writer": writer})
