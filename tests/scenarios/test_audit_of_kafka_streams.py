"""An audit finds the row that a restarted application of Kafka Streams gets wrong, with the late record behind it.

Source: `tests/fixtures/kafka_streams` has recorded both tables with the TopologyTestDriver.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.testing import TestDriver
from tests.scenarios.audited_windows import WINDOWS

RECORDED = Path(__file__).parents[1] / "fixtures" / "restarted_windows"


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDED / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.fast
def test_an_application_of_kafka_streams_that_was_restarted_has_counted_a_late_record(tmp_path: Path) -> None:
    driver = TestDriver([WINDOWS])
    for each in lines("log.jsonl"):
        driver.pipe("readings", key=each["key"], value=each["value"], timestamp_ms=each["timestamp"])
        driver.cut()
    verdicts = {}
    for name in ("through", "restarted"):
        newest = {row["window_start"]: row for row in lines(f"{name}.out.jsonl")}
        (tmp_path / name).mkdir()
        pq.write_table(pa.Table.from_pylist([*newest.values()]), tmp_path / name / "part-0.parquet")
        verdicts[name] = driver.audit("windows", f"file:{tmp_path}/{name}")
    through, restarted = verdicts["through"], verdicts["restarted"]
    assert through.is_equal
    assert (through.rows, through.equal, through.not_final) == (3, 3, 1)
    assert (restarted.wrong, restarted.missing, restarted.surplus, restarted.equal) == (1, 0, 0, 2)
    (row,) = restarted.examples
    assert row.log is not None
    assert row.table is not None
    assert (row.log["total"], row.table["total"]) == (3, 11)
    (cause,) = row.causes
    assert [each.offset for each in cause.records] == [0, 1]
    assert [(each.offset, each.fate, each.late_ms) for each in cause.uncounted] == [(3, "late", 30_000)]
    driver.close()
