"""The law: the same log gives the same tables, streamed in any cuts, through crashes, or backfilled.

In each random world every node is compared with an oracle in plain Python that reads the log record by record. An
example is one random log and one node: a world holds 17, and a twin of one of them that reads the same log in other cuts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from tests.laws import tables
from tests.laws.driving import WORLDS, SideBySide, in_parallel, live_through
from tests.laws.plain import by_identity, fates, results_of_log
from tests.laws.worlds import RUNNING, SUBJECTS, TOPICS, TWINS, World, is_lively, worlds
from tests.oracle.log_oracle import Log, sequence

if TYPE_CHECKING:
    from headrace.description import RunningAggregate, WindowedAggregate
    from headrace.testing import TestDriver

pytestmark = pytest.mark.fast


WINDOWED = [node for group in SUBJECTS.values() for node in group]


@pytest.fixture(scope="module")
def driver() -> Iterator[TestDriver]:
    """One driver for all worlds."""
    driver = SideBySide([*WINDOWED, *RUNNING.values()])
    yield driver
    driver.close()


@WORLDS
@given(world=worlds().filter(is_lively))
@pytest.mark.slow
def test_streamed_in_any_cuts_and_backfilled_the_tables_are_those_of_the_oracle(
    driver: TestDriver, world: World
) -> None:
    driver.reset()
    commits = live_through(world, driver)
    found = {}
    for topic in TOPICS:
        group = SUBJECTS[topic.name]
        longest_wait = max(node.longest_wait_ms for node in group)
        log = sequence(commits[topic.name], topic.idle_timeout_ms, longest_wait)
        decided = {(arrival.partition, offset): stream for arrival, offset, stream in log.rows}
        assert tables.stream_times(driver, topic.name) == decided
        for node, held in zip(group, in_parallel(partial(check, driver, log), group), strict=True):
            found[node.required_name] = held
        check_running(driver, RUNNING[topic.name], log)
    assert found[TWINS[0].required_name] == found[TWINS[1].required_name]


def check(driver: TestDriver, log: Log, node: WindowedAggregate) -> list[object]:
    """Compare all tables of a node with the oracle's; what they hold."""
    name, expected = node.required_name, results_of_log(node, log)
    final, still_open = shown(node, expected.rows), shown(node, expected.open)
    suppressed = node.suppression is not None

    read = tables.windows(driver.rows(name))
    assert read == (final if suppressed else final | still_open)
    assert tables.windows(driver.backfill(name)) == read

    updates = tables.folded(driver.updates(name))
    assert updates == final | still_open

    late = tables.late(driver.late(name))
    assert late == {missed[1:4]: 1 for missed in expected.late}

    ledger = tables.ledger(driver.ledger(name))
    assert ledger == {at[1:]: records for at, records in fates(expected).items()}
    assert sum(ledger.values()) == len(log.rows)
    return [read, updates, late, ledger]


def check_running(driver: TestDriver, node: RunningAggregate, log: Log) -> None:
    """Compare the tables of current totals with the oracle's."""
    name, expected = node.required_name, results_of_log(node, log)
    wanted = comparable(by_identity(node, expected.rows))
    for found in (driver.rows(name), driver.backfill(name), driver.updates(name)):
        rows = {row["key"]: {v: row[v] for v in node.columns[1:]} for row in found}
        assert comparable(rows) == wanted
    ledger = {at[1:]: records for at, records in fates(expected).items()}
    assert tables.ledger(driver.ledger(name)) == ledger


def comparable(table: Mapping[Any, Any]) -> dict[Any, str]:
    """As text, in which even NaN is itself; -0.0 is told from 0.0 by `first`, but not by sums."""
    return {key: repr(row) for key, row in table.items()}


def shown(node: WindowedAggregate, rows: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """The oracle's windows by key and start."""
    return {
        at: {name: value for name, value in row.items() if name != "window_end"}
        for at, row in by_identity(node, rows).items()
    }
