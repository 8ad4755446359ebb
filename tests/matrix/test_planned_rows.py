"""The rows that `plan --rows` tells are those of a run of the changed description, for a node of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.explain.tables import planned_rows as planned
from headrace.explain.tables.planned_rows import PlannedRows, planned_rows
from headrace.explain.tables.planned_rows_in_words import lines_of, markdown_of
from headrace.nodes.operator_frames import operator_of
from headrace.observe.local_views import LocalViews
from headrace.oracle.values import identity
from headrace.testing import TestDriver
from tests.matrix.kinds import AFTER, name_of, nodes

pytestmark = [pytest.mark.fast, pytest.mark.slow]
BEGIN_MS, MINUTE_MS, DAY_MS = 1_700_000_000_000, 60_000, 86_400_000
KINDS = sorted(nodes())


def driver_of(described: list[Any]) -> TestDriver:
    """The same log, whatever is described."""
    driver, random = TestDriver(described), Random(3)
    driver._clock.set(2_000_000_000_000)
    for step in range(4):
        for _ in range(9):
            value: Any = {"value": random.randrange(4), "place": random.choice(["north", "south", None])}
            driver.pipe(
                "events",
                key=random.choice(["a", "b", "c"]),
                value=random.choice([value] * 9 + [None]),
                timestamp_ms=BEGIN_MS + step * 2 * MINUTE_MS + random.randrange(-20, 12) * 15_000,
            )
        driver.pipe("places", key="north", value={"city": f"city{step}"}, timestamp_ms=BEGIN_MS)
        driver.advance_wall_clock("2 minutes")
        driver.cut()
    for topic, key in (("events", "z"), ("places", "west")):  # the day closes
        driver.pipe(topic, key=key, value={"place": "west", "city": "w"}, timestamp_ms=BEGIN_MS + 2 * DAY_MS)
    driver.advance_wall_clock("2 minutes")
    driver.cut()
    return driver


@pytest.fixture(scope="module")
def answers() -> Iterator[tuple[TestDriver, TestDriver, PlannedRows, set[str]]]:
    old, new = driver_of([*nodes().values()]), driver_of([*nodes(left_out=AFTER).values()])
    before = files(old)
    answer = planned_rows(old._session, old.lake, [*nodes(left_out=AFTER).values()])
    yield old, new, answer, before
    old.close()
    new.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_those_of_a_run_of_the_changed_description(kind: str, answers: Any) -> None:
    old, new, answer, _ = answers
    of = next(each for each in answer.nodes if each.node == name_of(kind)).rows
    before, after = (rows_of(driver, kind) for driver in (old, new))
    assert (of.rows_before, of.rows_after) == (before.total(), after.total())
    assert of.removed + of.changed == (before - after).total()
    assert of.added + of.changed == (after - before).total()
    for each in of.differing:
        assert each.before is None or identity(each.before.values()) in before - after
        assert each.after is None or identity(each.after.values()) in after - before


def test_some_rows_of_these_logs_change(answers: Any) -> None:
    assert sum(each.rows.total > 0 for each in answers[2].nodes) > len(KINDS) / 2


def test_the_lake_is_only_read(answers: Any) -> None:
    old, _, _, before = answers
    assert files(old) == before


def test_a_node_that_is_new_adds_all_its_rows_and_an_unchanged_one_none() -> None:
    events = hr.Topic("events", key="key STRING", value="value BIGINT, place STRING", idle_timeout="1 minute")
    old = events.group_by("key").aggregate(n=hr.count()).named("totals")
    new = events.where("value > 1").group_by("key").aggregate(n=hr.count()).named("large")
    driver = driver_of([*nodes().values(), old])
    answer = planned_rows(driver._session, driver.lake, [*nodes().values(), old, new])
    (only,) = answer.nodes
    assert (only.node, only.outcome) == ("large", "new")
    assert only.rows is not None
    assert only.rows.added == only.rows.rows_after > 0
    text, markdown = "\n".join(lines_of(answer)), markdown_of(answer)
    assert f"rows of large: {only.rows.added} added, 0 removed, 0 changed" in text
    assert f"| `large` (new) | {only.rows.added} | 0 | 0 | {only.rows.added} |" in markdown
    assert "+ key=a, n=" in markdown
    driver.close()


def test_days_compares_the_last_days_alone() -> None:
    events = hr.Topic("events", key="key STRING", value="value BIGINT", idle_timeout="1 minute")

    def described(least: int) -> list[Any]:
        large = events.where(f"value >= {least}").group_by("key")
        windows = large.window(hr.tumbling("1 hour"), grace=0).aggregate(n=hr.count())
        return [
            windows.suppress(hr.until_window_closes()).named("hours"),
            large.aggregate(n=hr.count()).named("totals"),
        ]

    driver = TestDriver(described(0))
    for hour in range(60):
        at_ms = BEGIN_MS + hour * 60 * MINUTE_MS
        driver.pipe("events", key="a", value={"value": hour % 2}, timestamp_ms=at_ms)
    driver.cut()
    whole, last = (
        planned_rows(driver._session, driver.lake, described(1), days=days).nodes for days in (None, 2)
    )
    newest = max(row["window_start"] for row in driver.rows("hours")).date()
    recent = [row for row in driver.rows("hours") if (newest - row["window_start"].date()).days < 2]
    assert last[0].days
    assert last[0].rows is not None
    assert last[0].rows.rows_before == len(recent) < len(driver.rows("hours"))
    assert last[0].rows.removed == sum(row["window_start"].hour % 2 == 0 for row in recent)
    assert not last[1].days
    assert whole[1].rows == last[1].rows
    driver.close()


def test_logs_that_are_too_large_are_named_with_their_size(
    answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, *_ = answers
    monkeypatch.setattr(planned, "LOCAL_BYTES", 0)
    monkeypatch.setattr(planned, "NodeRunner", None)  # the size is known before anything is read
    with pytest.raises(TerminalError, match=r"read logs of .* kB"):
        planned_rows(old._session, old.lake, [*nodes(left_out=AFTER).values()])


def rows_of(driver: TestDriver, kind: str) -> Counter[Any]:
    node = driver._nodes[name_of(kind)]
    stored = LocalViews(driver._session, driver.lake).stored(node)
    rows = stored.results if operator_of(node).appended else stored.table
    return Counter(identity(row.values()) for row in rows.select([*node.columns]).to_pylist())


def files(driver: TestDriver) -> set[str]:
    return {str(path) for path in Path(driver.lake.root.removeprefix("file:")).rglob("*") if path.is_file()}
