"""A topic says what its records look like, and is checked when it is built."""

from __future__ import annotations

import dataclasses
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

import headrace as hr
from headrace.description import Column
from tests.description.refusal import refused

pytestmark = pytest.mark.fast


def topic(**settings: Any) -> hr.Topic:
    return hr.Topic(**{"name": "readings", "value": "value DOUBLE, at BIGINT, seen TIMESTAMP", **settings})


def test_columns_are_those_of_the_key_then_the_others_of_the_value() -> None:
    described = hr.Topic("t", key="b STRING, a INT", value="c DOUBLE, a INT, d STRING NOT NULL")
    assert described.columns == ("b", "a", "c", "d")
    assert described.key_columns == (Column("b", "STRING", True), Column("a", "INT", True))
    assert [column.name for column in described.value_columns] == ["c", "a", "d"]
    assert described.types["d"] == Column("d", "STRING", False)


def test_the_defaults_are_those_of_the_design() -> None:
    described = topic()
    assert (described.idle_timeout_ms, described.max_future_ms) == (60_000, 86_400_000)
    assert (described.start, described.format, described.key_columns) == ("earliest", "json", ())


@pytest.mark.parametrize(
    ("key", "is_scalar"),
    [
        (None, False),
        ("id STRING", True),
        ("id string not null", True),
        ("id INT", False),
        ("a STRING, b STRING", False),
    ],
)
def test_a_key_of_one_string_is_plain_text(key: str | None, is_scalar: bool) -> None:
    assert topic(key=key).scalar_key is is_scalar


def test_topics_are_equal_by_content() -> None:
    one = topic(key="id STRING", idle_timeout="60 seconds", options={"a": "1", "b": "2"})
    other = topic(key="`id`  string", idle_timeout=timedelta(minutes=1), options={"b": "2", "a": "1"})
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "others"},
        {"key": "id STRING"},
        {"value": "value FLOAT"},
        {"timestamp": "at"},
        {"start": "latest"},
        {"idle_timeout": None},
        {"max_future": "1 hour"},
        {"options": {"a": "1"}},
    ],
)
def test_topics_that_differ_anywhere_are_not_equal(changed: dict[str, Any]) -> None:
    assert topic(**changed) != topic()
    assert topic() != "readings"


def test_a_topic_cannot_be_changed() -> None:
    options = {"a": "1"}
    described = topic(options=options)
    options["a"] = "2"
    assert described.options["a"] == "1"
    with pytest.raises(dataclasses.FrozenInstanceError):
        described.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        described.options["a"] = "2"  # type: ignore[index]


def test_values_of_options_are_never_shown() -> None:
    shown = repr(topic(options={"sasl.jaas.config": "secret"}))
    assert "sasl.jaas.config" in shown
    assert "secret" not in shown
    with refused("options", "'sasl.password'", "int, not text"):
        topic(options={"sasl.password": 12345})


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"isolation.level": "read_uncommitted"}, "always read_committed"),
        ({"kafka.auto.offset.reset": "latest"}, "start='latest'"),
        ("a=b", "no mapping"),
        ({1: "x"}, "1 (int) is not the name of a setting"),
    ],
)
def test_options_that_cannot_be_set_are_refused(options: object, part: str) -> None:
    with refused("Topic 'readings': options", part):
        topic(options=options)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "x" * 250, None, 5])
def test_a_name_that_kafka_refuses_is_refused(name: object) -> None:
    with refused("Topic", "not a topic name", "1 to 249"):
        topic(name=name)


def test_names_that_kafka_accepts_are_accepted() -> None:
    assert [topic(name=name).name for name in ("a.b_C-1", "x" * 249)] == ["a.b_C-1", "x" * 249]


def test_another_format_is_refused_with_the_list() -> None:
    with refused("Topic 'readings'", "format 'avro'", "formats are json"):
        topic(format="avro")


def test_a_wrong_key_or_value_names_the_topic() -> None:
    with refused("Topic 'readings': key", "unknown type 'STRNG'"):
        topic(key="id STRNG")
    with refused("Topic 'readings': value", "'' is not a list of columns"):
        topic(value="")


@pytest.mark.parametrize(
    ("value", "shown"), [("id INT", "'id INT' in the value"), ("ID STRING", "'ID STRING' in the value")]
)
def test_a_name_in_key_and_value_is_one_column(value: str, shown: str) -> None:
    with refused("Topic 't'", "'id STRING' in the key", shown, "same spelling and type"):
        hr.Topic("t", key="id STRING", value=value)


@pytest.mark.parametrize("column", ["at", "seen"])
def test_event_time_is_a_bigint_or_timestamp_of_the_value(column: str) -> None:
    assert topic(timestamp=column).timestamp == column


def test_an_event_time_column_that_does_not_exist_is_refused() -> None:
    with refused("Topic 'readings'", "'sen' does not exist", "value, at, seen", "'seen'"):
        topic(timestamp="sen")
    with refused("'id' does not exist in the value"):
        topic(key="id BIGINT", timestamp="id")


