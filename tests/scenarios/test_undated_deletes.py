"""A delete whose tombstone has no time leaves a join behind a time limit: it does follow the row that it deletes."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast


def topic(name: str, column: str) -> hr.Topic:
    """A topic whose event time is a column, so tombstones have none before their partition has one."""
    return hr.Topic(name, key="key STRING", value=f"{column} BIGINT, at TIMESTAMP", timestamp="at")


@pytest.mark.parametrize("limit", ["0 seconds", "9 seconds"])
def test_a_row_that_an_undated_tombstone_deletes_leaves_as_deleted(limit: str) -> None:
    joined = (
        topic("left", "value")
        .table()
        .join(topic("right", "other").table(), on="key", how="outer", select=("key", "value", "other"))
    )
    driver = TestDriver([joined.suppress(hr.until_time_limit(limit)).named("end")])
    at = "2026-01-01T00:00:{:02}Z"
    driver.pipe("left", key="a", value={"value": 1, "at": at.format(0)}, timestamp_ms=0)
    driver.pipe("left", key="b", value={"value": 2, "at": at.format(20)}, timestamp_ms=0)
    driver.cut()
    driver.pipe("left", key="a", value=None, timestamp_ms=0, partition=1)
    driver.cut()
    rows = {row["key_deleted"]: row["value"] for row in driver.rows("end") if row["key"] == "a"}
    assert rows == {False: 1, True: None}
    driver.check("end")
    driver.close()
