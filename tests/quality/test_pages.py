"""The pages: one sentence first, nothing unescaped, nothing from elsewhere, safe when several write at once."""

from __future__ import annotations

import datetime as dt
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import headrace as hr
from headrace.errors import TerminalError
from headrace.explain.graces.grace_curve import GraceCurve, GracePoint
from headrace.fold.fates import FATES, USED
from headrace.lifecycle.backfills.backfill_plan import DayVerdict
from headrace.local.demos.report import served_report
from headrace.nodes.progress import Progress
from headrace.quality.books import Account, Books
from headrace.quality.checks import _local
from headrace.quality.figures.curve_picture import curve_picture
from headrace.quality.pages import Asset, node_evidence, write, write_atomically
from headrace.quality.results import CheckResult

pytestmark = pytest.mark.fast

EVIL = "<img src=x onerror=alert(1)>"
CLAIMS = {"first": "the first claim", "second": "the second claim"}
LOG: dict[str, Any] = {"delivered": 10, "dead_letters": 0, "reasons": [], "partitions": [], "clocks": None}


def page(docs: Path, name: str, *results: CheckResult, evidence: dict[str, Any] = LOG) -> str:
    return write(docs, Asset("log", name, 660_000), results, CLAIMS, evidence).read_text()


def result(passed: bool, sentence: str = "", severity: str = "error", name: str = "first") -> CheckResult:
    return CheckResult(name, passed, severity, sentence or "Said.", {"rows": 1, "ratio": 0.5, "limit": 0.1})


def test_a_page_begins_with_what_is_wrong(tmp_path: Path) -> None:
    text = page(
        tmp_path,
        "readings",
        result(False, "Look here.", "warn"),
        result(False, "Mend this.", "error", "second"),
    )
    verdict = re.search(r'<div class="card verdict (\w+)">(.*?)</div>', text)
    assert verdict is not None
    assert verdict.groups() == (
        "fail",
        "The log of readings is not to be trusted: Mend this. 1 other check fails too.",
    )


def test_a_page_of_what_holds_says_over_how_much(tmp_path: Path) -> None:
    assert "The log of readings is in order: every check holds over the 10 records" in page(
        tmp_path, "readings", result(True)
    )


def test_values_are_escaped_wherever_they_stand(tmp_path: Path) -> None:
    reasons = [{"reason": EVIL, "records": 1}]
    text = page(tmp_path, "readings", result(False, EVIL), evidence={**LOG, "reasons": reasons})
    index = (tmp_path / "index.html").read_text()
    assert "<img" not in text + index
    assert text.count("&lt;img") == 3
    assert "&lt;img" in index


def test_a_page_needs_neither_network_nor_script(tmp_path: Path) -> None:
    text = page(tmp_path, "readings", result(True)) + (tmp_path / "index.html").read_text()
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert not re.search(r'<script|<link|src=|href="https?:|@import|url\(', text)


def node_page(docs: Path, node: Any, *remarks: str, **more: Any) -> str:
    """The page of a node with three records. In: remarks  as `nodes.remarks` gives them."""
    account = Account("readings", 0, 3, {fate: 3 * (fate == USED) for fate in FATES})
    nothing: Any = None
    books = Books(node, Progress(), nothing, nothing, 3, (account,))
    verdict = DayVerdict(None if node.day_column is None else dt.date(2026, 11, 1), True, 1, 1, 0, (), False)
    evidence = {
        **node_evidence(books, [verdict]),
        "by_day": [],
        "days_before": 0,
        "lateness": [],
        "remarks": remarks,
        **more,
    }
    asset = Asset("node", node.required_name, 660_000)
    return write(docs, asset, [result(True)], CLAIMS, evidence).read_text()


READINGS = hr.Topic("readings", key="sensor STRING", value="value DOUBLE")
FINALS = READINGS.group_by("sensor").window(hr.tumbling("1 hour"), grace=0).aggregate(n=hr.count())
TOTALS = READINGS.group_by("sensor").aggregate(n=hr.count()).named("totals")


def test_a_nodes_page_has_its_last_error_and_what_it_waits_for(tmp_path: Path) -> None:
    """Before: the page said neither, and after the run nothing else did."""
    text = node_page(
        tmp_path, TOTALS, f"It failed at 12:00 and has not committed since: {EVIL}", "Stream time is held."
    )
    _, _, rest = text.partition("<h2>What it waits for</h2>")
    assert "<li>It failed at 12:00 and has not committed since: &lt;img src=x" in rest
    assert "<li>Stream time is held.</li>" in rest
    assert "What it waits for" not in node_page(tmp_path, TOTALS)


def test_a_nodes_page_says_what_its_days_are_only_if_it_has_days(tmp_path: Path) -> None:
    finals = FINALS.suppress(hr.until_window_closes()).named("finals")
    assert "A day is the UTC day of <code>window_start</code>." in node_page(tmp_path, finals)
    text = node_page(tmp_path, TOTALS)  # before: "A day is the UTC day of window_start" here, too
    assert "window_start" not in text
    assert "Its rows are revised and belong to no day: the table is compared as a whole." in text


