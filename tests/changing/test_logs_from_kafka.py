"""A log is made anew from Kafka only if Kafka has the records of every offset that it holds. No Spark, and no broker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.changing.plan_changes import plan_changes
from headrace.changing.plan_topics import plan_topic
from headrace.lake import NewFile
from headrace.lake.care.alter import rewritable
from headrace.lake.paths import Lake
from headrace.lake.storage import local_path
from headrace.lifecycle.log_repair import kafka_holds, read_kafka_again, remake_log
from headrace.lifecycle.log_repair.read_kafka_again import KafkaAgain
from headrace.lifecycle.rebuilds.former import plain
from headrace.log.decision_rows import Decision, LogFolder, write_decisions
from headrace.log.history.raw_records import is_read_otherwise, keeping_raw, require_same_reading
from headrace.nodes.balances.cuts import note_cut
from headrace.nodes.descriptions.evolution import GOES_ON, REBUILT, REFUSED
from headrace.nodes.node_tables import log_is_as_described
from headrace.sequence.log_columns import CONTROL, ERASED
from headrace.sequence.log_state import LogState, PartitionState
from headrace.sequence.sequence_records import RECORDS
from headrace.settings.kafka import KafkaSettings
from headrace.spark.kafka import BrokerUnreachableError
from headrace.writing.topic_descriptions import note_description
from tests.changing.held import hold, hold_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

    from headrace.description import Topic
    from headrace.lake import LakeTable

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
NOW: Topic = replace(READINGS, key="sensor_id BIGINT", value="value DOUBLE, at BIGINT", timestamp="at")
IN_KAFKA: Topic = replace(NOW, keep_raw="kafka")
SETTINGS = KafkaSettings(bootstrap_servers="kafka:9092")


class Kafka:
    """A topic of Kafka's, in the place of `KafkaTopic`."""

    name = "readings"

    def __init__(
        self,
        earliest: Mapping[int, int] = {0: 0, 1: 0},
        ends: Mapping[int, int] = {0: 600, 1: 500},
        topic_id: str = "first",
        error: Exception | None = None,
    ) -> None:
        self._earliest, self._ends, self._id, self._error = earliest, ends, topic_id, error

    def of(self, topic: Topic, settings: KafkaSettings) -> Kafka:
        assert settings is SETTINGS
        return self

    def topic_id(self) -> str:
        if self._error is not None:
            raise self._error
        return self._id

    def partitions(self) -> list[int]:
        return [*self._ends]

    def earliest(self, partitions: list[int]) -> dict[int, int]:
        return {p: self._earliest[p] for p in partitions}

    def ends(self, partitions: list[int]) -> dict[int, int]:
        return {p: self._ends[p] for p in partitions}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(f"file:{tmp_path}")


def totals(topic: Topic) -> Any:
    return topic.group_by("sensor_id").aggregate(n=hr.count()).named("totals")


def lived(lake: Lake, topic: Topic = READINGS) -> None:
    """Let a lake hold the topic's log, of two partitions, and a node."""
    hold(lake, totals(topic))
    state = LogState(9, partitions={0: PartitionState(600), 1: PartitionState(400)}, topic_id="first")
    log = lakes.TableWriter(lakes.open_table(lake.log("readings")), lakes.APPENDER)
    log.append([], {"writer": "log/readings", "after": keeping_raw(state, topic).to_json()})
    note_description(lake, topic)


