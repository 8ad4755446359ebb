"""All checks of one run look at one version of the node, however far the stream goes on meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.quality import check_node, checks
from headrace.quality.books import open_books

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.description import Node
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

HOUR = 3_600_000
SALES = hr.Topic("sales", key="shop STRING", value="amount INT")
WINDOWS = SALES.group_by().window(hr.tumbling("1 hour"), grace="0 seconds").aggregate(n=hr.count())
NODES: dict[str, Node] = {
    "final windows": WINDOWS.suppress(hr.until_window_closes()).named("sums"),
    "totals": SALES.group_by().aggregate(n=hr.count()).named("sums"),
    "groups of a table": SALES.table().group_by("amount").aggregate(n=hr.count()).named("sums"),
}


@pytest.mark.parametrize("kind", NODES)
def test_a_stream_that_goes_on_between_two_checks_does_not_show(
    kind: str, drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(NODES[kind])

    def send(hour: int) -> None:
        driver.pipe("sales", key=f"shop {hour}", value={"amount": hour}, timestamp_ms=hour * HOUR)
        driver.cut()

    for hour in range(4):
        send(hour)

    def open_and_go_on(*given: Any) -> Any:
        books = open_books(*given)
        send(4)
        driver._runners["sums"].maintain()  # current results are folded into their table, too
        return books

    monkeypatch.setattr(checks, "open_books", open_and_go_on)
    results = {each.name: each for each in check_node(driver.spark, driver._lake, NODES[kind], str(tmp_path))}
    assert [each.sentence for each in results.values() if not each.passed] == []
    rows = 3 if kind == "final windows" else 4
    numbers = results["backfill_equals_stream"].metadata
    assert (numbers["rows_stored"], numbers["rows_recomputed"]) == (rows, rows)
    evidence = json.loads((tmp_path / "summaries" / "node-sums.json").read_text())["evidence"]
    assert evidence["delivered"] == 4
