"""The report over time: since when a claim stands, how figures moved, what changed, and pages before the first check."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headrace.quality import history, pages
from headrace.quality.figures.log_profile import clocks
from headrace.quality.pages import Asset, announce, write
from headrace.quality.results import CheckResult

pytestmark = pytest.mark.fast

HOUR_MS = 3_600_000
CLAIMS = {"first": "The first claim.", "second": "The second claim.", "third": "The third claim."}
LOG = Asset("log", "readings", 660_000)


def result(
    name: str, passed: bool, ratio: float = 0.0, severity: str = "error", said: str = "Said."
) -> CheckResult:
    return CheckResult(name, passed, severity, said, {"ratio": ratio, "limit": 0.1})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time of the next check, in hours."""
    now = [0]

    class Clock:
        def now_ms(self) -> int:
            return now[0] * HOUR_MS

    monkeypatch.setattr(pages, "SystemClock", Clock)
    return now


def check(docs: Path, clock: list[int], hour: int, delivered: int, *results: CheckResult) -> str:
    clock[0] = hour
    evidence: dict[str, Any] = {
        "delivered": delivered,
        "dead_letters": 0,
        "reasons": [],
        "partitions": [],
        "clocks": None,
    }
    return write(docs, LOG, results, CLAIMS, evidence).read_text()


def test_a_claim_says_since_when_it_stands_as_it_does(tmp_path: Path, clock: list[int]) -> None:
    assert "Holds in its first run." in check(tmp_path, clock, 1, 10, result("first", True))
    assert "Holds since 1970-01-01 01:00 UTC: for 1 hour, in 2 runs." in check(
        tmp_path, clock, 2, 10, result("first", True)
    )
    assert "Fails since this run: the run before found the opposite." in check(
        tmp_path, clock, 5, 10, result("first", False)
    )
    assert "Fails since 1970-01-01 05:00 UTC: for 2 days, in 2 runs." in check(
        tmp_path, clock, 53, 10, result("first", False)
    )


def test_a_claim_keeps_its_beginning_when_the_runs_before_are_gone(
    tmp_path: Path, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "RUNS_KEPT", 2)
    for hour in range(1, 6):
        text = check(tmp_path, clock, hour, 10, result("first", True))
    assert "Holds since 1970-01-01 01:00 UTC: for 4 hours, in 5 runs." in text
    assert len(json.loads((tmp_path / "history" / "log-readings.json").read_text())) == 2


def test_the_page_says_what_changed_since_the_run_before(tmp_path: Path, clock: list[int]) -> None:
    first = check(tmp_path, clock, 1, 10, result("first", True), result("second", True))
    assert "What changed" not in first
    second = check(
        tmp_path, clock, 2, 25, result("first", False), result("second", True), result("third", True)
    )
    assert re.findall(r"<li>(.*?)</li>", second) == [
        "first fails now; it held before.",
        "third was judged for the first time.",
        "delivered: 10 before, 25 now.",
    ]
    again = check(
        tmp_path, clock, 3, 25, result("first", False), result("second", True), result("third", True)
    )
    assert "Nothing: no claim turned, and no figure moved." in again
    assert "Since the run before" not in (tmp_path / "index.html").read_text()


def test_figures_are_drawn_over_the_runs(tmp_path: Path, clock: list[int]) -> None:
    assert "<polyline" not in check(tmp_path, clock, 0, 10, result("first", True, 0.0))
    check(tmp_path, clock, 1, 20, result("first", True, 0.05))
    text = check(tmp_path, clock, 4, 30, result("first", True, 0.1))
    assert 'aria-label="delivered over the runs"><polyline points="0.0,24.0 30.0,12.0 120.0,0.0"/>' in text
    assert 'aria-label="ratio over the runs"><polyline points="0.0,24.0 30.0,12.0 120.0,0.0"/>' in text
    assert "limit over the runs" not in text


def test_the_worst_comes_first_with_the_one_action_beside_it(tmp_path: Path, clock: list[int]) -> None:
    warned = result("second", False, severity="warn", said="2 are late; give it a longer grace.")
    failed = result("third", False, said="A row; twice: (a; b); backfill 2026-11-19.")
    text = check(tmp_path, clock, 1, 10, result("first", True), warned, failed)
    assert re.findall(r'<section class="card check" id="(\w+)">', text) == ["third", "second", "first"]
    assert "<p>A row; twice: (a; b).</p>" in text
    assert "<b>Do this:</b> Backfill 2026-11-19.</p>" in text
    index = (tmp_path / "index.html").read_text()
    assert re.findall(r"<b>Do this:</b> (.*?) <span", index) == ["Backfill 2026-11-19."]


def test_before_the_first_check_the_report_says_what_will_be_claimed(
    tmp_path: Path, clock: list[int]
) -> None:
    announce(tmp_path, {LOG: CLAIMS, Asset("node", "counts", None): CLAIMS})
    index = (tmp_path / "index.html").read_text()
    assert "Nothing was checked yet" in index
    assert "first, second, third" in index
    page = (tmp_path / "log-readings.html").read_text()
    assert page.count("… not yet") == 3
    assert all(claim in page for claim in CLAIMS.values())
    check(tmp_path, clock, 1, 10, result("first", True))
    announce(tmp_path, {LOG: CLAIMS})
    assert "is in order" in (tmp_path / "log-readings.html").read_text()
    assert (
        "What was checked is in order; 1 asset was not checked yet." in (tmp_path / "index.html").read_text()
    )


def test_a_picture_shows_which_partition_holds_results_back() -> None:
    rows: list[dict[str, Any]] = [
        {"partition": 0, "stream_ms": 10 * HOUR_MS, "ingested_ms": 11 * HOUR_MS},
        {"partition": 1, "stream_ms": 1 * HOUR_MS, "ingested_ms": 11 * HOUR_MS},
        {"partition": 2, "stream_ms": None, "ingested_ms": None},
    ]
    found = clocks(rows)
    assert found is not None
    assert (found["from_time"], found["to_time"]) == ("1970-01-01 00:00 UTC", "1970-01-01 11:00 UTC")
    shown = [(row["partition"], row["share"], row["is_lowest"], row["behind"]) for row in found["partitions"]]
    assert shown == [(0, 90.91, False, "1 hour"), (1, 9.09, True, "10 hours")]
    assert found["lowest_share"] == 9.09
    assert clocks(rows[2:]) is None
