"""Streams are built step by step; every step is checked against the columns before it."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.description import Branch, Select, Stream, Transform, Where, WithColumn, parse_ddl
from tests.description.refusal import refused

pytestmark = pytest.mark.fast


def double(frame: object) -> object:
    return frame


def test_a_topic_is_a_stream_of_one_branch_without_steps(readings: hr.Topic) -> None:
    assert readings.stream == Stream((Branch(readings, ()),), readings.columns)
    assert readings.stream.topics == (readings,)


def test_steps_are_kept_in_order_and_the_stream_before_is_unchanged(readings: hr.Topic) -> None:
    before = readings.where("value > 0")
    after = before.with_column("twice", "value * 2").select("sensor_id", "twice AS t")
    assert before.branches[0].steps == (Where("value > 0"),)
    assert after.branches[0].steps == (
        Where("value > 0"),
        WithColumn("twice", "value * 2"),
        Select(("sensor_id", "twice AS t")),
    )
    assert after.columns == ("sensor_id", "t")


def test_equal_streams_are_equal_and_hash_alike(readings: hr.Topic) -> None:
    assert readings.where("value > 0") == readings.where("value > 0")
    assert len({readings.where("value > 0"), readings.where("value > 0"), readings.where("value > 1")}) == 2


def test_a_stream_cannot_be_changed(readings: hr.Topic) -> None:
    with pytest.raises(AttributeError):
        readings.stream.columns = ()  # type: ignore[misc]


def test_an_unknown_column_is_refused_with_those_there_are(readings: hr.Topic) -> None:
    with refused("where('valeu > 0')", "'valeu' does not exist", "sensor_id, value", "'value'"):
        readings.where("valeu > 0")
    with refused("select('nothing')", "'nothing' does not exist"):
        readings.select("nothing")
    with refused("with_column('a', 'b + 1')", "'b' does not exist"):
        readings.with_column("a", "b + 1")


def test_names_are_compared_without_case_as_spark_does(readings: hr.Topic) -> None:
    assert readings.where("VALUE > 0").columns == readings.columns


def test_a_column_selected_away_is_gone(readings: hr.Topic) -> None:
    with refused("'value' does not exist", "columns are sensor_id."):
        readings.select("sensor_id").where("value > 0")


@pytest.mark.parametrize(
    ("expressions", "parts"),
    [
        (("value + 1",), ("'value + 1' has no name", "value + 1 AS name")),
        (("value", "sensor_id AS Value"), ("'value' and 'Value' differ only in case",)),
        (("value", "value"), ("'value' occurs twice",)),
        (("value AS __v",), ("'__v' is reserved",)),
        ((), ("names no columns",)),
        ((5,), ("5 (int) is not an expression",)),
        ((["value"],), ("['value'] (list) is not an expression",)),
    ],
)
def test_a_wrong_select_is_refused(
    expressions: tuple[str, ...], parts: tuple[str, ...], readings: hr.Topic
) -> None:
    with refused("select", *parts):
        readings.select(*expressions)


def test_select_of_one_text_by_hand_is_refused() -> None:
    with refused("select", "'value'"):
        Select("value")  # type: ignore[arg-type]


def test_with_column_replaces_in_place_or_adds_at_the_end(readings: hr.Topic) -> None:
    stream = readings.select("sensor_id", "value", "small")
    assert stream.with_column("value", "value * 2").columns == ("sensor_id", "value", "small")
    assert stream.with_column("next", "value + 1").columns == ("sensor_id", "value", "small", "next")


@pytest.mark.parametrize("name", ["", None, 5])
def test_with_column_needs_a_name(name: object, readings: hr.Topic) -> None:
    with refused("with_column", "is not a column name"):
        readings.with_column(name, "value")  # type: ignore[arg-type]


def test_with_column_refuses_reserved_names_and_a_second_name(readings: hr.Topic) -> None:
    with refused("with_column", "'__x' is reserved"):
        readings.with_column("__x", "value")
    with refused("with_column('a')", "'value AS b' names a column", "Leave out"):
        readings.with_column("a", "value AS b")


def test_a_condition_names_no_column(readings: hr.Topic) -> None:
    with refused("where", "'value > 0 AS positive'", "Leave out"):
        readings.where("value > 0 AS positive")


def test_a_transform_with_declared_columns_goes_on_with_them(readings: hr.Topic) -> None:
    stream = readings.transform(double, columns="sensor_id STRING, twice DOUBLE")
    assert stream.columns == ("sensor_id", "twice")
    assert stream.branches[0].steps == (Transform(double, parse_ddl("sensor_id STRING, twice DOUBLE", "x")),)
    with refused("'value' does not exist"):
        stream.where("value > 0")


def test_after_a_transform_without_columns_names_are_not_checked(readings: hr.Topic) -> None:
    stream = readings.transform(double)
    assert stream.columns is None
    assert stream.where("anything > 0").with_column("a", "b").columns is None
    assert stream.select("a", "b + 1 AS c").columns == ("a", "c")


def test_a_transform_needs_a_function(readings: hr.Topic) -> None:
    with refused("transform", "'double' is not a function"):
        readings.transform("double")  # type: ignore[arg-type]
    with refused("transform: columns", "unknown type"):
        readings.transform(double, columns="a STRNG")


def test_merge_takes_streams_with_the_same_columns_in_any_order() -> None:
    left = hr.Topic("left", key="id STRING", value="value INT")
    right = hr.Topic("right", value="value INT, id STRING")
    merged = left.merge(right)
    assert merged.columns == ("id", "value")
    assert merged.topics == (left, right)
    filtered = merged.where("value > 0")
    assert [branch.steps for branch in filtered.branches] == [(Where("value > 0"),)] * 2


def test_merge_refuses_other_columns_and_names_them() -> None:
    left, right = hr.Topic("l", value="a INT, b INT"), hr.Topic("r", value="b INT, c INT")
    with refused("merge", "only the left has a", "only the right has c", ".select("):
        left.merge(right)


def test_merge_refuses_the_same_name_with_another_type() -> None:
    left, right = hr.Topic("l", value="a INT"), hr.Topic("r", value="a STRING")
    with refused("merge", "column 'a' is INT on the left and STRING on the right", "CAST(a AS INT)"):
        left.merge(right)
    assert left.merge(right.with_column("a", "CAST(a AS INT)")).columns == ("a",)


def test_branches_of_one_topic_are_merged_by_a_step_of_their_own(readings: hr.Topic) -> None:
    low, high = (readings.where(f"value {sign} 0").select("sensor_id", "value") for sign in "<>")
    merged = low.with_column("value", "-value").merge(high)
    (topic,) = merged.topics
    assert merged.columns == ("sensor_id", "value")
    assert topic.has_one_partition
    assert merged.group_by().by == ("sensor_id",)
    step = topic.written_by  # type: ignore[attr-defined]
    assert step.required_name.startswith("unnamed_")
    assert step.in_words == "One row per record of readings and side that lets it pass."
    again = low.with_column("value", "-value").merge(high)
    assert again.topics == merged.topics
    with refused("merge: a transform leaves the columns unknown"):
        readings.transform(lambda rows: rows).merge(readings)


def test_merge_refuses_what_is_no_stream(readings: hr.Topic) -> None:
    with refused("merge", "'other' is neither a topic nor a stream"):
        readings.merge("other")  # type: ignore[arg-type]


def test_merge_with_unknown_columns_leaves_them_unknown(readings: hr.Topic) -> None:
    assert readings.merge(hr.Topic("other", value="a INT").transform(double)).columns is None


def test_branch_sends_each_record_to_the_first_condition_that_is_true(readings: hr.Topic) -> None:
    conditions = [
        branch.branches[0].steps for branch in readings.branch("value > 9 -- big", "value > 0", "true")
    ]
    big = "coalesce((value > 9 -- big\n), false)"
    assert conditions == [
        (Where("(value > 9 -- big\n)"),),
        (Where(f"NOT {big} AND (value > 0)"),),
        (Where(f"NOT {big} AND NOT coalesce((value > 0), false) AND (true)"),),
    ]


def test_branch_names_the_condition_that_is_wrong(readings: hr.Topic) -> None:
    with refused("branch('valeu > 0')", "'valeu' does not exist"):
        readings.branch("value > 0", "valeu > 0")
    with refused("branch", "near '>'"):
        readings.branch("value >")
    with refused("branch: no predicates"):
        readings.branch()


def test_a_stream_of_nothing_is_refused() -> None:
    with refused("no branches", "hr.Topic"):
        Stream((), ())
