"""Windows, batches and rows of streams by their key: final and open ones, without Spark, as SQL gives them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.observe.keyed_reads import KeyedReads
from headrace.observe.sql import LakeSql
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast

SECOND = 1_000
VISITS = hr.Topic("visits", key="user STRING", value="page STRING, n BIGINT", idle_timeout=None)
BY: Any = VISITS.group_by("user", "page").window(hr.tumbling("10 seconds"), grace="5 seconds")
COUNTS: Any = BY.aggregate(n=hr.count(), total=hr.sum("n")).named("counts")
FINALS: Any = COUNTS.suppress(hr.until_window_closes()).named("finals")
SESSIONS: Any = VISITS.group_by("user").window(hr.session("4 seconds"), grace=0).aggregate(n=hr.count()).named("sessions")  # fmt: skip
BATCHES: Any = VISITS.group_by("user").batch(collect=["n"], max_records=3).named("batches")
ROWS: Any = VISITS.where("n > 2").named("rows")
TOTALS: Any = VISITS.group_by("user").aggregate(n=hr.count()).named("totals")
PLAIN: Any = hr.Topic("plain", value="n INT").where("n > 1").named("plain_rows")
NODES = (COUNTS, FINALS, SESSIONS, BATCHES, ROWS, TOTALS, PLAIN)


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    """A lake after 300 visits in 20 cuts."""
    driver, random = TestDriver(NODES), Random(3)
    for number in range(300):
        key, page = random.choice("abc"), random.choice(["/", "/é", None])
        at_ms = max(0, number * 300 + random.randrange(-4_000, 0))
        driver.pipe("visits", key=key, value={"page": page, "n": number % 7}, timestamp_ms=at_ms)
        if number % 15 == 14:
            driver.cut()
    yield driver.lake
    driver.close()


def at(second: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(second, dt.UTC)


def by_sql(lake: Lake, query: str) -> list[dict[str, Any]]:
    with LakeSql(lake, NODES) as sql:
        rows: list[dict[str, Any]] = sql.query(query).to_pylist()
    return [
        {n: v.astimezone(dt.UTC) if isinstance(v, dt.datetime) else v for n, v in row.items()} for row in rows
    ]


def in_utc(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {n: v.astimezone(dt.UTC) if isinstance(v, dt.datetime) else v for n, v in row.items()} for row in rows
    ]


@pytest.mark.parametrize("node", [COUNTS, FINALS])
def test_windows_of_a_key_are_those_of_sql_with_open_ones(lake: Lake, node: Any) -> None:
    reads, name = KeyedReads(lake), node.required_name
    for user, page in (("a", "/"), ("b", "/é"), ("c", None)):
        where = f"\"user\" = '{user}' AND page IS NOT DISTINCT FROM {'NULL' if page is None else repr(page)}"
        final = by_sql(lake, f"SELECT * FROM {name} WHERE {where}")
        waiting = by_sql(lake, f"SELECT * FROM open_windows.{name} WHERE {where}")
        expected = {row["window_start"]: row for row in (*final, *waiting)}
        found = in_utc(reads.fetch(node, (user, page)))
        assert [row["window_start"] for row in found] == sorted(expected)
        for row in found:
            is_final = row.pop("__final")
            assert is_final == (row["window_start"] not in {each["window_start"] for each in waiting})
            assert row == expected[row["window_start"]]
        assert not all(row["window_start"] == found[0]["window_start"] for row in found)


def test_a_range_has_its_first_time_and_not_its_last(lake: Lake) -> None:
    reads = KeyedReads(lake)
    every = reads.fetch(FINALS, ("a", "/"))
    starts = [row["window_start"].timestamp() for row in every]
    found = reads.fetch(FINALS, ("a", "/"), at(10), "1970-01-01T00:00:40Z")
    assert [row["window_start"].timestamp() for row in found] == [s for s in starts if 10 <= s < 40]
    assert reads.fetch(FINALS, ("a", "/"), last=at(starts[-1])) == every[:-1]
    assert reads.fetch(FINALS, ("a", "/"), first=at(starts[-1])) == every[-1:]
    assert every[-1]["__final"] is False
    assert reads.fetch(FINALS, ("nobody", "/")) == []


def test_one_window_is_read_by_its_start(lake: Lake) -> None:
    reads = KeyedReads(lake)
    every = reads.fetch(COUNTS, ("a", "/"))
    for row in every:
        found = reads.get(COUNTS, {"user": "a", "page": "/", "window_start": row["window_start"]})
        assert found == {name: value for name, value in row.items() if name != "__final"}
    open_start = every[-1]["window_start"]
    assert reads.get(FINALS, ("a", "/", open_start)) is None  # suppressed: it shows when it is final
    assert reads.get(COUNTS, ("a", "/", "1970-01-01T00:00:05Z")) is None
    session = reads.fetch(SESSIONS, "a")[0]
    found = reads.get(SESSIONS, [session[name] for name in SESSIONS.key])
    assert found == {name: value for name, value in session.items() if name != "__final"}


@pytest.mark.parametrize(("node", "of"), [(BATCHES, "opened_at"), (ROWS, None)])
def test_batches_and_rows_of_a_key_are_those_of_sql(lake: Lake, node: Any, of: str | None) -> None:
    reads = KeyedReads(lake)
    expected = by_sql(lake, f"SELECT * FROM {node.required_name} WHERE \"user\" = 'b'")
    found = in_utc(reads.fetch(node, "b"))
    assert expected
    assert sorted(map(str, found)) == sorted(map(str, expected))
    if of is not None:
        assert [row[of] for row in found] == sorted(row[of] for row in expected)


def test_what_has_no_key_or_no_time_is_refused(lake: Lake) -> None:
    reads = KeyedReads(lake)
    row = reads.get(TOTALS, "a")
    assert row is not None
    assert row["n"] > 50
    with pytest.raises(hr.DescriptionError, match="are revised, and have no time"):
        reads.fetch(TOTALS, "a")
    with pytest.raises(hr.DescriptionError, match="have no key"):
        reads.fetch(PLAIN, "a")
    with pytest.raises(hr.DescriptionError, match="several may have one key"):
        reads.get(ROWS, "a")
    with pytest.raises(hr.DescriptionError, match="'a' is not a key of its rows"):
        reads.fetch(COUNTS, "a")
    with pytest.raises(hr.DescriptionError, match="'counts': 'a', '/', 'more' is not a key of its rows"):
        reads.fetch(COUNTS, ("a", "/", "more"))  # before: the list of Python, with its type
    with pytest.raises(hr.DescriptionError, match="'noon' is no time"):
        reads.fetch(COUNTS, ("a", "/"), first="noon")
    with pytest.raises(TerminalError, match="has no table"):
        KeyedReads(Lake(f"{lake.root}/nowhere")).fetch(COUNTS, ("a", "/"))
