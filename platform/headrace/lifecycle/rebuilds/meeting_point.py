"""Where a rebuild meets the tables that it is to replace.

Law: a rebuild is swapped in where the tables before stand: it has read each log as far as they have, and no further. So
what its sinks get afterwards begins where the tables before stopped giving, whatever came into the logs during the rebuild:
no commit is given by both, and none by neither.

Two descriptions may read different logs. Each log is read through the commit time that the tables before have reached: a
node reads its logs in one order, so it stands at one commit time in all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.lake import small_files
from headrace.nodes.standing.planned import planned_after, results_record
from headrace.nodes.standing.state_commits import last_state_commit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace import lake as lakes
    from headrace.description import Node
    from headrace.lake.paths import Lake


def meeting_point(before_ms: Mapping[str, int], topics: Collection[str]) -> Mapping[str, int]:
    """How far a rebuild reads, as commit times.

    In: before_ms  how far the tables before have read each log
        topics     the logs that the rebuild reads
    """
    return dict.fromkeys(topics, max(before_ms.values(), default=0))


def is_behind(before_ms: Mapping[str, int], now_ms: Mapping[str, int], topics: Collection[str]) -> bool:
    """Whether a rebuild has read less than the tables before: a swap would take them back in time.

    Logs that are new stand for those that are gone: a node that is read may have got another name.

    In: now_ms  how far the rebuild has read its logs; of one that is missing nothing
        topics  the logs that it reads
    """
    by_name = {_name(topic): now_ms.get(topic, 0) for topic in topics}
    known = {_name(topic) for topic in before_ms}
    new_ms = [ms for name, ms in by_name.items() if name not in known]
    instead_ms = {name: min(new_ms) for name in known if new_ms and name not in by_name}
    reached_ms = {**by_name, **instead_ms}
    return any(reached_ms.get(_name(topic), ms) < ms for topic, ms in before_ms.items())


def is_beyond(point_ms: Mapping[str, int], now_ms: Mapping[str, int]) -> bool:
    """Whether a rebuild has read more: the node has gone back since, and sinks would miss what lies between."""
    return any(ms > point_ms.get(topic, ms) for topic, ms in now_ms.items())


def standing(lake: Lake, node: Node) -> Mapping[str, int] | None:
    """How far a node's tables have read each log, whoever has written them; None: there are none.

    A micro-batch that was broken off after its results were written counts: sinks have its rows.
    """
    name, commit = node.required_name, _written(lake, node)
    if commit is None:
        return None
    kept = small_files.read_json(lake.standing(name))
    if kept is not None and kept["of"] == _identity(commit):
        return dict(kept["upto_ms"])
    progress: Mapping[str, Any] = commit.record["progress"]
    plan = planned_after(lake, name, commit)
    if plan is not None and plan["batch"] == _appended_batch(lake, name):
        return dict(plan["upto_ms"])
    return dict(progress["upto_ms"])


def place(lake: Lake, node: Node) -> tuple[Any, ...] | None:
    """How far a node's tables go, from any writer. Two values are equal if nobody has committed in between."""
    commit = _written(lake, node)
    if commit is None:
        return None
    known = (commit.record.get("fingerprint"), commit.record.get("progress"), commit.record.get("batch"))
    return (*known, standing(lake, node), _appended_batch(lake, node.required_name))


def keep_standing(lake: Lake, node: Node) -> None:
    """Note where a node's tables stand, before a swap takes away what tells it: the swap may be broken off."""
    commit, upto_ms = _written(lake, node), standing(lake, node)
    if commit is not None and upto_ms is not None:
        entry = {"of": _identity(commit), "upto_ms": dict(upto_ms)}
        small_files.write_json(lake.standing(node.required_name), entry)


def drop_standing(lake: Lake, node: Node) -> None:
    """Forget the note, once the swap is done."""
    small_files.delete(lake.standing(node.required_name))


def _written(lake: Lake, node: Node) -> lakes.Commit | None:
    """The last commit of a node's state."""
    return last_state_commit(lake, node.required_name)


def _identity(commit: lakes.Commit) -> list[Any]:
    """The identity of a state of a node, by which another one is told from it."""
    return [commit.record["fingerprint"], commit.record["progress"].get("batch", 0)]


def _appended_batch(lake: Lake, name: str) -> int | None:
    """The last micro-batch whose appended results were written."""
    batch: int | None = results_record(lake, name).get("batch")
    return batch


def _name(topic: str) -> str:
    """The name of a log; that of a node without its generation."""
    return topic.partition("@")[0]
