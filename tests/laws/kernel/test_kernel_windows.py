"""What the law of every operator leaves out of windows: updates, and the making of many windows a few at a time."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import oracle
from headrace.description import WindowedAggregate
from headrace.fold.windows import merge_panes
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import SECOND, Sequenced, World, worlds
from tests.laws.kernel.plans import ONE_GO, Plan, frontiers, plans
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T, U, whole, window_subjects
from tests.laws.kernel.verdict import Verdict, same_rows
from tests.oracle.log_oracle import Arrival, Commit, sequence

pytestmark = pytest.mark.fast

EXAMPLES = settings(max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "12")), deadline=None)
SUBJECTS = {subject.name: subject for subject in window_subjects(T.stream, T.merge(U))}
TOTALS: dict[str, Any] = {
    "n": hr.count(),
    "total": hr.sum("value"),
    "lowest": hr.min("value"),
    "highest": hr.max("value"),
    "mean": hr.avg("value"),
}
# Size, advance and grace in seconds: tumbling, with grace, hopping, uneven, many windows of one pane.
SHAPES = st.sampled_from([(10, 10, 0), (6, 6, 5), (10, 5, 3), (10, 4, 0), (9, 2, 2), (7, 1, 1)])


def node(shape: tuple[int, int, int], stream: Any = T, **policy: Any) -> WindowedAggregate:
    size, advance, grace = (seconds * SECOND for seconds in shape)
    made = stream.group_by("key").window(hr.hopping(size, advance), grace=grace).aggregate(**TOTALS)
    suppressed: WindowedAggregate = made.suppress(hr.until_window_closes(**policy))
    return suppressed.named("windows")


@EXAMPLES
@given(worlds(whole, pa.int64()), plans())
def test_windows_made_a_few_at_a_time(world: World, plan: Plan) -> None:
    verdict = Verdict(Reading(SUBJECTS["many_windows"].node, world))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_panes, "PIECES_MAX", 3)
        verdict.check(plan)


@EXAMPLES
@given(worlds(whole, pa.int64()), plans(), SHAPES)
def test_what_windows_were_worth_after_each_micro_batch(
    world: World, plan: Plan, shape: tuple[int, int, int]
) -> None:
    reading = Reading(replace(node(shape), suppression=None), world)
    operator: Any = reading.operator.kernel
    found = run(operator.steps, reading, plan)
    latest: dict[Any, Any] = {}
    for row in operator.updates(found.state[0]["panes"], found.clock).sort_by("__batch").to_pylist():
        latest[row["key"], row["window_start"]] = row
    wanted = oracle.results(reading.node, reading.log)
    still = {(row["key"], row["window_start"]) for row in wanted.open}
    same_rows([row for window, row in latest.items() if window in still], wanted.open)


@pytest.mark.parametrize("sizes", [(1,), (2,), (1000,)])
def test_a_record_that_is_late_for_its_first_window_enters_the_next_one_alone(sizes: tuple[int, ...]) -> None:
    """Partition 1 holds all windows open; in partition 0 the window [0, 10) is over before the second record of 7."""
    seconds = [(0, 7), (1, 0), (0, 21), (0, 7), (1, 30), (0, 100), (1, 100)]
    commits = [
        Commit(1_000_000 + number, [Arrival(partition, "a", at * SECOND, number)])
        for number, (partition, at) in enumerate(seconds)
    ]
    world = World([Sequenced("t", sequence(commits, None, 0))], pa.int64())
    verdict = Verdict(Reading(node((10, 5, 10)), world))
    verdict.check(Plan(sizes=sizes))
    counts = {row["window_start"].timestamp(): row["n"] for row in verdict.wanted.rows}
    assert (counts[0], counts[5]) == (2, 2)


@pytest.mark.parametrize("shape", [(10, 10, 0), (10, 5, 0)])
def test_a_row_of_a_moment_before_1970_enters_no_window(shape: tuple[int, int, int]) -> None:
    """A topic refuses such records; a node that is read may give one, of a timer that stream time calls early."""
    commits = [Commit(1_000_000 + at, [Arrival(0, "a", at * SECOND, at)]) for at in (-12, -1, 3, 30)]
    world = World([Sequenced("t", sequence(commits, None, 0))], pa.int64())
    verdict = Verdict(Reading(node(shape), world))
    verdict.check(ONE_GO)
    verdict.check_late()
    assert [*verdict.wanted.fates.values()] == ["late", "late", "used", "open"]


def test_frontiers_cut_whole_commits() -> None:
    assert frontiers(World([], pa.float64()), ONE_GO) == []
