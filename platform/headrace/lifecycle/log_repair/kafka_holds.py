"""Whether Kafka still has all records of a log, as far as its offsets tell; no record is read, and Spark is not needed.

Law: if Kafka's topic is the one that the log was read from, and begins at or before each partition's first record in the
log, Kafka has given out every offset of the log. Records inside may be gone, as by compaction: reading them finds that out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from headrace.description.seed import Seed
from headrace.errors import HeadraceError, TerminalError
from headrace.lake import last_commit, open_table
from headrace.lake.files.sorted_rows import groups_upto
from headrace.log.decisions.topic_identity import require_known_topic
from headrace.sequence.log_rows import DEAD_LETTER, RECORD
from headrace.sequence.log_state import LogState
from headrace.spark.kafka import BrokerUnreachableError, KafkaTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.description import Topic
    from headrace.lake import LakeTable
    from headrace.lake.paths import Lake
    from headrace.settings.kafka import KafkaSettings

WAY_OUT = "Restore the description, or read the topic into a new lake."


def why_kafka_lacks(lake: Lake, topic: Topic, settings: KafkaSettings) -> tuple[str, str]:
    """Why a topic's log cannot be made anew from Kafka's records, and the way out; empty: no offset speaks against it."""
    if isinstance(topic.start, Seed):
        return "its log begins with a seed, which Kafka does not have", WAY_OUT
    log = open_table(lake.log(topic.name))
    commit = last_commit(log, f"log/{topic.name}")
    if commit is None:
        return "its log has no commit yet", WAY_OUT
    state = LogState.from_json(commit.record["after"])
    try:
        why = "; ".join(_missing(log, state, KafkaTopic.of(topic, settings)))
    except BrokerUnreachableError as error:
        return _in_words(
            error
        ), "Start the broker, or correct HEADRACE_KAFKA_BOOTSTRAP_SERVERS, and plan again."
    except TerminalError as error:
        return _in_words(error), WAY_OUT
    return why, WAY_OUT if why else ""


def _missing(log: LakeTable, state: LogState, kafka: KafkaTopic) -> Iterator[str]:
    """The records of a log that Kafka lacks, one line for each lack."""
    require_known_topic(kafka.name, state.topic_id, kafka.topic_id())
    there = set(kafka.partitions())
    wanted = sorted(there & state.partitions.keys())
    yield from (f"Kafka has no partition {p}" for p in sorted(state.partitions.keys() - there))
    earliest, ends = kafka.earliest(wanted), kafka.ends(wanted)
    for partition in wanted:
        if (needs := state.partitions[partition].next_offset) > ends[partition]:
            yield f"Kafka ends before the log: partition {partition} at offset {ends[partition]}, the log at {needs}"
        first = first_below(log, partition, earliest[partition])
        if first is not None:
            yield f"Kafka has deleted partition {partition} offsets {first} to {earliest[partition] - 1}"


def first_below(log: LakeTable, partition: int, offset: int) -> int | None:
    """The first offset of a partition that a log holds, if it lies below another one."""
    if offset <= 0:
        return None
    files = log.snapshot().within("offset", 0, offset - 1).items()
    concerned = ((name, of) for name, of in files if of.may_have("partition", partition, partition))
    of_records = [(name, of) for name, of in concerned if of.may_have("kind", DEAD_LETTER, RECORD)]
    first = offset
    for name, of in sorted(of_records, key=lambda each: each[1].lowest.get("offset", 0)):
        if of.lowest.get("offset", 0) >= first:  # type: ignore[operator]
            break
        for rows in groups_upto(f"{log.uri}/{name}", ("partition", "offset"), "offset", first - 1):
            lowest = pc.min(rows["offset"].filter(pc.equal(rows["partition"], partition))).as_py()
            first = first if lowest is None else min(first, lowest)
    return first if first < offset else None


def _in_words(error: HeadraceError) -> str:
    return "; ".join(words.rstrip(".") for words in (error.message, error.detail) if words)
