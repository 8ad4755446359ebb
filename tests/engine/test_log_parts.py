"""A log read part by part: the rows that are wanted, and its commits, without reading what cannot have them. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.engine.slices import log_parts
from headrace.engine.slices.log_parts import Wanted, parts_of
from headrace.engine.slices.log_slices import Origin, whole_log
from headrace.explain.log_history import rows_of_commits
from headrace.fold.values.columns import MOMENT
from headrace.lake.care import upkeep
from headrace.oracle.reader_time import commits_of
from headrace.sequence.log_columns import COMMIT
from headrace.testing import TestDriver
from headrace.writing.table_upkeep import pack_log

pytestmark = pytest.mark.fast

EVENTS = hr.Topic("events", key="shop STRING", value="amount BIGINT", idle_timeout="1 minute")
WINDOWS = EVENTS.group_by("shop").window(hr.tumbling("1 minute"), grace="1 minute").aggregate(n=hr.count())
BEGIN_MS, SHOP, NUMBER = 1_700_000_000_000, Origin(("key", "shop"), pa.string()), pa.int64()
COLUMNS = {
    name: Origin((name,), of)
    for name, of in (
        *(("ingested_at", MOMENT), ("timestamp", MOMENT), ("stream_time", MOMENT)),
        *(("partition", pa.int32()), ("offset", NUMBER), ("kind", pa.string()), ("control", pa.string())),
    )
} | {"shop": SHOP}
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    """A log of two partitions, packed: groups of a few rows, some of records alone, some with ticks and control rows."""
    driver, random = TestDriver([WINDOWS.named("windows")]), Random(5)
    for step in range(6):
        for _ in range(random.choice((3, 30))):
            at_ms = BEGIN_MS + step * 300_000 + random.randrange(-20, 20) * 15_000
            shop, value = random.choice("abcde"), random.choice([{"amount": 1}] * 5 + [b"{"])
            driver.pipe("events", key=shop, value=value, timestamp_ms=at_ms, partition=random.randrange(2))
        driver.cut()
        driver.advance_wall_clock("2 minutes")
        driver.cut()
    table = lakes.open_table(driver.lake.log("events"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "GROUP_ROWS", 7)
        assert lakes.as_maintainer(table, partial(pack_log, table, whole=True)) is not None
    yield table.uri
    driver.close()


@pytest.mark.parametrize("seed", range(20))
def test_parts_have_the_rows_that_are_wanted(uri: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(log_parts, "PART_ROWS", random.choice((1, 10, 1_000)))
    values = [*dict.fromkeys(random.choices(["a", "b", "e", "z", None], k=random.randrange(1, 4)))]
    wanted: dict[Origin, pa.Array] = {SHOP: pa.array(values, pa.string())}
    if random.random() < 0.3:
        wanted = {COLUMNS["offset"]: pa.array(random.sample(range(60), 2), NUMBER)}
    first_us = (BEGIN_MS + random.randrange(1_800) * 1_000) * 1_000
    within = random.choice((None, (first_us, first_us + 240_000_000)))
    controls = random.random() < 0.5
    found = [part.read(COLUMNS) for part in parts_of(whole_log(uri), Wanted(wanted, within, controls))]
    assert all(part.num_rows for part in found)

    def is_wanted(row: dict[str, Any]) -> bool:
        at = None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1_000_000)
        inside = within is None or (at is not None and within[0] <= at < within[1])
        mine = all(row[of.path[-1]] in some.to_pylist() for of, some in wanted.items())
        return (mine and inside) or (controls and row["kind"] == "control")

    every = whole_log(uri).read(COLUMNS).to_pylist()
    assert _sorted([row for part in found for row in part.to_pylist()]) == _sorted(
        [row for row in every if is_wanted(row)]
    )


def test_commit_rows_tell_the_commits_that_all_rows_tell(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [
        {
            "__topic": "events",
            "__ingested_ms": _ms(row["ingested_at"]),
            "__partition": row["partition"],
            "__offset": row["offset"],
            "__stream_ms": _ms(row["stream_time"]),
            "__fate": "tick"
            if row["kind"] == "tick"
            else "idle"
            if "idle" in (row["control"] or "")
            else None,
        }
        for row in whole_log(uri).read(COLUMNS).to_pylist()
    ]
    assert {row["__fate"] for row in every} == {None, "tick", "idle"}
    read = list[int]()

    def counted(file: pq.ParquetFile, groups: list[int], **more: Any) -> pa.Table:
        read.extend(groups)
        return of_file(file, groups, **more)

    of_file = pq.ParquetFile.read_row_groups
    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
    told = rows_of_commits(whole_log(uri), EVENTS, clocks=False)
    monkeypatch.undo()
    assert commits_of([told]) == commits_of([every])
    assert len(told) < len(every)
    (name,) = whole_log(uri).files
    groups = pq.ParquetFile(f"{uri.removeprefix('file:')}/{name}").num_row_groups
    assert 0 < len(read) < groups  # before: every group was read


def test_commit_rows_come_with_the_control_rows_and_no_record_does(uri: str) -> None:
    decided = whole_log(uri).decisions(COLUMNS).to_pylist()
    others = [row for row in whole_log(uri).read(COLUMNS).to_pylist() if row["kind"] in ("tick", "control")]
    commits = [row for row in decided if f'"{COMMIT}"' in (row["control"] or "")]
    assert _sorted([row for row in decided if row not in commits]) == _sorted(others)
    assert len(commits) == len({row["ingested_at"] for row in decided}) > 6


def _ms(at: Any) -> int | None:
    return None if at is None else round(at.timestamp() * 1_000)


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=repr)
