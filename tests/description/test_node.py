"""A windowed aggregate is checked when it is built, against what is known of its stream."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

import headrace as hr
from headrace.description import GroupedStream, WindowedAggregate, WindowedStream
from tests.description.refusal import refused

pytestmark = pytest.mark.fast


def windowed(topic: hr.Topic, *by: str, grace: Any = "2 minutes") -> WindowedStream:
    return topic.group_by(*by).window(hr.tumbling("2 minutes"), grace=grace)


def counts(topic: hr.Topic) -> WindowedAggregate:
    return windowed(topic).aggregate(n=hr.count(), total=hr.sum("value"))


def test_the_pipeline_of_the_design_is_described_as_it_is_written(readings: hr.Topic) -> None:
    node = (
        readings.where("value >= 0")
        .group_by("sensor_id")
        .window(hr.tumbling("2 minutes"), grace="2 minutes")
        .aggregate(n=hr.count(), total=hr.sum("value"))
        .suppress(hr.until_window_closes())
        .named("reading_counts", description="Counts.", owners=("team:data", "ann@example.com"))
    )
    assert node.columns == ("sensor_id", "window_start", "window_end", "n", "total")
    assert (node.by, node.window, node.grace_ms) == (("sensor_id",), hr.tumbling("2 minutes"), 120_000)
    assert node.aggregates == (("n", hr.count()), ("total", hr.sum("value")))
    assert (node.topics, node.longest_wait_ms) == ((readings,), 240_000)
    assert node.suppression == hr.until_window_closes()
    assert (node.required_name, node.description, node.owners) == (
        "reading_counts",
        "Counts.",
        ("team:data", "ann@example.com"),
    )


def test_equal_nodes_are_equal_hash_alike_and_travel(readings: hr.Topic) -> None:
    assert counts(readings) == counts(readings)
    assert hash(counts(readings)) == hash(counts(readings))
    assert pickle.loads(pickle.dumps(counts(readings))) == counts(readings)


def test_a_node_cannot_be_changed(readings: hr.Topic) -> None:
    node = counts(readings)
    with pytest.raises(dataclasses.FrozenInstanceError):
        node.grace_ms = 0  # type: ignore[misc]
    assert node.named("a").name == "a"
    assert node.name is None


def test_grouping_defaults_to_the_record_key() -> None:
    topic = hr.Topic("t", key="b STRING, a INT", value="c INT")
    assert topic.group_by().by == ("b", "a")
    assert topic.where("c > 0").group_by("A").by == ("a",)


def test_grouping_by_the_key_needs_a_key() -> None:
    with refused("group_by: topic 't' has no key", ".group_by('…')"):
        hr.Topic("t", value="a INT").group_by()


def test_grouping_by_a_key_that_was_selected_away_is_refused(readings: hr.Topic) -> None:
    with refused("group_by: key column 'sensor_id' is gone", "columns are value", "Keep it in .select"):
        readings.select("value").group_by()


def test_grouping_by_different_keys_is_refused() -> None:
    merged = hr.Topic("l", key="a INT", value="b INT").merge(hr.Topic("r", key="b INT", value="a INT"))
    with refused("group_by", "'l' by a; 'r' by b"):
        merged.group_by()
    assert merged.group_by("a").by == ("a",)


@pytest.mark.parametrize(
    ("by", "parts"),
    [
        (("sensorid",), ("'sensorid' does not exist", "Did you mean 'sensor_id'?")),
        (("address.city",), ("'address.city' does not exist", ".with_column('name', 'address.city')")),
        (("value", "VALUE"), ("'value' occurs twice",)),
        ((["sensor_id"],), ("['sensor_id'] (list)", ".group_by('sensor_id', 'site')")),
        (("",), ("'' is not a column name",)),
        (("labels",), ("MAP<STRING, STRING>", "cannot be compared")),
    ],
)
def test_wrong_grouping_columns_are_refused(
    by: tuple[Any, ...], parts: tuple[str, ...], readings: hr.Topic
) -> None:
    with refused("group_by", *parts):
        readings.group_by(*by)


def test_grouping_by_nothing_is_refused(readings: hr.Topic) -> None:
    with refused("group_by: no columns"):
        GroupedStream(readings.stream, ())


@pytest.mark.parametrize(
    ("grace", "parts"),
    [
        ("-1 second", ("grace: '-1 second' is negative", "'0 seconds'")),
        ("soon", ("grace: 'soon' is not a duration",)),
        (None, ("grace is missing", "grace='2 minutes'")),
        (1.5, ("grace: 1.5 (float) is not a duration",)),
    ],
)
def test_a_wrong_grace_is_refused(grace: object, parts: tuple[str, ...], readings: hr.Topic) -> None:
    with refused(*parts):
        windowed(readings, grace=grace)


def test_no_grace_is_said_as_zero(readings: hr.Topic) -> None:
    assert windowed(readings, grace="0 seconds").grace_ms == 0


@pytest.mark.parametrize("window", ["2 minutes", None, hr.tumbling])
def test_what_is_no_window_is_refused(window: Any, readings: hr.Topic) -> None:
    with refused("is no window", "hr.tumbling('2 minutes')"):
        readings.group_by().window(window, grace="0 seconds")


@pytest.mark.parametrize(
    ("aggregates", "parts"),
    [
        ({}, ("nothing to compute", "hr.count()")),
        ({"n": "count"}, ("n='count' is no aggregate", "n=hr.count()")),
        ({"n": hr.count}, ("is no aggregate", "n=hr.count()")),
        (
            {"t": hr.sum("valeu")},
            ("t=sum('valeu')", "'valeu' does not exist", "sensor_id, value", "'value'?"),
        ),
        ({"t": hr.max("address.citty")}, ("t=max(address.citty)", "citty", "'city'")),
        (
            {"t": hr.sum("sensor_id")},
            ("'sensor_id' is STRING, not a number", "try_cast(sensor_id AS DOUBLE)"),
        ),
        (  # before: the cast of a STRUCT to DOUBLE, which Spark refuses
            {"t": hr.sum("address")},
            ("'address' is STRUCT", 'Aggregate a number in it, such as hr.sum("address.city").'),
        ),
        ({"t": hr.avg("seen_at")}, ("'seen_at' is TIMESTAMP, not a number",)),
        ({"t": hr.max("labels")}, ("'labels' is MAP<STRING, STRING>", "no order")),
        ({"sensor_id": hr.count()}, ("'sensor_id' is an output column already",)),
        ({"window_start": hr.count()}, ("'window_start' is an output column already", "another name")),
        ({"Window_End": hr.count()}, ("'Window_End' is an output column already",)),
        ({"n": hr.count(), "N": hr.count()}, ("'N' is an output column already",)),
        ({"__n": hr.count()}, ("'__n' is reserved",)),
    ],
)
def test_wrong_aggregates_are_refused(
    aggregates: dict[str, Any], parts: tuple[str, ...], readings: hr.Topic
) -> None:
    with refused("aggregate", *parts):
        windowed(readings).aggregate(**aggregates)


def test_grouping_by_a_column_named_like_a_window_bound_is_refused() -> None:
    topic = hr.Topic("t", value="window_start INT")
    with refused("group_by: 'window_start'", ".with_column("):
        windowed(topic, "window_start").aggregate(n=hr.count())


def test_numbers_of_every_kind_can_be_summed_and_anything_counted(readings: hr.Topic) -> None:
    node = windowed(readings).aggregate(
        a=hr.sum("small"), b=hr.avg("VALUE"), c=hr.count("labels"), d=hr.max("seen_at"), e=hr.min("sensor_id")
    )
    assert dict(node.aggregates)["b"] == hr.avg("value")


def test_a_type_follows_a_column_that_is_merely_repeated(readings: hr.Topic) -> None:
    renamed = readings.select("sensor_id", "sensor_id AS name", "value + 1 AS more")
    with refused("'name' is STRING, not a number"):
        windowed(renamed, "sensor_id").aggregate(t=hr.sum("name"))  # type: ignore[arg-type]
    assert windowed(renamed, "sensor_id").aggregate(t=hr.sum("more"))  # type: ignore[arg-type]


def test_a_replaced_column_has_no_known_type(readings: hr.Topic) -> None:
    numbers = readings.with_column("sensor_id", "CAST(sensor_id AS INT)")
    assert numbers.group_by("sensor_id").window(hr.tumbling("1 ms"), "1 ms").aggregate(t=hr.sum("sensor_id"))


def test_after_a_transform_without_columns_names_are_left_to_the_run(readings: hr.Topic) -> None:
    stream = readings.transform(lambda frame: frame)
    node = stream.group_by("whatever").window(hr.tumbling("1 ms"), "1 ms").aggregate(t=hr.sum("any"))
    assert node.columns == ("whatever", "window_start", "window_end", "t")


def test_a_second_suppression_is_refused(readings: hr.Topic) -> None:
    once = counts(readings).suppress(hr.until_window_closes())
    with refused("suppressed already", "UntilWindowCloses", "Remove one"):
        once.suppress(hr.until_window_closes())


@pytest.mark.parametrize("policy", [None, "closed", hr.until_window_closes])
def test_what_is_no_policy_is_refused(policy: Any, readings: hr.Topic) -> None:
    with refused("suppress", "no policy", "hr.until_window_closes()"):
        counts(readings).suppress(policy)


@pytest.mark.parametrize(
    "name", ["", "Counts", "reading counts", "1st", "_a", "a_", "a__b", "a-b", "x" * 81, None, 5]
)
def test_a_name_is_lower_case_snake(name: Any, readings: hr.Topic) -> None:
    with refused("named", "lower-case", "at most 80 characters", ".named('reading_counts')"):
        counts(readings).named(name)


@pytest.mark.parametrize("name", ["a", "reading_counts", "counts_2m", "x" * 80])
def test_such_names_are_accepted(name: str, readings: hr.Topic) -> None:
    assert counts(readings).named(name).required_name == name


def test_a_node_without_a_name_says_so_when_one_is_needed(readings: hr.Topic) -> None:
    with refused("the node of sensor_id, window_start, window_end, n, total", ".named("):
        _ = counts(readings).required_name


@pytest.mark.parametrize(
    ("owners", "part"),
    [("ann", "'ann' is not a list"), (("ann",), "'ann' is neither"), ((5,), "5 (int)"), (None, "None")],
)
def test_owners_are_people_or_teams(owners: Any, part: str, readings: hr.Topic) -> None:
    with refused("owners", part):
        counts(readings).named("a", owners=owners)


def test_a_description_is_text(readings: hr.Topic) -> None:
    with refused("named: description 5 (int)"):
        counts(readings).named("a", description=5)  # type: ignore[arg-type]