def test_the_plan_says_what_is_read_from_kafka_or_why_nothing_can_be(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    lived(lake)
    error = BrokerUnreachableError(
        "Topic 'readings': Kafka at kafka:9092 does not answer.", detail="timed out"
    )

    def planned(kafka: Kafka, topic: Topic = IN_KAFKA) -> str:
        monkeypatch.setattr(kafka_holds, "KafkaTopic", kafka)
        return str(plan_changes(lake, [totals(topic)], SETTINGS))

    assert [
        planned(Kafka()),
        planned(Kafka(), replace(READINGS, key="sensor_id BIGINT")),  # nobody is asked
        planned(Kafka(ends={0: 599})),
        planned(Kafka(topic_id="other")),
        planned(Kafka(error=error)),
        planned(Kafka(), replace(IN_KAFKA, start=hr.from_table("s3://archive/readings", raw=True))),
    ] == snapshot
    assert plan_topic(lake, IN_KAFKA, SETTINGS).to_json()["from_kafka"]


def test_each_offset_of_the_log_has_to_be_there(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_records(lake, READINGS, {0: range(5, 10), 1: range(100, 104)})

    def found(earliest: dict[int, int]) -> tuple[str, str]:
        kafka = Kafka(earliest, {0: 10, 1: 104, 2: 7})
        monkeypatch.setattr(kafka_holds, "KafkaTopic", kafka)
        plan = plan_topic(lake, IN_KAFKA, SETTINGS)
        return plan.outcome, plan.detail

    for earliest in ({0: 0, 1: 0}, {0: 5, 1: 100}):
        assert found(earliest) == (REBUILT, "")
    outcome, why = found({0: 7, 1: 104})
    assert outcome == REFUSED
    assert (
        "Kafka has deleted partition 0 offsets 5 to 6; Kafka has deleted partition 1 offsets 100 to 103"
        in why
    )


@pytest.mark.parametrize("keep", ["kafka", True])
def test_a_log_with_erased_rows_is_refused_by_the_plan_as_by_the_apply(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, keep: Any
) -> None:
    """Kafka may still have them."""
    kept = replace(READINGS, keep_raw=keep)
    hold_records(lake, kept, {0: range(5, 10)})
    monkeypatch.setattr(kafka_holds, "KafkaTopic", Kafka({0: 0}, {0: 10}))
    now = replace(IN_KAFKA, keep_raw=keep)
    assert plan_topic(lake, now, SETTINGS).outcome == REBUILT
    log = lakes.open_table(lake.log("readings"))
    erase(log, 2)
    plan = plan_topic(lake, now, SETTINGS)
    assert plan.outcome == REFUSED
    assert plan.detail.endswith("; 2 of its records were erased")
    assert (plan.from_kafka, plan.from_bytes, plan.reads) == (False, False, None)
    with pytest.raises(hr.TerminalError, match="cannot be made again") as refused:
        remake_log._require_readable(log, now, from_kafka=keep == "kafka")
    assert refused.value.detail == "2 of its records were erased."


def test_a_log_with_a_seed_is_refused_by_the_plan(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_records(lake, READINGS, {0: range(5, 10)})
    log = lakes.open_table(lake.log("readings"))
    monkeypatch.setattr(kafka_holds, "KafkaTopic", Kafka({0: 0}, {0: 10}))
    seed = Decision(0, None, '{"action": "seed", "table": "s3://archive"}')
    file = write_decisions(LogFolder(log.uri, log.schema), "readings", CONTROL, 1_700_000_000_001, [seed])
    told = lakes.last_commit(log, "log/readings")
    assert told is not None
    lakes.TableWriter(log, lakes.APPENDER).append([file], plain(told.record))
    plan = plan_topic(lake, IN_KAFKA, SETTINGS)
    assert plan.outcome == REFUSED
    assert "it begins with a seed, which Kafka does not have" in plan.detail


def erase(log: LakeTable, number: int) -> None:
    """Blank the first rows of its only file with records, as an erasure does."""
    snapshot = log.snapshot()
    name, size = next((name, file) for name, file in snapshot.files.items() if file.may_have("offset", 5, 9))
    rows = pq.read_table(local_path(f"{log.uri}/{name}"))
    reasons = pa.array([ERASED] * number + [None] * (rows.num_rows - number), pa.string())
    rows = rows.set_column(rows.schema.get_field_index("reason"), "reason", reasons)
    pq.write_table(rows, local_path(f"{log.uri}/erased.parquet"))
    new = NewFile("erased.parquet", size.size, json.dumps({"numRecords": rows.num_rows}))
    maintainer = lakes.TableWriter(log, lakes.MAINTAINER, carries=["log/readings"])
    with rewritable(maintainer, {"writer": "erasure"}):
        maintainer.replace({name: size}, [new], {"writer": "erasure"}, changes_data=True)


def test_a_log_that_was_cut_is_not_made_anew(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when no node has a balance any more: what the records that are gone have moved is not known."""
    monkeypatch.setattr(kafka_holds, "KafkaTopic", Kafka())
    lived(lake)
    assert plan_topic(lake, IN_KAFKA, SETTINGS).outcome == REBUILT
    note_cut(lake, READINGS, 5, None)
    plan = plan_topic(lake, IN_KAFKA, SETTINGS)
    assert plan.outcome == REFUSED
    assert "older rows of its log were cut off" in plan.detail


def test_a_change_that_the_rows_tell_needs_no_kafka(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lived(lake)
    more = replace(READINGS, value="value DOUBLE, at BIGINT", keep_raw="kafka")
    for kafka, outcome in ((Kafka(), REBUILT), (Kafka(topic_id="other"), GOES_ON)):
        monkeypatch.setattr(kafka_holds, "KafkaTopic", kafka)
        assert plan_topic(lake, more, SETTINGS).outcome == outcome


def test_nothing_is_appended_by_another_way_to_read_records_before_the_log_is_made_anew(lake: Lake) -> None:
    lived(lake)
    timed = replace(READINGS, value="value DOUBLE, at BIGINT", timestamp="at")
    assert not is_read_otherwise(lake, timed)  # without keep_raw it is read so from now on
    for keep in (True, "kafka"):
        with pytest.raises(hr.TerminalError, match="written by another description"):
            require_same_reading(lake, replace(timed, keep_raw=keep))
        assert not log_is_as_described(lake, replace(timed, keep_raw=keep))
        assert log_is_as_described(lake, replace(READINGS, keep_raw=keep))


def test_the_code_before_does_not_go_on_with_a_log_that_was_made_anew(lake: Lake) -> None:
    lived(lake, IN_KAFKA)
    assert not is_read_otherwise(lake, IN_KAFKA)
    for before in (READINGS, replace(IN_KAFKA, timestamp=None)):
        assert is_read_otherwise(lake, before)
    plan = plan_topic(lake, replace(NOW, timestamp=None), SETTINGS)
    assert (plan.outcome, plan.detail) == (REFUSED, "event time: at -> Kafka's timestamp")
    assert 'keep_raw="kafka"' in plan.way_out


def raw(*places: tuple[int, int], value: bytes = b"12") -> pa.Table:
    rows = [(*place, b"k", value, 7, ["h"], [b"v"]) for place in places]
    return pa.table([*zip(*rows, strict=True)] or [()] * len(RECORDS), schema=RECORDS)


def rows(*places: tuple[int, int]) -> pa.Table:
    of = raw(*places)
    return pa.table(
        [of["partition"], of["offset"], pa.array([3] * of.num_rows, pa.int32())],
        ["partition", "offset", "size_bytes"],
    )


def test_each_row_gets_its_record_or_none_does(monkeypatch: pytest.MonkeyPatch) -> None:
    there, asked = [raw((1, 4), (0, 9), (1, 2)), raw((0, 3), (1, 3))], list[Any]()

    class Reader:
        @classmethod
        def of(cls, topic: hr.Topic, settings: KafkaSettings) -> Reader:
            assert settings.bootstrap_servers == "kafka:9092"
            return cls()

        def read(self, offsets: Mapping[int, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
            asked.append(offsets)
            for table in there:
                yield from table.to_batches()

    monkeypatch.setattr(read_kafka_again, "KafkaReader", Reader)
    again = KafkaAgain(READINGS, SETTINGS)
    wanted = [(1, 2), (0, 3), (1, 4), (0, 9)]
    assert again.delivered(rows(*wanted)).equals(raw(*wanted))
    assert asked == [{0: (3, 9), 1: (2, 4)}]
    assert again.delivered(rows()).equals(RECORDS.empty_table())
    for gone, said in (
        ((1, 1), "partition 1 offset 1"),
        ((1, 9), "partition 1 offset 9"),
        ((2, 0), "partition 2 offset 0"),
    ):
        with pytest.raises(hr.TerminalError, match="Kafka has no record there any more") as refused:
            again.delivered(rows((1, 2), gone))
        assert refused.value.detail == said
    there[0] = raw((1, 4), (0, 9), (1, 2), value=b"123")
    with pytest.raises(hr.TerminalError, match="a record of another size") as refused:
        again.delivered(rows(*wanted))
    assert refused.value.detail == "partition 1 offset 2, partition 1 offset 4, partition 0 offset 9"


def test_it_is_kept_by_the_log_or_by_kafka() -> None:
    with pytest.raises(
        hr.DescriptionError, match="keep_raw 'disk' does not exist; give False, True or 'kafka'"
    ):
        replace(READINGS, keep_raw="disk")
