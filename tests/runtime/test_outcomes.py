"""What becomes of a node whose description changes: told by the rules alone."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli import commands as cli
from headrace.lifecycle.rebuilds import rebuild
from headrace.nodes.descriptions.evolution import GOES_ON, REBUILT, REFUSED, outcome_of

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
GROUPED = READINGS.group_by()
WINDOWS = GROUPED.window(hr.tumbling("1 minute"), grace="0 s").aggregate(n=hr.count())
TOTALS = GROUPED.aggregate(n=hr.count())
LIMIT = hr.until_time_limit("5 minutes")
EARLY = hr.until_time_limit("5 minutes", max_records=5, when_full="emit_early")


def entry(node: Any) -> dict[str, Any]:
    return {"fingerprint": node.fingerprint(), "rules": node.rules()}


CHANGES = [
    (WINDOWS, WINDOWS.suppress(hr.until_window_closes()), GOES_ON),
    (WINDOWS, WINDOWS.suppress(LIMIT), REBUILT),
    (WINDOWS.suppress(hr.until_window_closes()), WINDOWS.suppress(LIMIT), REBUILT),
    (TOTALS, TOTALS.suppress(LIMIT), REBUILT),
    (READINGS.table(), READINGS.table().suppress(LIMIT), REBUILT),
    (TOTALS.suppress(LIMIT), TOTALS.suppress(hr.until_time_limit("6 minutes")), REBUILT),
    (TOTALS.suppress(LIMIT), TOTALS.suppress(EARLY), REBUILT),
    (TOTALS, GROUPED.aggregate(n=hr.count(), total=hr.sum("value")), REFUSED),
    (TOTALS.suppress(LIMIT), GROUPED.aggregate(n=hr.count(), total=hr.sum("value")).suppress(LIMIT), REFUSED),
    (TOTALS, WINDOWS.suppress(LIMIT), REFUSED),
    (TOTALS, READINGS.table().suppress(LIMIT), REFUSED),
]


@pytest.mark.parametrize(("before", "after", "outcome"), CHANGES)
def test_a_change_of_the_suppression_alone_keeps_the_name_both_ways(
    before: Any, after: Any, outcome: str
) -> None:
    for stored, described in ((before, after), (after, before)):
        assert outcome_of(entry(stored), stored.fingerprint(), entry(described)) == outcome
        assert outcome_of(None, stored.fingerprint(), entry(described)) == REFUSED


def test_tables_of_which_some_were_swapped_are_rebuilt_whichever_description_comes() -> None:
    first, second = TOTALS.suppress(LIMIT), TOTALS.suppress(EARLY)
    for described in (first, second, TOTALS):
        assert outcome_of(entry(second), first.fingerprint(), entry(described)) == REBUILT


def test_the_command_builds_as_far_as_the_log_goes_and_swaps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Built:
        left, closed = 3, False
        records, records_before = 5, None

        def advance(self) -> bool:
            self.left -= 1
            return self.left > 0

        def close(self) -> None:
            self.closed = True

    built = Built()
    monkeypatch.setattr("headrace.cli.console.deployment.session", lambda *_: None)
    monkeypatch.setattr("headrace.spark.session.pipeline_session", lambda spark: spark)
    monkeypatch.setattr(
        "headrace.cli.console.deployment.load_pipeline", lambda name: [TOTALS.named("totals")]
    )
    monkeypatch.setattr(rebuild, "rebuild_due", lambda *given: built)
    done = CliRunner().invoke(cli.app, ["rebuild", "totals"])
    assert "rebuilt as far as its tables have read the log" in done.output
    assert (built.left, built.closed) == (0, True)
    monkeypatch.setattr(rebuild, "rebuild_due", lambda *given: None)
    assert "those of this description" in CliRunner().invoke(cli.app, ["rebuild", "totals"]).output
