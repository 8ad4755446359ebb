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
