"""L29 against a simulated store: delays, lost answers, late arrivals, long pauses and killed processes, from a seed.

HEADRACE_EXAMPLES says how many schedules are tried. A schedule that fails is printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headrace.lake.commits import fence, writer
from headrace.lake.commits.fence import APPENDER, Verdict, judge
from headrace.lake.commits.writer import TableWriter
from tests.lake.schedules import LAST, LONG, Schedule, broken, progress
from tests.lake.simulation import World

pytestmark = pytest.mark.fast
SCHEDULES = int(os.environ.get("HEADRACE_EXAMPLES", "500"))
CROWD, CROWDED = 100, SCHEDULES // 50  # writers, and the schedules in which so many meet
WRONG_MAX = 3000  # schedules within which each wrong step has to break a law


@pytest.fixture(autouse=True)
def _time_and_store_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "sleep", lambda seconds: World.newest.wait(seconds))
    monkeypatch.setattr(writer, "boot_seconds", lambda: World.newest.now)
    monkeypatch.setattr(writer, "last_checkpoint", lambda uri: World.newest.checkpoint)
    monkeypatch.setattr(writer, "LONG_SECONDS", LONG)


def test_no_schedule_breaks_a_law() -> None:
    assert broken(range(SCHEDULES)) is None


def test_a_hundred_writers_break_no_law() -> None:
    assert broken(range(CROWDED), CROWD) is None


def judged(change: Mapping[Verdict, Verdict]) -> Callable[..., Verdict]:
    """The fence's judgement with some verdicts taken for others."""
    return lambda found, fence_, token: change.get(verdict := judge(found, fence_, token), verdict)


WRONG_JUDGEMENTS = {
    "an overtaken writer goes on": {Verdict.OVERTAKEN: Verdict.PASSED},
    "rows of others are passed": {Verdict.REFUSED: Verdict.PASSED},
    "a late commit is passed": {Verdict.LATE: Verdict.PASSED},
    "a commit whose answer was lost is passed": {Verdict.OWN: Verdict.PASSED},
    "each commit counts as one's own": {Verdict.PASSED: Verdict.OWN},
    "the appender stops for a maintainer": {Verdict.PASSED: Verdict.REFUSED},
}


# What breaks a law in few of the schedules.
RARELY_WRONG = ("a late commit is passed", "files that are gone are replaced")


def each(wrong: Mapping[str, Any]) -> list[Any]:
    """The parameters of a test, under their names."""
    return [
        pytest.param(
            *(what if isinstance(what, tuple) else (what,)),
            id=name,
            marks=pytest.mark.long if name in RARELY_WRONG else (),
        )
        for name, what in wrong.items()
    ]


@pytest.mark.parametrize("change", each(WRONG_JUDGEMENTS))
@pytest.mark.slow
def test_a_wrong_judgement_breaks_a_law(
    change: Mapping[Verdict, Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "judge", judged(change))
    monkeypatch.setattr(writer, "judge", judged(change))
    assert broken(range(WRONG_MAX)) is not None


def test_among_a_hundred_writers_an_overtaken_one_that_goes_on_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change = judged(WRONG_JUDGEMENTS["an overtaken writer goes on"])
    monkeypatch.setattr(fence, "judge", change)
    monkeypatch.setattr(writer, "judge", change)
    assert broken(range(CROWDED), CROWD) is not None


def _no_epochs(table: Any) -> tuple[int, dict[str, int]]:
    return table.version, {}


def _skip_blindly(self: Any) -> None:
    self._judged = self._table.version


def _stand_blindly(self: Any, version: int, began: float) -> None:
    self._judged, self._looked_at, self._unsure = version, began, False


def _progress_first(self: Schedule, table: Any) -> tuple[TableWriter, int]:
    first = progress(table)
    return TableWriter(table, APPENDER, carries=LAST), first


WRONG_STEPS: dict[str, tuple[Any, str, Any]] = {
    "epochs begin anew": (writer, "known_epochs", _no_epochs),
    "cleaned commits are skipped unseen": (TableWriter, "_skip_cleaned", _skip_blindly),
    "a pause within a commit goes unnoticed": (TableWriter, "_stands", _stand_blindly),
    "files that are gone are replaced": (writer, "_removes", lambda found, wanted: False),
    "progress is read before the epoch is taken": (Schedule, "take_over", _progress_first),
}


@pytest.mark.parametrize(("owner", "name", "wrong"), each(WRONG_STEPS))
@pytest.mark.slow
def test_a_wrong_step_breaks_a_law(
    owner: Any, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    assert broken(range(WRONG_MAX)) is not None
