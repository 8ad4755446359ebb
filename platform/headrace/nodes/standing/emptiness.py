"""Why a table has no rows: nothing was delivered, nothing is left of what was, or what is left waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description import is_unnamed, written_by
from headrace.fold.fates import DEAD_LETTER, ERASED, FILTERED, KEPT, LATE, NOT_RECORDS, REPLAY, TOMBSTONE
from headrace.nodes.descriptions.asset_names import stream_name
from headrace.nodes.descriptions.topics import topics_below
from headrace.nodes.standing.waits import at, waits_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Node, Topic
    from headrace.nodes.standing.lake_facts import LakeFacts

_SAID = {
    DEAD_LETTER: ("is a dead letter", "are dead letters"),
    FILTERED: ("is filtered by its steps", "are filtered by its steps"),
    LATE: ("is late", "are late"),
    REPLAY: ("is a replay", "are replays"),
    TOMBSTONE: ("is a tombstone", "are tombstones"),
    ERASED: ("is erased", "are erased"),
}

NOTHING_COMMITTED = (
    "The node has committed nothing yet: its stream's first micro-batch does. "
    "Start the stream if it does not run."
)


def why_empty(node: Node, facts: LakeFacts, reader: str | None = None) -> str:
    """Why a node that has no rows has none, in a sentence or two, with the command that shows the records.

    In: reader  for a step without a name, the node that reads it: its commands show the records of its steps, too
    """
    name = node.required_name if reader is None else reader
    progress = facts.progress(node.required_name)
    if progress is None:
        return _nothing_delivered(node, facts, name) or NOTHING_COMMITTED
    fates = {fate: n for fate, n in progress.totals().items() if fate not in NOT_RECORDS and n}
    kept, records = fates.pop(KEPT, 0), sum(fates.values())
    if kept:
        others = f" Besides, {_counted(name, fates)}." if fates else ""
        waits = waits_of(node, facts)
        if not waits:
            return f"{kept:,} records were used, and none made a row: nothing matched, or what they made is deleted.{others}"
        return f"{kept:,} {'record counts' if kept == 1 else 'records count'}. {waits[0]}{others}"
    if not records:
        return _nothing_delivered(node, facts, name) or "Its logs have no record that the node has read."
    return f"None of {records:,} records is left: {_counted(name, fates)}."


def why_no_result(node: Node, facts: LakeFacts) -> str:
    """Why a node has had no new row: its waits, else that no record came, in a sentence or two."""
    waits = waits_of(node, facts)
    if waits:
        return str(waits[0])
    if not facts.has_rows(node):
        return why_empty(node, facts)
    newest = {
        name: _newest_record_ms(name, facts) for name in dict.fromkeys(t.name for t in topics_below([node]))
    }
    listed = ", ".join(f"{name} at {at(ms)}" for name, ms in newest.items())
    return f"The newest records of its topics were committed: {listed}."


def _newest_record_ms(topic: str, facts: LakeFacts) -> int | None:
    state = facts.log(topic)
    times = (
        []
        if state is None
        else [each.record_at_ms for each in state.partitions.values() if each.record_at_ms]
    )
    return max(times, default=None)


def _counted(name: str, fates: Mapping[str, int]) -> str:
    ordered = sorted(fates.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{n:,} {_SAID[fate][n > 1]} ({command_for(name, fate)})" for fate, n in ordered)


def command_for(node: str, fate: str) -> str:
    """The command that shows the records of a node that met a fate."""
    if fate == DEAD_LETTER:
        return f"headrace dead-letters {stream_name(node)}"
    return f"headrace records {node} {fate}"


def _nothing_delivered(node: Node, facts: LakeFacts, reader: str) -> str | None:
    """Which of its logs has nothing; None: each has a record. In: reader  see `why_empty`."""
    for topic in node.topics:
        if why := _why_nothing(topic, facts, reader):
            return why
    return None


def _why_nothing(topic: Topic, facts: LakeFacts, reader: str) -> str | None:
    upstream = written_by(topic)
    if upstream is not None:
        progress = facts.progress(upstream.required_name)
        is_step = is_unnamed(upstream.required_name)
        what = "Its step without a name" if is_step else f"Node '{upstream.name}', which it reads,"
        if progress is not None and facts.has_rows(upstream):
            return None
        return f"{what} has given no row. {why_empty(upstream, facts, reader if is_step else None)}"
    state = facts.log(topic.name)
    if state is None:
        return f"The log of topic '{topic.name}' is not begun: start its stream."
    if not any(partition.record_at_ms for partition in state.partitions.values()):
        return f"Kafka has delivered no record of topic '{topic.name}' yet."
    return None
