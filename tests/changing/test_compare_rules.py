"""What changed between two descriptions, told by their rules: a matrix of changes and operators, as reviewed.

`pytest tests/changing --snapshot-update` takes the snapshot anew; read its diff.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.description import spark_steps
from headrace.description.topology import steps_by_spark
from headrace.nodes.descriptions.compare_rules import Changes, compare_rules

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from headrace.description import Node

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="place STRING, value DOUBLE, unit STRING")
SENSORS = hr.Topic("sensors", key="sensor_id STRING", value="room STRING, floor INT")
ROOMS = hr.Topic("rooms", key="room STRING", value="area DOUBLE")
N, TOTAL = hr.count(), hr.sum("value")
LIMIT = hr.until_time_limit("5 minutes")


def add_one(frame: Any) -> Any:
    return frame + 1


def windows(size: str = "2 minutes", grace: str = "1 minute", **aggregates: Any) -> Any:
    grouped = READINGS.group_by("sensor_id").window(hr.tumbling(size), grace=grace)
    return grouped.aggregate(**(aggregates or {"n": N, "total": TOTAL}))


def totals(**aggregates: Any) -> Any:
    return READINGS.group_by("sensor_id").aggregate(**(aggregates or {"n": N}))


def batches(max_records: int = 10, max_wait: str = "1 minute") -> Any:
    return READINGS.group_by("sensor_id").batch(max_records=max_records, max_wait=max_wait, collect=["value"])


def finals(grace: str = "1 minute") -> Any:
    return windows(grace=grace).suppress(hr.until_window_closes()).named("finals")


def joined(other: str = "left", select: tuple[str, ...] | None = None) -> Any:
    return SENSORS.table().join(ROOMS.table(), on="room", how=other)


CHANGES: dict[str, tuple[Any, Any]] = {
    "windows: an aggregate is added": (windows(), windows(n=N, total=TOTAL, top=hr.max("value"))),
    "windows: an aggregate is removed": (windows(), windows(n=N)),
    "windows: an aggregate is another one": (windows(), windows(n=N, total=hr.sum("value", scale=2))),
    "windows: an aggregate is renamed": (windows(), windows(n=N, sum_of_values=TOTAL)),
    "windows: the columns change places": (windows(), windows(total=TOTAL, n=N)),
    "windows: size": (windows(), windows("5 minutes")),
    "windows: grace": (windows(), windows(grace="2 minutes")),
    "windows: tumbling to session": (
        windows(),
        READINGS.group_by("sensor_id")
        .window(hr.session("5 minutes"), grace="1 minute")
        .aggregate(n=N, total=TOTAL),
    ),
    "windows: by the wall clock": (
        windows(grace="0 s"),
        READINGS.group_by("sensor_id")
        .window(hr.tumbling("2 minutes"), clock="wall")
        .aggregate(n=N, total=TOTAL),
    ),
    "windows: groups": (
        windows(),
        READINGS.group_by("place")
        .window(hr.tumbling("2 minutes"), grace="1 minute")
        .aggregate(n=N, total=TOTAL),
    ),
    "windows: a filter is added": (
        totals(),
        READINGS.where("value > 0").group_by("sensor_id").aggregate(n=N),
    ),
    "windows: final results": (windows(), windows().suppress(hr.until_window_closes())),
    "windows: a time limit is added": (windows(), windows().suppress(LIMIT)),
    "windows: to totals": (windows(), totals(n=N, total=TOTAL)),
    "totals: an aggregate is added": (totals(), totals(n=N, total=TOTAL)),
    "totals: another time limit": (
        totals().suppress(LIMIT),
        totals().suppress(hr.until_time_limit("1 hour")),
    ),
    "totals: the filter is another one": (
        READINGS.where("value > 0").group_by("sensor_id").aggregate(n=N),
        READINGS.where("value > 1").group_by("sensor_id").aggregate(n=N),
    ),
    "totals: a second topic": (
        READINGS.select("sensor_id", "value").group_by("sensor_id").aggregate(n=N),
        READINGS.select("sensor_id", "value")
        .merge(replace(READINGS, name="old_readings").select("sensor_id", "value"))
        .group_by("sensor_id")
        .aggregate(n=N),
    ),
    "totals: a transform": (
        READINGS.transform(add_one, "sensor_id STRING, value DOUBLE").group_by("sensor_id").aggregate(n=N),
        READINGS.transform(add_one, "sensor_id STRING, value INT").group_by("sensor_id").aggregate(n=N),
    ),
    "table: a condition": (READINGS.table(), READINGS.table().where("value > 0")),
    "table: its order": (READINGS.table(), READINGS.table(order_by="timestamp")),
    "table: a column of the topic": (
        READINGS.table(),
        replace(READINGS, value="place STRING, value DOUBLE").table(),
    ),
    "groups of a table: an aggregate": (
        SENSORS.table().group_by("floor").aggregate(n=N),
        SENSORS.table().group_by("floor").aggregate(n=N, rooms=hr.count_distinct("room")),
    ),
    "join: its kind": (joined("left"), joined("inner")),
    "batches: their bounds": (batches(), batches(20, "2 minutes")),
    "a named stream: a column": (
        READINGS.select("sensor_id", "value").named("rows"),
        READINGS.select("sensor_id", "value * 2 AS value").named("rows"),
    ),
    "groups of windows: an aggregate of the windows": (
        windows(n=N).suppress(hr.until_window_closes()).group_by("window_start").aggregate(sensors=N),
        windows(n=N, low=hr.min("value"))
        .suppress(hr.until_window_closes())
        .group_by("window_start")
        .aggregate(sensors=N),
    ),
    "a reader of a node follows it": (
        finals().where("n < 4").named("quiet"),
        finals("2 minutes").where("n < 4").named("quiet"),
    ),
    "a reader follows, and changes itself": (
        finals().where("n < 4").named("quiet"),
        finals("2 minutes").where("n < 5").named("quiet"),
    ),
    "a chain: the step without a name changes": (
        windows().suppress(hr.until_window_closes()).where("n < 4").named("quiet"),
        windows(grace="2 minutes").suppress(hr.until_window_closes()).where("n < 4").named("quiet"),
    ),
}


def test_each_change_is_told_as_reviewed(snapshot: SnapshotAssertion) -> None:
    assert {
        what: [*compare_rules(a.rules(), b.rules()).lines] for what, (a, b) in CHANGES.items()
    } == snapshot


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_told_both_ways_and_no_change_is_none(what: str) -> None:
    one, other = CHANGES[what]
    assert one.fingerprint() != other.fingerprint()
    for before, after in ((one, other), (other, one)):
        assert compare_rules(before.rules(), after.rules()).any
    assert compare_rules(one.rules(), one.rules()) == Changes()


def test_rules_that_a_lake_holds_in_the_order_of_their_names_are_the_same_rules() -> None:
    top = {"best": hr.top(3, "place", by="value")}
    stored = json.loads(json.dumps(totals(**top).rules(), sort_keys=True))
    assert (
        [*compare_rules(stored, totals(**top, n=N).rules()).lines]
        == [
            "+ n = count()"  # before: also "~ best: top(place, by=value, max_items=3) -> top(place, max_items=3, by=value)"
        ]
    )


def test_code_that_changed_is_told() -> None:
    def other(frame: Any) -> Any:
        return frame + 2

    def of(function: Any) -> Node:
        return READINGS.transform(function, "sensor_id STRING").group_by("sensor_id").aggregate(n=N)

    other.__qualname__ = add_one.__qualname__
    assert compare_rules(of(add_one).rules(), of(other).rules()).others == (
        "step changed: transform add_one, with other code or columns",
    )


def test_another_version_of_spark_changes_only_what_only_spark_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def described() -> list[Node]:
        pages = hr.Topic("pages", key="k STRING", value="url STRING, words INT")
        sites = hr.Topic("sites", key="k STRING", value="label STRING")
        rows = pages.table()
        select = ("k", "regexp_replace(right.label, 'a', 'b') AS label")
        return [
            pages.where("words > 3").select("k", "upper(url) AS url").named("covered"),
            rows.where("url RLIKE '/a+'").select("initcap(url) AS title").where("k > 'a'").named("titles"),
            rows.join(sites.table(), on="k", select=select).named("joined"),
        ]

    before = [json.loads(json.dumps(node.rules())) for node in described()]
    monkeypatch.setattr(spark_steps, "spark_version", lambda: "9.9.9")
    after = [node.rules() for node in described()]
    covered, titles, joined = (compare_rules(*both).others for both in zip(before, after, strict=True))
    assert covered == ()
    step, now = "select initcap(url) AS title", spark_steps.BASELINE
    assert titles == (
        f"url RLIKE '/a+': computed by Spark {now} -> 9.9.9",
        f"{step}: computed by Spark {now} -> 9.9.9",
    )
    assert joined == ("computed by Spark: none -> 9.9.9",)
    names = ["where url RLIKE '/a+'", step]
    selects = ["select k, regexp_replace(right.label, 'a', 'b') AS label"]
    assert [[*steps_by_spark(node)] for node in described()] == [[], names, selects]
    assert all(
        str(hr.describe(node)).count("(by Spark)") == len(steps_by_spark(node)) for node in described()
    )


def test_rules_without_a_version_are_of_the_version_that_runs() -> None:
    assert version("pyspark") == spark_steps.BASELINE, (
        "compare what is covered anew (tests/expressions), also after tables"
    )
