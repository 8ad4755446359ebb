"""A stream neither rebuilds nor goes on with a node from a log that another description of its topic has written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.rebuilds.rebuild import rebuild_due
from headrace.log.clock import ManualClock
from headrace.log.history.added_columns import require_added_columns
from headrace.log.history.raw_records import decoded_by
from headrace.nodes.descriptions.evolution import REFUSED, OtherDescriptionError
from headrace.nodes.node_tables import log_is_as_described, require_log_as_described
from headrace.sequence.log_state import LogState
from tests.changing.held import NO_SPARK, hold

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.description import Topic

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
KEPT = replace(READINGS, keep_raw=True)
AT: Topic = replace(KEPT, value="value DOUBLE, at BIGINT", timestamp="at")
RENAMED = replace(READINGS, value="celsius DOUBLE", renamed={"celsius": "value"})


def totals(topic: Topic, column: str) -> Any:
    return topic.group_by("sensor_id").aggregate(n=hr.sum(column)).named("totals", on_change="rebuild")


def decoded(lake: Lake, topic: Topic) -> None:
    """Let the log say that its records were read as a topic is described."""
    state = LogState(9, raw={"decoded": decoded_by(topic), "batch": 0})
    log = lakes.TableWriter(lakes.open_table(lake.log("readings")), lakes.APPENDER)
    log.append([], {"writer": "log/readings", "after": state.to_json()})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(f"file:{tmp_path}")


@pytest.mark.parametrize(("before", "now", "column"), [(KEPT, AT, "at"), (READINGS, RENAMED, "celsius")])
def test_a_stream_does_not_rebuild_a_node_before_its_log_is_written_again(
    lake: Lake, before: Topic, now: Topic, column: str
) -> None:
    """The node would be taken for that of the new log afterwards."""
    hold(lake, totals(before, "value"))
    decoded(lake, KEPT)
    assert log_is_as_described(lake, before)
    with pytest.raises(OtherDescriptionError, match="has to be written again") as refused:
        rebuild_due(NO_SPARK, totals(now, column), lake, ManualClock(0))
    assert refused.value.outcome == REFUSED


def test_nothing_is_appended_to_a_log_that_would_gain_nulls_where_a_value_is_described(lake: Lake) -> None:
    added = replace(READINGS, value="value DOUBLE, place STRING", added={"place": "hall"})
    log = lakes.open_table(lake.log("readings"))
    require_added_columns(log, added)  # there is no log yet
    hold(lake, totals(READINGS, "value"))
    assert not log_is_as_described(lake, added)
    with pytest.raises(TerminalError, match="no column place") as refused:
        require_added_columns(log, added)
    assert "headrace apply" in str(refused.value.hint)
    require_added_columns(log, replace(added, added={}))
    assert log_is_as_described(lake, replace(added, added={}))


def test_a_run_with_the_code_before_does_not_go_on_from_a_log_that_was_written_again(lake: Lake) -> None:
    hold(lake, totals(KEPT, "value"))
    require_log_as_described(lake, "totals", KEPT)
    decoded(lake, AT)
    with pytest.raises(TerminalError, match="was written by another description of the topic"):
        require_log_as_described(lake, "totals", KEPT)
    require_log_as_described(lake, "totals", AT)
    assert log_is_as_described(lake, replace(READINGS, name="others")), "there is no log yet"


@pytest.mark.parametrize(
    ("value", "fits"),
    [("value DOUBLE, more INT", True), ("more INT", False), ("celsius DOUBLE", False)],
)
def test_columns_may_come_and_not_stand_in_the_place_of_others(lake: Lake, value: str, fits: bool) -> None:
    """Read by their names, records would have nulls that they do not have."""
    hold(lake, totals(READINGS, "value"))
    assert log_is_as_described(lake, replace(READINGS, value=value)) is fits
