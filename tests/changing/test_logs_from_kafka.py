"""A log is made anew from Kafka only if Kafka has the records of every offset that it holds. No Spark, and no broker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.changing.plan_changes import plan_changes
from headrace.changing.plan_topics import plan_topic
from headrace.lake.paths import Lake
from headrace.lifecycle import kafka_holds, read_kafka_again
from headrace.lifecycle.read_kafka_again import KafkaAgain
from headrace.log.raw_records import is_read_otherwise, keeping_raw, require_same_reading
from headrace.nodes.cuts import note_cut
from headrace.nodes.evolution import GOES_ON, REBUILT, REFUSED
from headrace.nodes.node_tables import log_is_as_described
from headrace.sequence.log_state import LogState, PartitionState
from headrace.sequence.sequence_records import RECORDS
from headrace.settings.kafka import KafkaSettings
from headrace.spark.kafka import BrokerUnreachableError
from headrace.writing.topic_descriptions import note_description
from tests.changing.held import NO_SPARK, hold, hold_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

    from headrace.description import Topic

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
    """Spark refuses a timestamp here, so Kafka's client reads."""
    there, asked = [raw((1, 4), (0, 9), (1, 2)), raw((0, 3), (1, 3))], list[Any]()

    class Reader:
        def __init__(self, topic: str, settings: KafkaSettings) -> None:
            assert settings.bootstrap_servers == "kafka:9092"

        def read(self, offsets: Mapping[int, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
            asked.append(offsets)
            for table in there:
                yield from table.to_batches()

    def refuse(*args: object) -> None:
        raise RuntimeError("java.lang.ArithmeticException: long overflow")

    monkeypatch.setattr(read_kafka_again, "KafkaReader", Reader)
    monkeypatch.setattr(read_kafka_again, "read_offsets", refuse)
    again = KafkaAgain(NO_SPARK, READINGS, SETTINGS)
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
