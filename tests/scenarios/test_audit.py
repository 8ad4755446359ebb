"""An audit names each row in which a table of another system differs from the log, with the records behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake

import headrace as hr
from headrace.errors import DescriptionError, TerminalError
from headrace.explain.tables import foreign_table
from headrace.explain.tables.audit_in_words import lines_of
from headrace.testing import TestDriver
from tests.runtime.odd_headers import cluster
from tests.waiting import PATIENCE_S

MINUTE, BEGIN_MS = 60_000, 1_700_000_040_000
READINGS = hr.Topic("readings", key="sensor STRING", value="value BIGINT", idle_timeout=None)
WINDOWS = (
    READINGS.group_by()
    .window(hr.tumbling("1 minute"), grace="30 seconds")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("windows")
)
TOTALS = READINGS.group_by().aggregate(n=hr.count()).named("totals")
# Minute and value; the fourth is 90 seconds late, and the window [0, 1) closed with the third.
RECORDS = ((0.2, 1), (0.5, 2), (2.0, 4), (0.6, 8), (3.5, 16), (5.5, 32))


@pytest.fixture
def driver() -> Iterator[TestDriver]:
    driver = TestDriver([WINDOWS, TOTALS])
    for minute, value in RECORDS:
        driver.pipe("readings", key="a", value={"value": value}, timestamp_ms=at_ms(minute))
        driver.cut()
    yield driver
    driver.close()


def at_ms(minute: float) -> int:
    return BEGIN_MS + round(minute * MINUTE)


def kafka_streams(records: tuple[tuple[float, int], ...], restart_before: int) -> list[dict[str, Any]]:
    """The windows that Kafka Streams emits if its process restarts before a record.

    The stream time of a task is in memory alone: after a restart it begins with the next record. So a record that was late
    is counted in its window, which is in the store still, and the window is emitted again.
    """
    stream_ms, windows, emitted = -1, dict[int, list[int]](), dict[int, list[int]]()
    for number, (minute, value) in enumerate(records):
        if number == restart_before:
            stream_ms = -1
        stream_ms = max(stream_ms, at_ms(minute))
        start = at_ms(minute) // MINUTE * MINUTE
        if start + MINUTE + 30_000 > stream_ms:
            of = windows.setdefault(start, [0, 0])
            of[0], of[1] = of[0] + 1, of[1] + value
        for each, sums in windows.items():
            if each + MINUTE + 30_000 <= stream_ms:
                emitted[each] = [*sums]
    return [
        {"sensor": "a", "window_start": start, "n": n, "total": total}
        for start, (n, total) in emitted.items()
    ]


def write(folder: Path, rows: list[dict[str, Any]]) -> str:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "part-0.parquet")
    return f"file:{folder}"


def structured_streaming(batches: list[list[tuple[float, int]]]) -> list[dict[str, Any]]:
    """The windows that Spark's Structured Streaming appends, as in `benchmarks.native`.

    The watermark of a micro-batch is that of the one before: the highest event time so far less the delay. Records of
    windows that it has passed are dropped, and such windows are appended.
    """
    watermark_ms = highest_ms = -1
    windows, appended = dict[int, list[int]](), list[dict[str, Any]]()
    for batch in [*batches, []]:
        for minute, value in batch:
            start = at_ms(minute) // MINUTE * MINUTE
            highest_ms = max(highest_ms, at_ms(minute))
            if start + MINUTE > watermark_ms:
                of = windows.setdefault(start, [0, 0])
                of[0], of[1] = of[0] + 1, of[1] + value
        for start in [start for start in windows if start + MINUTE <= watermark_ms]:
            n, total = windows.pop(start)
            appended.append({"sensor": "a", "window_start": start, "n": n, "total": total})
        watermark_ms = highest_ms - 30_000
    return appended


@pytest.mark.fast
def test_a_kafka_streams_application_that_forgets_its_stream_time_is_found_out(
    driver: TestDriver, tmp_path: Path
) -> None:
    right = driver.audit("windows", write(tmp_path / "right", kafka_streams(RECORDS, restart_before=-1)))
    assert right.is_equal
    assert (right.rows, right.equal) == (3, 3)
    assert right.unknown == ["window_end"]
    verdict = driver.audit("windows", write(tmp_path / "wrong", kafka_streams(RECORDS, restart_before=3)))
    assert not verdict.is_equal
    assert (verdict.wrong, verdict.missing, verdict.surplus) == (1, 0, 0)
    (row,) = verdict.examples
    assert row.kind == "wrong"
    assert row.log is not None
    assert row.table is not None
    assert (row.log["total"], row.table["total"]) == (3, 11)
    (cause,) = row.causes
    assert [(each.offset, each.fate, each.late_ms) for each in cause.uncounted] == [(3, "late", 30_000)]
    assert any("late by 30 s" in line for line in lines_of(verdict))


@pytest.mark.fast
def test_missing_and_surplus_rows_of_a_delta_table(driver: TestDriver, tmp_path: Path) -> None:
    rows = [{name: row[name] for name in ("sensor", "window_start", "n")} for row in driver.rows("windows")]
    other = {**rows[0], "sensor": "b"}
    write_deltalake(tmp_path / "delta", pa.Table.from_pylist([*rows[1:], other]))
    verdict = driver.audit("windows", str(tmp_path / "delta"))
    assert (verdict.wrong, verdict.missing, verdict.surplus, verdict.equal) == (0, 1, 1, len(rows) - 1)
    missing, surplus = sorted(verdict.examples, key=lambda each: each.kind)
    assert (missing.kind, surplus.kind) == ("missing", "surplus")
    assert [cause.row["n"] for cause in missing.causes] == [2]
    assert not surplus.causes
    assert verdict.columns == ["sensor", "window_start", "n"]


@pytest.mark.fast
def test_a_window_that_is_not_final_yet_is_not_judged(driver: TestDriver, tmp_path: Path) -> None:
    early = {"sensor": "a", "window_start": at_ms(5.5) // MINUTE * MINUTE, "n": 7, "total": 7}
    uri = write(tmp_path / "early", [*kafka_streams(RECORDS, restart_before=-1), early])
    verdict = driver.audit("windows", uri)
    assert verdict.is_equal
    assert verdict.not_final == 1


@pytest.mark.fast
def test_columns_with_other_names_and_current_results(driver: TestDriver, tmp_path: Path) -> None:
    uri = write(tmp_path / "totals", [{"id": {"sensor": "a"}, "count": 6}])
    assert driver.audit("totals", uri, sensor="id.sensor", n="count").is_equal
    uri = write(tmp_path / "others", [{"id": {"sensor": "a"}, "count": 5}])
    (row,) = driver.audit("totals", uri, sensor="id.sensor", n="count").examples
    assert (row.kind, len(row.causes)) == ("wrong", 1)
    with pytest.raises(DescriptionError, match="no column 'sensor', which tells rows of 'totals' apart"):
        driver.audit("totals", uri)
    with pytest.raises(DescriptionError, match="no column 'nothing'"):
        driver.audit("totals", uri, sensor="nothing")
    with pytest.raises(TerminalError, match="There is no table at"):
        driver.audit("totals", f"file:{tmp_path}/gone")


@pytest.mark.fast
def test_a_topic_is_read_to_its_end(driver: TestDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = kafka_streams(RECORDS, restart_before=-1)
    with cluster() as bootstrap:
        monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP_SERVERS", bootstrap)
        producer = Producer({"bootstrap.servers": bootstrap})
        gone = {"sensor": "gone", "window_start": rows[0]["window_start"]}
        sent = [
            (rows[0], {"n": 99, "total": 0}),
            *((row, row) for row in rows),
            (gone, rows[0]),
            (gone, None),
        ]
        for key, value in sent:
            named = {name: key[name] for name in ("sensor", "window_start")}
            content = None if value is None else json.dumps({n: value[n] for n in ("n", "total")}).encode()
            producer.produce("counts", key=json.dumps(named).encode(), value=content)
        assert producer.flush(PATIENCE_S) == 0
        verdict = driver.audit("windows", "kafka:counts")
        assert verdict.is_equal
        assert verdict.rows == 3
        with pytest.raises(TerminalError, match="There is no topic 'nothing' at"):
            driver.audit("windows", "kafka:nothing")


@pytest.mark.fast
def test_each_column_of_a_topic_is_compared(driver: TestDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, columns that the first record has not were not compared, so a wrong topic passed."""
    right, *wrong = kafka_streams(RECORDS, restart_before=-1)
    kept = [
        {name: right[name] for name in ("sensor", "window_start", "n")},
        *({**row, "total": 0} for row in wrong),
    ]
    sent = [(json.dumps([row["window_start"]]).encode(), json.dumps(row).encode()) for row in kept]
    monkeypatch.setattr(foreign_table, "_records", lambda *_: sent)
    verdict = driver.audit("windows", "kafka:counts")
    assert verdict.wrong == 3
    assert list(verdict.columns) == ["sensor", "window_start", "n", "total"]
    monkeypatch.setattr(foreign_table, "_records", lambda *_: [])
    assert driver.audit("windows", "kafka:counts").missing == 3


