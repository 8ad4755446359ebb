"""Which increments Arrow folds, which are left to Spark, and that nobody can tell from the tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.operators.batches import BatchOperator
from headrace.operators.windows import WindowOperator
from headrace.runtime.backfill import Backfill
from headrace.runtime.columnar import ColumnarRunner
from headrace.runtime.views import Views
from headrace.spark import one_task
from tests.runtime.line import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Aggregate, Stream, WindowedAggregate
    from headrace.operators.operator import Operator
    from headrace.runtime.lake import Lake

pytestmark = pytest.mark.spark

READINGS = hr.Topic(
    "readings",
    key="sensor_id STRING",
    value="sensor_id STRING, value DOUBLE, n BIGINT, few SMALLINT, exact DECIMAL(10,2), day DATE, yes BOOLEAN",
    idle_timeout=None,
)
BIG = 9_000_000_000_000_000_000
COUNTS: dict[str, Aggregate] = {"count": hr.count()}
EVERYTHING: dict[str, Aggregate] = {
    "count": hr.count(),
    "there": hr.count("value"),
    **{f"sum_{name}": hr.sum(name) for name in ("value", "n", "few", "exact")},
    **{f"avg_{name}": hr.avg(name) for name in ("value", "n", "few", "exact")},
    **{f"min_{name}": hr.min(name) for name in ("value", "n", "few", "exact", "day", "yes", "sensor_id")},
    **{f"max_{name}": hr.max(name) for name in ("value", "n", "few", "exact", "day", "yes", "sensor_id")},
}


def windows(
    aggregates: Mapping[str, Aggregate],
    *,
    stream: Stream = READINGS.stream,
    by: tuple[str, ...] = ("sensor_id",),
) -> WindowedAggregate:
    kept = stream.group_by(*by).window(hr.hopping("4 minutes", "2 minutes"), grace="1 minute")
    return kept.aggregate(**aggregates).suppress(hr.until_window_closes()).named("final")


def folded_by(operator: type[Operator[Any]], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The micro-batches that Spark folds for nodes of a kind."""
    fold, found = operator.fold, []

    def counted(self: Operator[Any], *arguments: Any) -> Any:
        folded = fold(self, *arguments)
        found.append(folded.progress.batch)
        return folded

    monkeypatch.setattr(operator, "fold", counted)
    return found


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The micro-batches of windows that Spark folds."""
    return folded_by(WindowOperator, monkeypatch)


def send(line: Line, minute: int, values: Mapping[str, Any], sensor: str = "s1", partition: int = 0) -> None:
    """One reading, committed and folded."""
    reading = {"sensor_id": sensor} | dict(values)
    line._piped.add(sensor, reading, 1_714_564_800_000 + minute * 60_000, partition, {})
    line.commit()
    line.fold()


def lived(line: Line) -> list[tuple[Any, ...]]:
    """The rows of a life in which all columns have values and have none; late records, two sensors, two partitions."""
    full = {"value": 0.1, "n": 3, "few": -4, "exact": "12.34", "day": "2024-05-01", "yes": True}
    for minute, values, sensor in (
        (0, full, "s1"),
        (
            1,
            {"value": -0.0, "n": -(10**15), "few": 4, "exact": "-0.01", "day": "1999-12-31", "yes": False},
            "ü",
        ),
        (2, {}, "s1"),
        (3, {"value": 1e15, "exact": "99999999.99"}, "s1"),
        (1, full, "s2"),
        (9, {"value": 2.5}, "s1"),
        (3, full, "s1"),
        (20, full, "s2"),
    ):
        send(line, minute, values, sensor, partition=minute % 2)
    rows = Views(line.spark, line.lake).read(line.node).orderBy("window_start", "sensor_id").collect()
    assert all(verdict.equal for verdict in Backfill(line.spark, line.lake, line.node).run())
    return [tuple(row) for row in rows]


def test_arrow_folds_what_it_folds_as_spark_does(
    spark: SparkSession, lake: Lake, by_spark: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = lived(Line(spark, lake, windows(EVERYTHING)))
    by_arrow = len(by_spark)
    monkeypatch.setattr(ColumnarRunner, "fold", lambda *_: None)
    other = type(lake)(f"file:{tmp_path}/other")
    assert repr(found) == repr(lived(Line(spark, other, windows(EVERYTHING))))
    assert len(found) >= 6
    assert by_spark[by_arrow : by_arrow + 8] == [*range(1, 9)]
    assert [batch for batch in by_spark[:by_arrow] if batch > 1] == []  # a backfill is Spark's, in one go


DOTTED = hr.Topic("readings", key="sensor_id STRING", value="`a.b` STRING, `c.d` INT", idle_timeout=None)


def test_a_column_may_have_a_dot_in_its_name(
    spark: SparkSession, lake: Lake, by_spark: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = windows({"n": hr.count("c.d"), "total": hr.sum("c.d")}, stream=DOTTED.stream, by=("a.b",))
    line = Line(spark, lake, counted)
    for minute in (0, 1, 30):
        line._piped.add("s1", {"a.b": "x", "c.d": 2}, 1_714_564_800_000 + minute * 60_000, 0, {})
        line.commit()
        line.fold()
    assert by_spark == []
    rows = Views(spark, lake).read(line.node).select("`a.b`", "n", "total").collect()
    assert sorted(map(tuple, rows)) == [("x", 2, 4), ("x", 2, 4)]


BATCHES = (
    READINGS.group_by("sensor_id")
    .batch(
        max_records=3, max_wait="4 minutes", max_bytes=200, collect=["value", "exact", "day", "yes", "few"]
    )
    .named("batches")
)


def sent(line: Line) -> list[tuple[Any, ...]]:
    """The rows of batches that close by each of their limits, in the commit that opened them or in a later one."""
    full = {"value": 0.1, "n": 3, "few": -4, "exact": "12.34", "day": "2024-05-01", "yes": True}
    for second, sensors in enumerate(("aaaab", "b", "cü", "b", "caa", "", "d", "bbbbbbbb", "e", "x" * 7)):
        for number, sensor in enumerate(sensors):
            values = full if number % 2 else {"few": second}
            line._piped.add(sensor, {"sensor_id": sensor} | values, 1_714_564_800_000, number % 2, {})
        if sensors:
            line.commit()
        line.clock.set(line.clock.now_ms() + 60_000)
        line.fold()
    line.sequencer.drain()
    line.fold()
    rows = Views(line.spark, line.lake).read(line.node).collect()
    assert all(verdict.equal for verdict in Backfill(line.spark, line.lake, line.node).run())
    return sorted((tuple(row) for row in rows), key=repr)


def test_arrow_cuts_batches_as_spark_does(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    by_spark = folded_by(BatchOperator, monkeypatch)
    found = sent(Line(spark, lake, BATCHES))
    assert [batch for batch in by_spark if batch > 1] == []
    assert not [*Path(lake.table("batches").removeprefix("file:")).glob("pending-*")]
    monkeypatch.setattr(ColumnarRunner, "fold", lambda *_: None)
    other = type(lake)(f"file:{tmp_path}/other")
    assert repr(found) == repr(sent(Line(spark, other, BATCHES)))
    assert {row[6] for row in found} == {"count", "bytes", "wait", "drain"}


class AskedError(Exception):
    """Spark was asked to fold."""


def same(frame: DataFrame) -> DataFrame:
    return frame


SPARKS: dict[str, Callable[[], WindowedAggregate]] = {
    "transformed": lambda: windows(COUNTS, stream=READINGS.transform(same)),
    "first": lambda: windows({"first": hr.first("n")}),
    "spread": lambda: windows({"spread": hr.stddev("value")}),
    "grouped by floats": lambda: windows(COUNTS, by=("value",)),
    "bounded": lambda: (
        READINGS.group_by("sensor_id")
        .window(hr.tumbling("2 minutes"), grace=0)
        .aggregate(**COUNTS)
        .suppress(hr.until_window_closes(max_records=1_000, when_full="shut_down"))
        .named("final")
    ),
}


@pytest.mark.parametrize("kind", SPARKS)
def test_some_nodes_are_sparks(spark: SparkSession, lake: Lake, by_spark: list[int], kind: str) -> None:
    line = Line(spark, lake, SPARKS[kind]())
    send(line, 0, {"value": 1.0})
    assert by_spark == [1]


def test_sums_beyond_their_type_are_sparks_and_null(
    spark: SparkSession, lake: Lake, by_spark: list[int]
) -> None:
    line = Line(spark, lake, windows({"sum": hr.sum("n")}))
    for minute in (0, 1, 2, 30):
        send(line, minute, {"n": BIG})
    assert by_spark == [4]
    rows = Views(spark, lake).read(line.node).orderBy("window_start").collect()
    assert [row["sum"] for row in rows] == [None, None, BIG]  # of two, three and one readings
    named = lakes.open_table(lake.state("final")).snapshot().files
    there = {file.name for file in Path(lake.state("final").removeprefix("file:")).glob("*.parquet")}
    assert set(named) == there  # what Arrow had written is gone


def test_what_is_too_large_for_one_task_is_sparks(
    spark: SparkSession, lake: Lake, by_spark: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(spark, lake, windows(COUNTS))
    send(line, 0, {})
    with monkeypatch.context() as small:
        small.setattr(one_task, "ONE_TASK_BYTES", 0)
        send(line, 1, {})
    send(line, 30, {})
    assert by_spark == [2]
    assert [row["count"] for row in Views(spark, lake).read(line.node).orderBy("window_start").collect()] == [
        2,
        2,
    ]


def test_windows_that_overlap_thousands_of_times_are_sparks(
    spark: SparkSession, lake: Lake, by_spark: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    often = READINGS.group_by("sensor_id").window(hr.hopping("4 hours", "1 ms"), grace=0)
    line = Line(spark, lake, often.aggregate(**COUNTS).suppress(hr.until_window_closes()).named("final"))
    send(line, 0, {})

    def asked(*_: Any) -> None:
        raise AskedError

    monkeypatch.setattr(line.runner.operator, "fold", asked)
    with pytest.raises(AskedError):
        send(line, 600, {})


@pytest.mark.parametrize("unforeseen", ["types", "names"])
def test_what_nobody_thought_of_stops_no_stream(
    spark: SparkSession, lake: Lake, by_spark: list[int], unforeseen: str
) -> None:
    line = Line(spark, lake, windows(COUNTS))
    send(line, 0, {})
    runner = line.runner._columnar
    assert runner._rows is not None
    names = runner._rows.names if unforeseen == "types" else ["other"]
    runner._rows = pa.schema([(name, pa.decimal128(3)) for name in names])
    for minute in (1, 30):
        send(line, minute, {})
    assert by_spark == [2, 3]
    assert [row["count"] for row in Views(spark, lake).read(line.node).orderBy("window_start").collect()] == [
        2,
        2,
    ]
