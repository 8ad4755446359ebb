"""Descriptions of previous values: columns, types, words, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr

pytestmark = pytest.mark.fast

METERS = hr.Topic(
    "meters", key="meter STRING", value="litres INT, flow FLOAT, price DECIMAL(9,2), place STRING"
)
GROUPED = METERS.group_by("meter")


def test_new_columns_have_the_types_of_those_that_they_are_of() -> None:
    node = GROUPED.with_previous(
        before="place", used=hr.increase("litres"), flown=hr.increase("FLOW"), paid=hr.increase("price")
    )
    types = {column.name: column.type for column in node.result_columns}
    assert [*types] == ["meter", "litres", "flow", "price", "place", "before", "used", "flown", "paid"]
    assert [*types.values()][5:] == ["STRING", "INT", "DOUBLE", "DECIMAL(9,2)"]
    assert node.key == ("meter",)


def test_a_description_says_what_is_new() -> None:
    node = GROUPED.with_previous(before="litres", used=hr.increase("litres"), order="time", grace="1 minute")
    words = "before = litres of the record before, used = increase of litres, by meter"
    assert node.in_words == f"One row for each record, with {words}, in the order of time, grace 1 minute."
    assert words in str(hr.describe(node.named("used")))


def test_a_group_may_have_a_column_that_is_called_as_the_store() -> None:
    topic = hr.Topic("t", key="previous STRING", value="n INT")
    assert topic.group_by("previous").with_previous(before="n").stores[0].columns[0].name == "previous_"


def test_the_fingerprint_follows_the_columns() -> None:
    one = GROUPED.with_previous(before="litres").named("n")
    assert one.fingerprint() == GROUPED.with_previous(before="litres").named("n").fingerprint()
    assert one.fingerprint() != GROUPED.with_previous(before="place").named("n").fingerprint()
    assert one.fingerprint() != GROUPED.with_previous(before=hr.increase("litres")).named("n").fingerprint()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({}, "with_previous: there is no column"),
        ({"before": "litre"}, "column 'litre' does not exist"),
        ({"litres": "litres"}, "'litres' occurs twice"),
        ({"before": 3}, "before 3 (int) is neither a column nor an increase"),
        (
            {"before": hr.increase("place")},
            "before is the increase of 'place', which is STRING, and no number",
        ),
        ({"before": "litres", "grace": "1 minute"}, "only order='time' waits for records"),
    ],
)
def test_what_does_not_fit_is_refused(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(hr.DescriptionError) as refused:
        GROUPED.with_previous(**columns)
    assert says in str(refused.value)


def test_an_increase_is_no_aggregate() -> None:
    with pytest.raises(hr.DescriptionError, match="aggregate: used is the increase of 'litres'") as refused:
        GROUPED.aggregate(used=hr.increase("litres"))  # type: ignore[arg-type]
    assert ".with_previous(used=hr.increase('litres'))" in str(refused.value)


def test_a_stream_is_grouped_first() -> None:
    with pytest.raises(hr.DescriptionError, match="Group first"):
        METERS.with_previous(before="litres")  # type: ignore[attr-defined]