@pytest.mark.fast
def test_what_is_no_such_table_is_refused_in_our_words(driver: TestDriver, tmp_path: Path) -> None:
    """Before, these were errors of Arrow, which the command line took for a defect of its own."""
    lists = write(tmp_path / "lists", [{"sensor": "a", "window_start": at_ms(0), "n": [1]}])
    with pytest.raises(TerminalError, match="Column 'n' of the table does not fit node 'windows'"):
        driver.audit("windows", lists)
    (tmp_path / "others").mkdir()
    assert driver.audit("windows", f"file:{tmp_path}/others").missing == 3
    (tmp_path / "others" / "notes.txt").write_text("no Parquet")
    with pytest.raises(TerminalError, match=r"The table file:.*/others cannot be read"):
        driver.audit("windows", f"file:{tmp_path}/others")


@pytest.mark.fast
def test_values_of_a_topic_that_are_of_no_one_type_are_refused_in_our_words(
    driver: TestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, this was an error of Arrow."""
    monkeypatch.setattr(foreign_table, "_records", lambda *_: [(b"1", b'{"n": 1}'), (b"2", b'{"n": "one"}')])
    with pytest.raises(TerminalError, match="The table kafka:counts cannot be read"):
        driver.audit("windows", "kafka:counts")


@pytest.mark.fast
def test_windows_of_structured_streaming_depend_on_the_cut(driver: TestDriver, tmp_path: Path) -> None:
    right = structured_streaming([[each] for each in RECORDS])
    assert driver.audit("windows", write(tmp_path / "right", right)).is_equal
    wrong = structured_streaming([[*RECORDS[:4]], [*RECORDS[4:]], []])
    verdict = driver.audit("windows", write(tmp_path / "wrong", wrong))
    assert (verdict.wrong, verdict.missing, verdict.surplus) == (1, 0, 0)
    (row,) = verdict.examples
    assert row.log is not None
    assert row.table is not None
    assert (row.log["total"], row.table["total"]) == (3, 11)
    assert [each.offset for each in row.causes[0].uncounted] == [3]
