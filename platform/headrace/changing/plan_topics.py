"""The plan for the log of a topic whose description has changed.

Law: a log is written again only if its rows, the bytes that it keeps of its records, or Kafka's records tell what they
become.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.changing.comparing.compare_topics import compare_topic
from headrace.changing.plan import NEW, UNCHANGED, LogRead, TopicPlan
from headrace.lake import open_table
from headrace.lifecycle.log_repair.kafka_holds import WAY_OUT, why_kafka_lacks
from headrace.lifecycle.log_repair.rereadable_rows import why_not_reread
from headrace.log.history.raw_records import (
    decoded_by,
    noted_reading,
    other_reading,
    raw_entry,
    why_not_remade,
)
from headrace.nodes.balances.opening import cut_topics
from headrace.nodes.descriptions.evolution import GOES_ON, REBUILT, REFUSED
from headrace.settings.kafka import KafkaSettings

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.lake.paths import Lake

RESTORE = "Restore the description"
FROM_KAFKA = (
    'If Kafka still has all records of the log, say keep_raw="kafka": headrace apply then reads them anew.'
)
OTHER_COLUMNS = (
    f"{RESTORE}: of the value, columns may come, go, have another name (renamed=) or a wider type. {FROM_KAFKA} "
    "Or read the topic into a new lake."
)
OTHER_READING = f"{RESTORE}. {FROM_KAFKA}"


def plan_topic(lake: Lake, topic: Topic, kafka: KafkaSettings | None = None) -> TopicPlan:
    """The plan for a topic's log. In: kafka  asked if the log has to be made anew from there; None: by the environment."""
    log = open_table(lake.log(topic.name))
    if not log.exists:
        return TopicPlan(topic.name, NEW)
    changes = compare_topic(log, topic)
    raw = raw_entry(lake, topic)
    before = noted_reading(lake, topic) if raw is None else raw["decoded"]
    reading = tuple(other_reading(before, topic))
    if topic.keep_raw and (changes.other or before not in (None, decoded_by(topic))):
        lines = (*changes.other, *changes.lines(from_bytes=True), *reading)
        plan = _reread_plan(lake, topic, raw, lines, kafka or KafkaSettings())
        if raw is not None or changes.other or reading or plan.outcome != REFUSED:
            return plan  # else the rows of the log tell what they become
    if reading and raw is not None:
        return TopicPlan(topic.name, REFUSED, "; ".join((*changes.other, *reading)), OTHER_READING)
    if changes.other:
        return TopicPlan(topic.name, REFUSED, "; ".join(changes.other), OTHER_COLUMNS)
    if changes.needs_rows:
        renamed = dict(changes.renamed or {})
        return TopicPlan(
            topic.name, REBUILT, lines=changes.lines(), renamed=renamed, reads=_reads(lake, topic)
        )
    if changes.gained:
        gained = ", ".join(changes.gained)
        return TopicPlan(topic.name, GOES_ON, f"the value gains {gained}, null in older records")
    return TopicPlan(topic.name, UNCHANGED)


def _reread_plan(
    lake: Lake, topic: Topic, raw: Mapping[str, Any] | None, lines: tuple[str, ...], kafka: KafkaSettings
) -> TopicPlan:
    """The plan for a log whose records have to be read anew: from the bytes that it keeps, else from Kafka."""
    is_cut = topic.name in cut_topics(lake)
    why = why_not_remade(raw, is_cut=is_cut)
    from_kafka, lacks, way_out = bool(why), why, WAY_OUT
    if from_kafka and not is_cut:
        lacks, way_out = why_kafka_lacks(lake, topic, kafka)
    lacks = lacks or why_not_reread(open_table(lake.log(topic.name)), from_kafka=from_kafka)
    if lacks:
        reasons = dict.fromkeys(words for words in (*lines, why, lacks) if words)
        return TopicPlan(topic.name, REFUSED, "; ".join(reasons), way_out or WAY_OUT)
    return TopicPlan(
        topic.name,
        REBUILT,
        lines=lines,
        reads=_reads(lake, topic),
        from_bytes=not from_kafka,
        from_kafka=from_kafka,
    )


def _reads(lake: Lake, topic: Topic) -> LogRead:
    snapshot = open_table(lake.log(topic.name)).snapshot()
    return LogRead(topic.name, snapshot.rows, snapshot.bytes)