def test_a_page_draws_the_curve_marks_the_grace_and_says_what_a_minute_buys(tmp_path: Path) -> None:
    points = [GracePoint(grace_ms, complete, grace_ms, None) for grace_ms, complete in ((0, 7), (90_000, 10))]
    now, more = GracePoint(30_000, 8, 30_000, 30_000), GracePoint(90_000, 10, 90_000, 95_000)
    curve = GraceCurve("finals", 10, [points[0], now, points[1]], now, more)
    picture = curve_picture(curve)
    assert picture["mark"] == (487.2, 100.0)  # 80 % on an axis that begins with 60 %
    assert [row["complete"] for row in picture["rows"]] == ["70.00%", "80.00%", "100.00%", "100.00%"]
    text = node_page(tmp_path, FINALS.named("finals"), curve=picture)
    assert "With a grace of 1 minute 30 seconds, 2 of the 2 incomplete records count" in text
    assert "and results come 1 minute later." in text
    assert f'<polyline points="{picture["line"]}"/>' in text
    assert "now: 30 seconds, 80.00%" in text
    assert "What another grace would buy" not in node_page(tmp_path, TOTALS)


def test_each_count_of_a_page_has_the_command_that_shows_the_records(tmp_path: Path) -> None:
    of_totals = node_page(tmp_path, TOTALS)
    assert "<code>headrace records totals used</code>" in of_totals
    assert "<code>headrace why totals COLUMN=VALUE</code>" in of_totals
    text = page(
        tmp_path, "readings", result(True), evidence={**LOG, "reasons": [{"reason": "odd", "records": 1}]}
    )
    assert "<code>headrace dead-letters log/readings</code>" in text  # before: counts alone
    one = {"reason": "odd", "records": 1, "command": "headrace why-not readings 0 7"}
    text = page(tmp_path, "readings", result(True), evidence={**LOG, "reasons": [one]})
    assert "<code>headrace why-not readings 0 7</code>" in text  # before: no example
    late = [{"what": "late by 12 seconds", "command": "headrace why-not readings 0 9"}]
    of_node = node_page(tmp_path, FINALS.named("finals"), examples=late)
    assert "late by 12 seconds" in of_node
    assert "<code>headrace why-not readings 0 9</code>" in of_node


def test_the_index_names_what_fails_first_and_links_every_asset(tmp_path: Path) -> None:
    page(tmp_path, "a_fine", result(True))
    page(tmp_path, "b_warned", result(False, "Look.", "warn"))
    page(tmp_path, "c_broken", result(False, "Mend this."))
    text = (tmp_path / "index.html").read_text()
    assert "2 of 3 assets can be trusted. The log of c_broken is not to be trusted: Mend this." in text
    order = re.findall(r'href="log-(\w+)\.html"', text)
    assert order == ["c_broken", "b_warned", "a_fine"]


def test_the_summary_is_there_for_programs(tmp_path: Path) -> None:
    page(tmp_path, "readings", result(True, "Said."))
    summary = json.loads((tmp_path / "summaries/log-readings.json").read_text())
    assert summary["status"] == "pass"
    assert summary["checks"][0]["sentence"] == "Said."


def test_writers_at_once_lose_no_asset(tmp_path: Path) -> None:
    def write_often(number: int) -> None:
        for _ in range(5):
            page(tmp_path, f"asset_{number}", result(True))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write_often, range(6)))
    text = (tmp_path / "index.html").read_text()
    assert all(f'href="log-asset_{n}.html"' in text for n in range(6))
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(".")] == []


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_atomically(path, "old")
    with path.open() as reader:
        write_atomically(path, "new")
        assert reader.read() == "old"
    assert path.read_text() == "new"


def test_pages_go_to_a_local_folder(tmp_path: Path) -> None:
    assert _local(f"file:{tmp_path}/a%20b") == tmp_path / "a b"
    assert _local(str(tmp_path)) == tmp_path
    with pytest.raises(TerminalError, match="'s3://bucket/docs', is not a local one"):
        _local("s3://bucket/docs")


def test_the_report_is_served_on_loopback_and_says_what_to_do_before_the_first_check(tmp_path: Path) -> None:
    with (
        served_report(tmp_path / "docs") as address,
        served_report(tmp_path, int(address.rpartition(":")[2])) as other,
    ):
        assert address.startswith("http://127.0.0.1:")
        assert other != address
        assert b"Run the job <b>quality</b>" in urlopen(f"{address}/").read()
        page(tmp_path / "docs", "readings", result(True))
        answer = urlopen(f"{address}/")
        assert b"Everything is in order" in answer.read()
        assert answer.headers["Cache-Control"] == "no-store"
    with pytest.raises(OSError, match="refused"):
        urlopen(f"{address}/")
