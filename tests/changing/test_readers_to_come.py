"""A log is cut before a node has read another one under its new name: it can be built all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.rename_node import rename_node
from headrace.lake import forget
from headrace.lifecycle.retention import Retention
from headrace.log.site import Site
from headrace.observe.local_views import LocalViews
from headrace.settings.kafka import KafkaSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Drive

T = hr.Topic("t", key="k STRING", value="v BIGINT", idle_timeout=None)


def pipeline(name: str, **more: Any) -> list[Any]:
    windows = T.group_by("k").window(hr.tumbling("1 minute"), grace="0 seconds").aggregate(n=hr.count())
    finals = windows.suppress(hr.until_window_closes()).named(name, **more)
    return [finals, finals.where("n > 0").named("reader")]


@pytest.mark.spark
def test_a_rename_that_died_before_its_reader_was_rebuilt_is_done_again_after_a_cut(
    spark: SparkSession, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody had read the node under its new name, so it had no log, and after the cut it could get none."""
    driver = drive(*pipeline("a"))
    for minute in range(5):
        driver.pipe("t", key="x", value={"v": minute}, timestamp_ms=minute * 60_000)
        driver.cut()
    before = driver.rows("reader")
    renamed = pipeline("b", renamed_from="a")
    site, nowhere = Site(spark, driver._lake, driver._clock), KafkaSettings(bootstrap_servers="localhost:1")

    def renames_and_dies(*given: Any) -> None:
        rename_node(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.changing.apply_changes.rename_node", renames_and_dies)
    with pytest.raises(KeyboardInterrupt):
        ApplyChanges(site, renamed, kafka=nowhere).run()
    monkeypatch.setattr("headrace.changing.apply_changes.rename_node", rename_node)
    forget()
    assert Retention(spark, driver._lake, renamed, T, clock=driver._clock).run(driver.now_ms + 1_000).rows
    forget()
    ApplyChanges(site, renamed, kafka=nowhere).run()
    held = LocalViews(spark, driver._lake).read(renamed[1]).to_pylist()
    assert len(held) == len(before) == 4
    assert [row["n"] for row in held] == [row["n"] for row in before]
