"""Nodes that read nodes: final counts and then an alert, records that are enriched and then added up, batches of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.quality import check_node
from tests.scenarios.chained import (
    COUNTS,
    ENRICHED,
    FOURS,
    PAIRS,
    PER_TEN,
    QUIET,
    READINGS,
    SENSORS,
    SITES,
)
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.description import Node
    from headrace.testing import TestDriver
    from tests.conftest import Drive


NODES: tuple[Node, ...] = (FOURS, SITES, PER_TEN, QUIET, COUNTS, ENRICHED, PAIRS)


def pipe(driver: TestDriver, minute: float, sensor: str = "a", value: int = 1) -> None:
    driver.pipe("readings", key=sensor, value={"value": value}, timestamp_ms=round(minute * MINUTE))


def live(driver: TestDriver, cut: Any) -> None:
    """Half an hour of one busy and one quiet sensor, in several log commits."""
    for name, site in (("a", "north"), ("b", "south")):
        driver.pipe("sensors", key=name, value={"site": site}, timestamp_ms=0)
    cut(-1)
    for step in range(8):
        for number in range(6):
            pipe(driver, step * 4 + number / 2, "a", number)
        pipe(driver, step * 4 + 1, "b", 10 * step)
        if step == 4:
            driver.pipe("sensors", key="b", value={"site": "north"}, timestamp_ms=0)
        cut(step)
    driver.cut()


def tables(driver: TestDriver) -> dict[str, list[tuple[Any, ...]]]:
    """The columns of people; which log commit a row belongs to depends on the clock."""
    found = {}
    for node in NODES:
        columns = [name for name in node.columns if name not in ("opened_at", "closed_at")]
        found[node.required_name] = sorted(
            tuple(row[name] for name in columns) for row in driver.rows(node.required_name)
        )
    return found


@pytest.mark.spark
@pytest.mark.long
def test_what_reads_a_node_is_told_all_that_it_gives_in_any_cuts_and_through_any_crash(
    drive: Drive, tmp_path: Path
) -> None:
    driver = drive(*NODES)

    def cut(step: int) -> None:
        if step in (2, 5):
            driver.crash(
                ("before outputs", "after outputs", "after state")[step % 3], ("counts", "quiet")[step % 2]
            )
        driver.cut()

    live(driver, cut)
    found = tables(driver)
    counts = {(row[0], row[1].minute): row[3] for row in found["counts"]}
    assert {row[0]: row[3] for row in found["quiet"]} == {"a": 2, "b": 1}
    assert sorted(n for n in counts.values() if n < 4) == sorted(row[3] for row in found["quiet"])
    assert [row[3:] for row in found["per_ten"] if row[0] == "b"] == [(3, 3), (2, 2)]
    # The site of b changes behind its fifth reading: logs are in the order of their commits.
    assert {row[0]: row[1] for row in found["sites"]} == {"north": 8 * 15 + 10 * (5 + 6 + 7), "south": 100}
    assert len(found["pairs"]) == 28
    assert len(found["fours"]) == 14
    for node in NODES:
        driver.check(node.required_name)
    assert driver.fates("quiet") == {
        "used": len(found["quiet"]),
        "filtered": len(counts) - len(found["quiet"]),
    }
    for node in (PER_TEN, SITES):
        judged = check_node(driver.spark, driver._lake, node, str(tmp_path))
        assert [result.sentence for result in judged if not result.passed] == []

    driver.reset()
    live(driver, lambda step: driver.cut([]))  # all nodes fold the whole log at the end
    assert tables(driver) == found

    driver.erase("readings", "b")  # and what was made of it, and what was made of that
    assert all(row[0] != "b" for name, rows in tables(driver).items() if name != "sites" for row in rows)
    assert [row[:2] for row in tables(driver)["sites"]] == [("north", 8 * 15)]
    pipe(driver, 60, "a", 7)
    driver.cut()
    for node in NODES:
        name = node.required_name
        driver.check(name)


@pytest.mark.fast
def test_a_node_that_is_read_has_to_be_there_and_has_known_types(drive: Drive) -> None:
    with pytest.raises(hr.DescriptionError, match="reads node 'counts', which is not among the nodes"):
        drive(QUIET)
    twice = "zip_with(array(value), array(2), (x, y) -> x * y)[0]"
    looked_up = READINGS.with_column("twice", twice).lookup(SENSORS.table(), on="sensor")
    doubled = looked_up.named("doubled")
    with pytest.raises(hr.DescriptionError, match="only Spark knows the type of 'twice'"):
        doubled.where("twice > 2")
    typed = READINGS.with_column("twice", "CAST(value * 2 AS INT)").lookup(
        SENSORS.table(), on="sensor", complete_first=False
    )
    assert typed.named("typed").where("twice > 2").columns == ("sensor", "value", "twice", "site")
