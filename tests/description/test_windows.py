"""Windows, aggregates and suppression are values with checked contents."""

from __future__ import annotations

from datetime import timedelta

import pytest

import headrace as hr
from headrace.description import Aggregate, Stream
from tests.description.refusal import refused

pytestmark = pytest.mark.fast


def test_tumbling_windows_follow_one_another() -> None:
    assert hr.tumbling("2 minutes") == hr.TimeWindows(120_000, 120_000)
    assert hash(hr.tumbling(timedelta(minutes=2))) == hash(hr.tumbling("120 seconds"))


def test_hopping_windows_start_every_advance() -> None:
    assert hr.hopping("2 minutes", advance="30 seconds") == hr.TimeWindows(120_000, 30_000)


def test_an_advance_longer_than_the_size_is_refused() -> None:
    with refused("advance", "2 minutes", "1 minute", "at most size"):
        hr.hopping("1 minute", advance="2 minutes")


def test_windows_of_no_length_are_refused() -> None:
    with refused("window size: 0 ms", "'1 ms'"):
        hr.tumbling("0 seconds")
    with refused("window advance: 0 ms", "'1 ms'"):
        hr.hopping("1 minute", "0 ms")
    with refused("window size", "negative"):
        hr.TimeWindows(-1, 1)
    with refused("window size", "'2 minuts'"):
        hr.tumbling("2 minuts")


def test_aggregates_keep_kind_column_and_scale() -> None:
    assert hr.count() == Aggregate("count", None, 0)
    assert hr.count("value") == Aggregate("count", "value", 0)
    assert hr.sum("value") == Aggregate("sum", "value", 6)
    assert hr.avg("value", scale=2) == Aggregate("avg", "value", 2)
    assert hr.min("value") == Aggregate("min", "value", 0)
    assert hr.max("value") == Aggregate("max", "value", 0)


@pytest.mark.parametrize("scale", [-1, 13, 1.5, "6", None, True])
def test_a_scale_outside_0_to_12_is_refused(scale: object) -> None:
    with refused("sum: scale", "from 0 to 12"):
        hr.sum("value", scale=scale)  # type: ignore[arg-type]


@pytest.mark.parametrize("column", [None, "", 5])
def test_an_aggregate_needs_a_column(column: object) -> None:
    with refused("max", "is not a column name", "hr.max('value')"):
        hr.max(column)  # type: ignore[arg-type]


def test_an_unknown_kind_is_refused() -> None:
    with refused(
        "unknown kind 'median'", "count, sum, avg, variance, stddev, min, max, first, last, collect"
    ):
        Aggregate("median", "value", 0)


def test_policies_and_aggregates_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        hr.sum("value").scale = 3  # type: ignore[misc]
    assert hr.until_window_closes() == hr.UntilWindowCloses()
    assert hash(hr.until_window_closes()) == hash(hr.UntilWindowCloses())


def test_sessions_have_a_gap_and_both_bounds_are_in_their_identity() -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="value DOUBLE")
    node = topic.group_by().window(hr.session("5 minutes"), grace="1 minute").aggregate(n=hr.count())
    assert hr.session("5 minutes") == hr.SessionWindows(300_000)
    assert node.columns == ("sensor", "window_start", "window_end", "n")
    assert node.key == ("sensor", "window_start", "window_end")
    assert node.longest_wait_ms == 360_000
    assert node.in_words == (
        "One row per sensor and session (gap 5 minutes), final 6 minutes of stream time after the window's end."
    )
    with refused("session gap: 0 ms", "'1 ms'"):
        hr.session("0 ms")
    assert node.fingerprint() != node.named("other").suppress(hr.until_window_closes()).fingerprint()


def test_sessions_are_refused_where_a_group_may_lie_in_several_partitions() -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="site STRING, value DOUBLE")
    other = hr.Topic("others", key="sensor STRING", value="site STRING, value DOUBLE")
    keyless = hr.Topic("keyless", value="site STRING")
    hint = "needs every record of a group in one: write .key_by('"

    def sessions(stream: hr.Topic | Stream, *by: str) -> None:
        stream.group_by(*by).window(hr.session("5 minutes"), grace="0 ms")

    sessions(topic.where("value > 0").with_column("double", "2 * value").select("sensor AS sensor", "double"))
    with refused("grouped by site, but topic 'readings' is keyed by sensor", hint):
        sessions(topic, "site")
    with refused("grouped by sensor, site, but topic 'readings' is keyed by sensor", hint):
        sessions(topic, "sensor", "site")
    with refused("grouped by site, but topic 'keyless' has no key", hint):
        sessions(keyless, "site")
    with refused("the stream has several topics, readings, others", hint):
        sessions(topic.merge(other))
    with refused("key column 'sensor' is replaced on the way", hint):
        sessions(topic.with_column("sensor", "upper(sensor)"))
    sessions(topic.key_by("site"))
    sessions(topic.merge(other).key_by("site", "sensor"), "site")
    sessions(keyless.key_by("site"), "site")
    with refused("key column 'sensor' is replaced on the way", hint):
        sessions(topic.select("site AS sensor", "value"))


def test_sliding_windows_have_a_length_and_may_be_regrouped() -> None:
    topic = hr.Topic("readings", key="sensor STRING", value="site STRING, value DOUBLE")
    node = topic.group_by("site").window(hr.sliding("2 seconds"), grace="1 second").aggregate(n=hr.count())
    assert hr.sliding("2 seconds") == hr.SlidingWindows(2_000)
    assert node.key == ("site", "window_start")
    assert node.longest_wait_ms == 3_000
    assert node.in_words == (
        "One row per site and sliding window of 2 seconds, final 1 second of stream time after the window's end."
    )
    with refused("time difference: 0 ms", "'1 ms'"):
        hr.sliding("0 ms")
