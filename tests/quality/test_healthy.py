"""What holds is said to hold, with the numbers, at rest and in the middle of a commit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headrace.description import WindowedAggregate
from headrace.fold.fates import DUPLICATE, ERASED
from headrace.observe.views import Views
from headrace.quality import LOG_CHECKS, node_checks
from headrace.quality.books import open_books
from headrace.writing.node_runner import NodeRunner
from tests.quality.conftest import COUNTS, EVIL, HOPS, Ground

pytestmark = pytest.mark.spark


def test_a_healthy_log_passes_but_for_its_many_dead_letters(ground: Ground) -> None:
    results = ground.log()
    assert list(results) == list(LOG_CHECKS)
    chain, unique, dead = results.values()
    assert chain.passed
    assert chain.sentence.startswith("The 3 commits of the log of readings follow one another without a gap")
    assert unique.passed
    assert unique.severity == "error"
    assert unique.sentence == "Each of the 19 offsets in the log of readings stands there exactly once."
    assert not dead.passed
    assert dead.severity == "warn"
    assert dead.sentence.startswith("1 of 19 records delivered is a dead letter, 5.26% where 1.00% may be")
    assert "malformed" in dead.sentence


def test_every_check_of_a_healthy_node_passes_and_its_page_says_the_same(ground: Ground) -> None:
    results = ground.node(verdicts=None)
    assert list(results) == list(node_checks(COUNTS))
    assert [result.sentence for result in results.values() if not result.passed] == []
    assert results["every_offset_accounted_for"].sentence == (
        "All 19 records delivered in 2 partitions are accounted for (12 used, 2 open, 1 late, 1 filtered, "
        "1 tombstone and 2 dead letters), and the results are made of exactly those used."
    )
    assert results["every_offset_accounted_for"].metadata["delivered"] == 19
    assert "9 windows" in results["windows_are_final"].sentence
    assert "2 days (1970-01-01 to 1970-01-02) with 9 rows equal" in results["backfill_equals_stream"].sentence
    page = Path(results["windows_are_final"].report or "")
    assert page == ground.docs / "node-reading_counts.html"
    text = page.read_text()
    assert "is in order" in text
    assert all(f'id="{name}"' in text for name in node_checks(COUNTS))
    (link,) = re.findall(r'href="(gx/[^"]+)"', text)
    assert (ground.docs / link).is_file()
    site = (ground.docs / link).parent
    judged = {page.stem for page in site.glob("expectations/*.html")}
    assert judged == {page.parts[-4] for page in site.glob("validations/*/*/*/*.html")}
    assert {"every_offset_accounted_for", "windows_are_final", "backfill_equals_stream"} <= judged
    evidence = json.loads((ground.docs / "summaries" / "node-reading_counts.json").read_text())["evidence"]
    dates = {row["day"]: {f: n for f, n in row["fates"].items() if n} for row in evidence["by_day"]}
    assert dates == {
        "1970-01-02": {"kept": 4},
        "1970-01-01": {"kept": 10, "late": 1, "filtered": 1, "tombstone": 1, "dead_letter": 2},
    }
    assert evidence["lateness"] == [{"lateness": "10 minutes to an hour", "records": 1, "windows": 1}]
    assert "How late the late records were" in text
    (example,) = evidence["examples"]
    assert re.fullmatch("headrace why-not readings [0-9]+ [0-9]+", example["command"])
    assert f"<code>{example['command']}</code>" in text


def test_hopping_windows_that_share_panes_balance_too(ground: Ground) -> None:
    results = ground.node(HOPS, verdicts=None)
    assert [result.sentence for result in results.values() if not result.passed] == []


@pytest.mark.parametrize("node", [COUNTS, HOPS], ids=lambda node: node.name)
def test_the_books_hold_the_ledger_that_people_see(ground: Ground, node: WindowedAggregate) -> None:
    seen = Views(ground.spark, ground.lake).ledger(node).collect()
    books = open_books(ground.spark, ground.lake, node)
    kept = {(a.topic, a.partition, fate): n for a in books.accounts for fate, n in a.fates.items()}
    kept = {
        entry: n for entry, n in kept.items() if n or entry[2] not in (DUPLICATE, ERASED)
    }  # where nothing was, none is shown
    assert kept == {(row["topic"], row["partition"], row["fate"]): row["records"] for row in seen}


def test_the_books_balance_when_the_state_of_closed_windows_has_expired(ground: Ground) -> None:
    before = open_books(ground.spark, ground.lake, COUNTS)
    NodeRunner(ground.spark, COUNTS, ground.lake).maintain()
    after = open_books(ground.spark, ground.lake, COUNTS)
    assert (after.accounts, after.in_results) == (before.accounts, before.in_results)


@pytest.mark.parametrize(
    "node", [COUNTS, pytest.param(HOPS, marks=pytest.mark.long)], ids=lambda node: node.name
)
def test_a_stream_between_outputs_and_state_does_not_fail(ground: Ground, node: WindowedAggregate) -> None:
    rows = ground.read(ground.lake.table(node.required_name)).count()
    ground.undo_last_commit(ground.lake.state(node.required_name))
    books = open_books(ground.spark, ground.lake, node)
    assert books.results.count() < rows
    results = ground.node(node, verdicts=None)
    assert [result.sentence for result in results.values() if not result.passed] == []


def test_before_the_first_record_there_is_nothing_to_judge(nothing_yet: Ground) -> None:
    results = [*nothing_yet.log().values(), *nothing_yet.node(verdicts=None).values()]
    assert all(result.passed for result in results)
    assert all("nothing to" in result.sentence or "nothing can" in result.sentence for result in results)
    assert (nothing_yet.docs / "index.html").is_file()


def test_no_value_of_a_record_reaches_a_page_unescaped(ground: Ground) -> None:
    ground.append(ground.read(ground.lake.table("reading_counts")), ground.lake.table("reading_counts"))
    results = ground.node(verdicts=None)
    assert EVIL in results["windows_are_final"].sentence or EVIL in results["backfill_equals_stream"].sentence
    pages = list(ground.docs.rglob("*.html"))
    assert {page.name for page in pages} >= {"index.html", "node-reading_counts.html"}
    assert [page for page in pages if "<script>alert" in page.read_text()] == []
    assert "&lt;script&gt;alert" in (ground.docs / "node-reading_counts.html").read_text()
