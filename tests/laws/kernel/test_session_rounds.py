"""Sessions after each log commit cost no more than the rows, and the sessions that these touch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace.engine.folding.exchange import exchanged
from headrace.fold.contract import BATCH
from headrace.operators.sessions.fold import each_commit
from headrace.operators.sessions.fold.merge_sessions import merge_sessions
from headrace.operators.sessions.fold.open_sessions import OPEN
from tests.laws.kernel.logs import Sequenced, World
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

COMMITS, KEYS = 40, 100


def merges(
    changes: bool, gap: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[int, int]]:
    """A log commit has `KEYS` keys. Then come others, one a second, which are folded in one go.

    In:  keys  of each of the others the key of its one record
    Out: of each merge within the second fold how many records and how many sessions it takes
    """
    counts = T.group_by("key").window(hr.session(gap), grace="1 hour").aggregate(n=hr.count())
    bound = hr.until_window_closes(max_records=9_999, when_full="shut_down")
    node: Any = counts.changes() if changes else counts.suppress(bound)
    commits = [
        Commit(1_000 * (1 + at), [Arrival(0, key, 1_000 * at, at) for key in each])
        for at, each in enumerate([[str(key) for key in range(KEYS)], *([key] for key in keys)])
    ]
    world = World([Sequenced("t", sequence(commits, None, 60_000), [])], pa.int64())
    reading = Reading(node.named("it"), world)
    (step,) = reading.operator.steps
    state, found = step.state[OPEN].empty(), list[tuple[int, int]]()

    def counted(kept: pa.Table, known: pa.Table, shape: Any) -> Any:
        found.append((kept.num_rows, known.num_rows))
        return merge_sessions(kept, known, shape)

    monkeypatch.setattr(each_commit, "merge_sessions", counted)
    for before, upto_ms in (({}, 1_000), ({"t": 1_000}, 1_000 * (1 + len(keys)))):
        found.clear()
        rows, times = reading.increment(before, {"t": upto_ms})
        (keyed,) = exchanged(step, rows, None, 1)
        gained = step.fold(keyed, {OPEN: state}, times).changes[OPEN]
        zeros = pa.nulls(gained.num_rows, pa.int32()).fill_null(0)
        state = step.state[OPEN].merge(gained.append_column(BATCH, zeros))
    return found


@pytest.mark.parametrize("changes", [False, True])
def test_commits_of_groups_that_do_not_meet_are_folded_at_once(
    changes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [str(at % 20) for at in range(COMMITS)]
    # Two rounds of 20 groups. The second finds the sessions of the state, and those that the first has made.
    assert merges(changes, "500 ms", keys, monkeypatch) == [(20, 20), (20, 40)]


@pytest.mark.parametrize("changes", [False, True])
def test_a_group_that_each_commit_touches_meets_its_own_sessions_alone(
    changes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert merges(changes, "5 seconds", ["7"] * COMMITS, monkeypatch) == [(1, 1)] * COMMITS