def test_an_event_time_column_of_another_type_is_refused() -> None:
    with refused("Topic 'readings'", "'value' is DOUBLE", "TIMESTAMP, or BIGINT"):
        topic(timestamp="value")


@pytest.mark.parametrize(
    ("start", "normal", "ms"),
    [
        ("earliest", "earliest", None),
        ("Latest", "latest", None),
        ("2026-01-31T01:00:00+01:00", "2026-01-31T00:00:00.000Z", 1_769_817_600_000),
        ("2026-01-31T00:00:00Z", "2026-01-31T00:00:00.000Z", 1_769_817_600_000),
        (datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC), "1970-01-01T00:00:00.005Z", 5),
        (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "1970-01-01T00:00:00.000Z", 0),
    ],
)
def test_a_start_is_a_word_or_a_time(start: str | datetime, normal: str, ms: int | None) -> None:
    described = topic(start=start)
    assert (described.start, described.start_ms) == (normal, ms)


@pytest.mark.parametrize(
    ("start", "part"),
    [
        ("newest", "is not a start"),
        ("2026-01-31T00:00:00", "no time zone"),
        ("2026-01-31", "no time zone"),
        (datetime(2026, 1, 31), "no time zone"),
        ("1969-12-31T00:00:00Z", "before 1970"),
        (5, "is not a start"),
        (None, "is not a start"),
    ],
)
def test_another_start_is_refused(start: object, part: str) -> None:
    with refused("Topic 'readings': start", part, "'earliest'"):
        topic(start=start)


def test_wrong_durations_name_the_topic_and_the_setting() -> None:
    with refused("Topic 'readings': idle_timeout", "'1 minut'"):
        topic(idle_timeout="1 minut")
    with refused("Topic 'readings'", "idle_timeout '0 seconds' is too short", "None"):
        topic(idle_timeout="0 seconds")
    with refused("Topic 'readings': max_future", "None"):
        topic(max_future=None)


def test_without_idle_timeout_event_time_is_strict() -> None:
    assert topic(idle_timeout=None).idle_timeout_ms is None


def test_a_replay_guard_is_part_of_the_topic() -> None:
    guarded = topic(replay_guard=hr.ReplayGuard())
    assert guarded == topic(replay_guard=hr.ReplayGuard(header="source-chain", mode="monotone"))
    assert guarded != topic()
    assert guarded != topic(replay_guard=hr.ReplayGuard(mode="exact"))
    with refused("Topic 'readings': replay_guard", "'monotone'", "hr.ReplayGuard()"):
        topic(replay_guard="monotone")


def test_what_a_guard_cannot_be_is_said_with_the_fix() -> None:
    with refused("header ''", "source-chain"):
        hr.ReplayGuard(header="")
    with refused("mode 'exactly' does not exist", "monotone, exact"):
        hr.ReplayGuard(mode="exactly")
    with refused("max_gaps 5 (int)", "mode='exact'"):
        hr.ReplayGuard(max_gaps=5)
    for wrong in (0, True, "many"):
        with refused("max_gaps", "not a whole number above 0", "10,000"):
            hr.ReplayGuard(mode="exact", max_gaps=wrong)  # type: ignore[arg-type]
    assert (hr.ReplayGuard(mode="exact").gaps_max, hr.ReplayGuard(mode="exact", max_gaps=3).gaps_max) == (
        10_000,
        3,
    )


def test_a_new_column_may_hold_a_value_in_older_records() -> None:
    described = topic(
        value="place STRING, floor INT, share DECIMAL(5, 2), on BOOLEAN, day DATE, at TIMESTAMP, ratio DOUBLE",
        added={
            "place": "hall",
            "floor": -1,
            "share": Decimal("0.50"),
            "on": True,
            "day": date(2026, 11, 27),
            "at": datetime(2026, 11, 27, 12, 30, tzinfo=timezone(timedelta(hours=1))),
            "ratio": 1e-7,
        },
    )
    assert described.added_values == {
        "place": "hall",
        "floor": "-1",
        "share": "0.50",
        "on": "true",
        "day": "2026-11-27",
        "at": "2026-11-27 11:30:00.000000Z",
        "ratio": "1e-7",
    }
    assert described != dataclasses.replace(described, added={})


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"added": {"more": 1}}, ("added 'more' is no column of the value", "value, at, seen")),
        ({"added": {"at": "now"}}, ("added 'at': 'now' is no value of type BIGINT",)),
        ({"added": {"at": 1.5}}, ("no value of type BIGINT",)),
        ({"added": {"at": None}}, ("None is what an added column holds anyway",)),
        ({"value": "a ARRAY<INT>", "added": {"a": [1]}}, ("a column of type ARRAY<INT> cannot be filled",)),
        ({"added": {"at": 1}, "renamed": {"at": "time"}}, ("'at' is in both added and renamed",)),
        ({"added": {"at": 1}, "keep_raw": True}, ("with keep_raw=True", "coalesce")),
    ],
)
def test_what_cannot_be_filled_in_is_said(settings: dict[str, Any], parts: tuple[str, ...]) -> None:
    with refused("Topic 'readings'", *parts):
        topic(**settings)
