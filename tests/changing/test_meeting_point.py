"""How far a rebuild reads: as far as the tables that it replaces, whatever their logs are called. No Spark, and no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.lake import small_files
from headrace.lake.paths import Lake
from headrace.lifecycle.rebuilds.meeting_point import (
    drop_standing,
    is_behind,
    is_beyond,
    keep_standing,
    meeting_point,
    standing,
)
from headrace.nodes.progress import Progress
from tests.changing.held import hold

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
FINALS: Any = (
    READINGS.group_by("sensor_id")
    .window(hr.tumbling("1 minute"), grace="0 s")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("finals")
)


def test_a_log_is_read_as_far_as_the_tables_before_have_read_it_under_any_generation() -> None:
    before = {"readings": 20, "finals@aa": 20}
    assert meeting_point(before, ["readings", "finals@bb"]) == {"readings": 20, "finals@bb": 20}
    assert not is_behind(before, {"readings": 20, "finals@bb": 20}, ["readings", "finals@bb"])
    assert is_behind(before, {"readings": 20, "finals@bb": 19}, ["readings", "finals@bb"])


def test_a_log_that_was_not_read_before_is_read_as_far_as_the_others() -> None:
    before = {"a": 20, "b": 20}
    assert meeting_point(before, ["a", "c"]) == {"a": 20, "c": 20}
    assert not is_behind(before, {"a": 20, "c": 20}, ["a", "c"])
    assert is_behind(before, {"a": 20, "c": 19}, ["a", "c"]), "for a log that is gone the new ones stand"


def test_a_log_that_is_not_read_any_more_keeps_nothing_waiting() -> None:
    before = {"a": 20, "b": 20}
    assert meeting_point(before, ["a"]) == {"a": 20}
    assert not is_behind(before, {"a": 20}, ["a"])
    assert is_behind(before, {"a": 19}, ["a"])
    assert is_behind(before, {}, ["a"]), "nothing was read so far"


def test_a_node_that_has_gone_back_is_beyond_its_rebuild() -> None:
    point = meeting_point({"a": 20, "b": 20}, ["a", "b"])
    assert not is_beyond(point, {"a": 20, "b": 20})
    assert is_beyond(point, {"a": 20, "b": 21})


PLAN = {"after_ms": {"readings": 20}, "upto_ms": {"readings": 30}}


@pytest.mark.parametrize(("results", "planned", "reached"), [(8, 8, 30), (7, 8, 20), (8, 7, 20), (9, 8, 20)])
def test_a_micro_batch_whose_results_were_written_counts_though_its_state_was_not(
    tmp_path: Path, results: int, planned: int, reached: int
) -> None:
    lake = Lake(f"file:{tmp_path}")
    assert standing(lake, FINALS) is None
    hold(lake, FINALS, progress=Progress(batch=7, upto_ms={"readings": 20}))
    assert standing(lake, FINALS) == {"readings": 20}
    small_files.write_json(lake.plan("finals"), PLAN | {"batch": planned})
    writer = lakes.TableWriter(lakes.open_table(lake.table("finals")), lakes.APPENDER)
    writer.append([], {"writer": "node/finals", "batch": results})
    assert standing(lake, FINALS) == {"readings": reached}
    keep_standing(lake, FINALS)
    small_files.delete(lake.plan("finals"))  # as a swap does, which may be broken off then
    assert standing(lake, FINALS) == {"readings": reached}
    drop_standing(lake, FINALS)
    assert standing(lake, FINALS) == {"readings": 20}
