"""Named streams: what a name makes of a stream, and what cannot have one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from tests.description.refusal import refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor STRING", value="value INT")
LINES = hr.Topic("lines", value="text STRING")


def test_a_name_and_a_sink_may_come_in_either_order() -> None:
    sink = hr.KafkaSink("positive")
    stream = READINGS.where("value > 0")
    assert stream.to(sink).named("positive") == stream.named("positive").to(sink)
    assert stream.named("positive").columns == ("sensor", "value")


def test_a_row_is_told_by_the_record_key_if_the_steps_keep_it() -> None:
    assert READINGS.named("readings").key == ("sensor",)
    assert READINGS.select("value").named("values").key == ()
    assert READINGS.select("value").merge(LINES.select("length(text) AS value")).named("both").key == ()
    assert LINES.named("lines").key == ()


def test_a_name_changes_nothing_of_what_is_made_of_the_stream() -> None:
    stream = READINGS.where("value > 0")
    assert stream.named("positive").group_by("sensor").stream == stream


def test_columns_that_nobody_knows_are_refused() -> None:
    def odd(rows: DataFrame) -> DataFrame:
        return rows

    with refused("named", "a transform leaves the columns unknown"):
        READINGS.transform(odd).named("odd")


def test_rows_without_a_key_go_to_any_sink() -> None:
    assert LINES.to(hr.PostgresSink("lines")).named("lines").sinks
    assert LINES.to(hr.KafkaSink("others")).named("lines").sinks


def test_columns_mean_what_the_node_before_says_or_the_expression_that_makes_them() -> None:
    sales = hr.Topic("sales", key="shop STRING", value="price DOUBLE, buyer STRUCT<id: STRING>")
    windows = (
        sales.group_by("shop")
        .window(hr.tumbling("1 minute"), grace=0)
        .aggregate(n=hr.count(), top=hr.max("price"))
    )
    final = windows.suppress(hr.until_window_closes())
    node = final.with_column("rate", "top / n").select("shop AS store", "n", "rate").named("rates")
    assert {
        column.name: column.meaning for column in node.result_columns
    } == {  # before: "Of the record." each
        "store": "Grouped by this.",
        "n": "Number of records.",
        "rate": "top / n.",
    }
    assert node.in_words.startswith(
        "One row per shop and tumbling window"
    )  # before: "per record of a step without a name ("
    plain = sales.select("buyer.id AS id", "price").named("plain")
    assert [column.meaning for column in plain.result_columns] == ["buyer.id.", "Of the record."]
