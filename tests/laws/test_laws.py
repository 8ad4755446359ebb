"""The law: the same log gives the same tables, streamed in any cuts, through crashes, or backfilled.

In each random world every node is compared with an oracle in plain Python that reads the log record by record. An
example is one random log and one node: a world holds 17, and a twin of one of them that reads the same log in other cuts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from tests.laws import tables
from tests.laws.driving import in_parallel, live_through, side_by_side
from tests.laws.worlds import RUNNING, SUBJECTS, TOPICS, TWINS, Subject, World, worlds
from tests.oracle.log_oracle import Log, sequence
from tests.oracle.running_oracle import Totals, totals

if TYPE_CHECKING:
    from headrace.description import RunningAggregate
    from headrace.testing import TestDriver

WORLDS = int(os.environ.get("HEADRACE_EXAMPLES", "6"))  # of 18 windowed nodes each: more than a hundred

pytestmark = [pytest.mark.spark, pytest.mark.slow]


WINDOWED = [subject.node for group in SUBJECTS.values() for subject in group]
driver = side_by_side([*WINDOWED, *RUNNING.values()])


@settings(max_examples=WORLDS)
@given(world=worlds())
def test_streamed_in_any_cuts_and_backfilled_the_tables_are_those_of_the_oracle(
    driver: TestDriver, world: World
) -> None:
    driver.reset()
    commits = live_through(world, driver)
    found = {}
    for topic in TOPICS:
        group = SUBJECTS[topic.name]
        longest_wait = max(subject.node.longest_wait_ms for subject in group)
        log = sequence(commits[topic.name], topic.idle_timeout_ms, longest_wait)
        decided = {(arrival.partition, offset): stream for arrival, offset, stream in log.rows}
        assert tables.stream_times(driver, topic.name) == decided
        for subject, held in zip(group, in_parallel(partial(check, driver, log), group), strict=True):
            found[subject.name] = held
        check_running(driver, RUNNING[topic.name], totals(log, commits[topic.name]))
    assert found[TWINS[0].name] == found[TWINS[1].name]
    driver.spark.catalog.clearCache()


def check(driver: TestDriver, log: Log, subject: Subject) -> list[object]:
    """Compare all tables of a node with the oracle's; what they hold."""
    name = subject.name
    expected = subject.expected(log)
    final, still_open = shown(expected.final), shown(expected.open)
    suppressed = subject.node.suppression is not None

    read = tables.windows(tables.rows(driver.read(name)))
    assert read == (final if suppressed else final | still_open)
    assert tables.windows(tables.rows(driver.backfill(name))) == read

    updates = tables.folded(tables.rows(driver.updates(name)))
    assert updates == final | still_open

    late = tables.late(tables.rows(driver.late(name)))
    assert late == {missed[1:]: 1 for missed in expected.late}

    ledger = tables.ledger(tables.rows(driver.ledger(name)))
    assert ledger == {at[1:]: records for at, records in expected.fates.items()}
    assert sum(ledger.values()) == len(log.rows)
    return [read, updates, late, ledger]


def check_running(driver: TestDriver, node: RunningAggregate, expected: Totals) -> None:
    """Compare the tables of current totals with the oracle's."""
    name, values = node.required_name, node.columns[1:]
    wanted = {
        key: {v: as_shown(row) if v == "total" else row[v] for v in values}
        for key, row in expected.rows.items()
    }
    read = {row["key"]: {v: row[v] for v in values} for row in driver.read(name).collect()}
    assert comparable(read) == comparable(wanted)
    backfilled = {row["key"]: {v: row[v] for v in values} for row in driver.backfill(name).collect()}
    assert comparable(backfilled) == comparable(wanted)
    updates = driver.updates(name).orderBy("__batch").collect()
    assert comparable({row["key"]: {v: row[v] for v in values} for row in updates}) == comparable(wanted)
    assert tables.ledger(tables.rows(driver.ledger(name))) == expected.fates


def comparable(table: Mapping[str, Any]) -> dict[str, str]:
    """As text, in which even NaN is itself; -0.0 is told from 0.0 by `first`, but not by sums."""
    return {key: repr(row) for key, row in table.items()}


def shown(table: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """The oracle's windows as users see them: sums of floats and of whole numbers are no decimals."""
    return {
        at: {name: as_shown(values) if name == "total" else values[name] for name in tables.AGGREGATES}
        for at, values in table.items()
    }


def as_shown(values: Mapping[str, Any]) -> Any:
    total, like = values["total"], values["lowest"]
    return total if total is None else type(like)(total)
