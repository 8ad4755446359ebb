"""A state that is written anew takes no node back: its writer may have been paused. No Spark, and no rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.engine.state_files import StateSource
from headrace.errors import TransientError
from headrace.lake.commits.fence import FencedError
from headrace.lake.paths import Lake
from headrace.lifecycle import rewrite_state as rewriting
from headrace.lifecycle.rewrite_state import rewrite_state
from headrace.nodes.progress import Progress
from headrace.nodes.standing.state_commits import state_record
from headrace.writing.fold_aside import Standing
from tests.changing.held import NO_SPARK, hold

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE")
TOTALS: Any = READINGS.group_by("sensor_id").aggregate(n=hr.count()).named("totals")
STOOD, WENT_ON = (Progress(batch, upto_ms={"readings": batch * 10}) for batch in (1, 2))


class Unused:
    """A node's table of records that it cannot use: there are none."""

    def __init__(self, *_: object) -> None:
        """It holds nothing."""

    def hold(self, rows: object) -> int:
        """There is nothing to forget."""
        return 0


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    lake = Lake(f"file:{tmp_path}")
    hold(lake, TOTALS, progress=STOOD)
    monkeypatch.setattr(rewriting, "settled_ms", lambda *_: 100)
    monkeypatch.setattr(rewriting, "UnusableTable", Unused)
    monkeypatch.setattr(rewriting, "bound", lambda *_: SimpleNamespace(operator=SimpleNamespace(kept=())))
    return lake


def folded(lake: Lake) -> Any:
    """The outcome of a fold through where the tables stood."""
    nothing: Any = None
    return Standing(nothing, nothing, StateSource(lake.state("totals")), STOOD, (), lambda: None)


def goes_on(lake: Lake) -> None:
    """Let another process end a micro-batch."""
    state = lakes.TableWriter(lakes.open_table(lake.state("totals")), lakes.APPENDER)
    state.append([], state_record(TOTALS, WENT_ON))


def reached(lake: Lake) -> int:
    """The last micro-batch."""
    commit = lakes.last_commit(lakes.open_table(lake.state("totals")), "node/totals")
    assert commit is not None
    return int(commit.record["progress"]["batch"])


def test_a_state_that_stands_where_it_stood_is_written_anew(lake: Lake) -> None:
    version = lakes.open_table(lake.state("totals")).version
    rewrite_state(NO_SPARK, lake, TOTALS, folded(lake))
    assert lakes.open_table(lake.state("totals")).version == version + 2, "the fence, and the state"
    assert reached(lake) == 1


def test_what_another_process_has_folded_since_stays(lake: Lake) -> None:
    """Its results have rows of log commits that the node would give again."""
    standing = folded(lake)
    goes_on(lake)
    with pytest.raises(TransientError, match="another process has written its state meanwhile"):
        rewrite_state(NO_SPARK, lake, TOTALS, standing)
    assert reached(lake) == 2


def test_what_another_process_folds_during_the_fold_stays(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fold(*_: object) -> Standing:
        goes_on(lake)
        standing: Standing = folded(lake)
        return standing

    monkeypatch.setattr(rewriting, "stand", fold)
    with pytest.raises(FencedError):
        rewrite_state(NO_SPARK, lake, TOTALS)
    assert reached(lake) == 2
