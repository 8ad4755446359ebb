"""Records that are late, or find nothing, are flagged for every kind of node that drops some."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import app
from headrace.operators.registry import operator_for
from headrace.quality import check_node, node_checks
from headrace.quality.books import open_books
from headrace.quality.figures.examples import unmatched_examples
from headrace.quality.judgements.ratios import late_drops_below, no_unmatched_above
from tests.conftest import Drive

if TYPE_CHECKING:
    from pathlib import Path

MINUTE = 60_000
READINGS = hr.Topic("readings", key="sensor STRING", value="amount INT", idle_timeout=None)
SENSORS = hr.Topic("sensors", key="sensor STRING", value="site STRING", idle_timeout=None)
WINDOWS = READINGS.group_by().window(hr.tumbling("1 minute"), grace=0).aggregate(n=hr.count())
TOTALS = READINGS.group_by().aggregate(n=hr.count())
CALM = WINDOWS.suppress(hr.until_time_limit("1 minute")).named("calm")
JOINED = WINDOWS.join(SENSORS.table(), on="sensor", how="left").named("joined")
SITES = READINGS.lookup(SENSORS.table(), on="sensor", complete_first=False).named("sites")
KNOWN = READINGS.lookup(SENSORS.table(), on="sensor", how="inner", complete_first=False).named("known")
LATE, UNMATCHED = "late_drops_below", "no_unmatched_above"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("node", "late", "unmatched"),
    [
        (WINDOWS, True, False),
        (READINGS.group_by().window(hr.tumbling("1 minute"), clock="wall").aggregate(n=hr.count()), False, False),
        (CALM, True, False),
        (TOTALS.suppress(hr.until_time_limit("1 minute")), False, False),
        (JOINED, True, False),
        (WINDOWS.group_by("n").aggregate(groups=hr.count()), True, False),
        (TOTALS.join(SENSORS.table(), on="sensor"), False, False),
        (READINGS.table("timestamp", "1 hour"), True, False),
        (READINGS.table("timestamp", "1 hour").select("amount AS a"), True, False),
        (READINGS.table(), False, False),
        (SITES, False, True),
        (KNOWN, False, True),
        (READINGS.lookup(SENSORS.table(), on="sensor", as_of="event", history="1 hour", complete_first=False), True, True),
        (READINGS.lookup(READINGS.select("sensor", "amount AS before").table(), on="sensor", how="inner", complete_first=False), False, False),
        (READINGS.named("all"), False, False),
    ],
)  # fmt: skip
def test_a_node_has_the_checks_of_what_it_can_drop(node: Any, late: bool, unmatched: bool) -> None:
    checks = [*node_checks(node)]
    assert (operator_for(node).can_be_late, LATE in checks, UNMATCHED in checks) == (late, late, unmatched)
    assert (checks[0], checks[-1]) == ("every_offset_accounted_for", "backfill_equals_stream")


@pytest.mark.spark
def test_what_is_late_or_finds_nothing_is_said_with_its_numbers(
    drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = drive(CALM, JOINED, SITES, KNOWN)
    driver.pipe("sensors", key="a", value={"site": "x"}, timestamp_ms=0)
    driver.cut()
    for key, minute in (("a", 0), ("b", 1), ("b", 5), ("a", 0)):  # the last one is late
        driver.pipe("readings", key=key, value={"amount": 1}, timestamp_ms=minute * MINUTE)
    driver.cut()

    judged = check_node(driver.spark, driver._lake, JOINED, str(tmp_path), verdicts=())
    (joined,) = (result for result in judged if result.name == LATE)
    assert (joined.passed, joined.severity) == (False, "warn")
    late = late_drops_below(open_books(driver.spark, driver._lake, CALM), 0.05).explain(False)
    assert late.sentence.startswith(
        "1 of 4 records delivered is late, 25.00% where 5.00% may be, most of them (1)"
    )
    assert "give calm a longer grace" in late.sentence
    assert joined.sentence.startswith("1 of 5 records delivered is late, 20.00%")
    for node in (SITES, KNOWN):
        books = open_books(driver.spark, driver._lake, node)
        unmatched = no_unmatched_above(books, 0.05)
        assert (unmatched.name, unmatched.claim is None) == (UNMATCHED, False)
        assert unmatched.explain(False).sentence.startswith(
            "2 of 4 records are records that found no row, 50.00% where 5.00% may be;"
        )
    books = open_books(driver.spark, driver._lake, SITES)
    commands = [shlex.split(each["command"]) for each in unmatched_examples(books)]
    monkeypatch.setattr(
        "headrace.cli.console.deployment.load_pipeline", lambda _: [CALM, JOINED, SITES, KNOWN]
    )
    assert len(commands) == 2
    for _, *words in commands:
        run = CliRunner().invoke(app, [*words, "--lake", driver.lake.root])
        assert "site=None" in run.output
