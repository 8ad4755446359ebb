"""The plan for the log of a topic whose description has changed.

Law: a log is written again only if its rows, or the bytes that it keeps of its records, tell what they become.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.changing.compare_topics import TopicChanges, compare_topic
from headrace.changing.plan import NEW, UNCHANGED, LogRead, TopicPlan
from headrace.lake import last_commit, open_table
from headrace.log.raw_records import decoded_by, why_not_anew
from headrace.nodes.evolution import GOES_ON, REBUILT, REFUSED
from headrace.nodes.opening import cut_topics

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.lake.paths import Lake

KAFKAS = "Kafka's timestamp"  # what stands for the event time that no description names
RESTORE = "Restore the description"
OTHER_COLUMNS = (
    f"{RESTORE}: of the value, columns may come, go, have another name (renamed=) or a wider type. Or read the topic into "
    "a new lake."
)


def plan_topic(lake: Lake, topic: Topic) -> TopicPlan:
    """The plan for a topic's log."""
    log = open_table(lake.log(topic.name))
    if not log.exists:
        return TopicPlan(topic.name, NEW)
    changes = compare_topic(log, topic)
    if topic.keep_raw and (raw := _kept(lake, topic)) is not None and raw["decoded"] != decoded_by(topic):
        return _read_anew(lake, topic, raw, changes)
    if changes.other:
        return TopicPlan(topic.name, REFUSED, "; ".join(changes.other), OTHER_COLUMNS)
    if changes.needs_rows:
        snapshot = log.snapshot()
        reads = LogRead(topic.name, snapshot.rows, snapshot.bytes)
        renamed = dict(changes.renamed or {})
        return TopicPlan(topic.name, REBUILT, lines=changes.lines(), renamed=renamed, reads=reads)
    if changes.gained:
        gained = ", ".join(changes.gained)
        return TopicPlan(topic.name, GOES_ON, f"the value gains {gained}, null in older records")
    return TopicPlan(topic.name, UNCHANGED)


def _kept(lake: Lake, topic: Topic) -> Mapping[str, Any] | None:
    """How the records of a log with their bytes were read; None: it has no bytes so far."""
    commit = last_commit(open_table(lake.log(topic.name)), f"log/{topic.name}")
    found: Mapping[str, Any] | None = None if commit is None else commit.record.get("after", {}).get("raw")
    return found


def _read_anew(lake: Lake, topic: Topic, raw: Mapping[str, Any], changes: TopicChanges) -> TopicPlan:
    lines = (
        *changes.other,
        *changes.lines(from_bytes=True),
        *_decoding(raw["decoded"], decoded_by(topic)),
    )
    is_cut = topic.name in cut_topics(lake)
    if why := why_not_anew(raw, is_cut=is_cut):
        return TopicPlan(
            topic.name,
            REFUSED,
            "; ".join((*lines, why)),
            f"{RESTORE}, or read the topic into a new lake.",
        )
    snapshot = open_table(lake.log(topic.name)).snapshot()
    reads = LogRead(topic.name, snapshot.rows, snapshot.bytes)
    return TopicPlan(topic.name, REBUILT, lines=lines, reads=reads, from_bytes=True)


def _decoding(stored: Mapping[str, Any], described: Mapping[str, Any] | None) -> Iterator[str]:
    """The changes in the way in which records are read, beside their columns."""
    for name, words in (("timestamp", "event time"), ("format", "format"), ("key_format", "format of keys")):
        before, after = stored[name], (described or {}).get(name)
        if before != after:
            yield f"{words}: {before or KAFKAS} -> {after or KAFKAS}"
