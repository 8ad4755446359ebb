"""The note of an act, without Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from headrace.changing.acts import (
    DONE,
    UNDONE,
    Act,
    ChangedNode,
    acts_under_way,
    begin_act,
    last_act,
    write_act,
)
from headrace.changing.comparing.compare_generations import Differences
from headrace.lake import small_files
from headrace.lake.paths import Lake

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.fast


def test_a_note_holds_numbers_and_no_values_of_rows(tmp_path: Path) -> None:
    """An erasure finds keys in tables, and not in notes."""
    lake = Lake(f"file:{tmp_path}")
    found = Differences(3, 2, 0, 1, 1, examples=("before: sensor_id=ann, n=2",))
    act = write_act(lake, Act(1, "none", 2, (ChangedNode("totals", "a", "b", asdict(found)),)))
    assert Differences(**act.nodes[0].differences) == found
    (name,) = small_files.names(lake.changes_applied)
    assert "ann" not in str(small_files.read_json(f"{lake.changes_applied}/{name}"))
    noted = last_act(lake)
    assert noted is not None
    assert str(Differences(**noted.nodes[0].differences)) == str(Differences(3, 2, 0, 1, 1))


@pytest.mark.parametrize("second_ms", [5, 3])
def test_an_act_of_the_same_moment_or_by_a_clock_put_back_is_the_last_one(
    tmp_path: Path, second_ms: int
) -> None:
    lake = Lake(f"file:{tmp_path}")
    first, second = (begin_act(lake, _of(node, ms)) for node, ms in (("totals", 5), ("finals", second_ms)))
    write_act(lake, replace(first, state=DONE))
    assert len(small_files.names(lake.changes_applied)) == 2
    assert last_act(lake) == second


def test_each_process_notes_an_act_of_its_own(tmp_path: Path) -> None:
    lake, together = Lake(f"file:{tmp_path}"), Barrier(8)

    def begin(number: int) -> Act:
        together.wait()
        return begin_act(lake, _of(f"node_{number}", 5))

    with ThreadPoolExecutor(8) as pool:
        begun = [*pool.map(begin, range(8))]
    names = small_files.names(lake.changes_applied)
    assert names == sorted(f"{act.began_ms:015}.json" for act in begun)
    assert len({*names}) == 8


def test_an_act_is_that_of_the_pipeline_whose_nodes_it_names(tmp_path: Path) -> None:
    """Before, the lake's newest act alone was looked at, whatever pipeline it was of."""
    lake = Lake(f"file:{tmp_path}")
    first, second = begin_act(lake, _of("totals", 5)), begin_act(lake, _of("finals", 6))
    assert last_act(lake) == last_act(lake, ["finals", "others"]) == second
    assert last_act(lake, ["totals"]) == first
    assert last_act(lake, ["others"]) is None
    write_act(lake, replace(second, state=DONE))
    assert acts_under_way(lake, ["totals", "finals"]) == [first]
    assert acts_under_way(lake, ["finals"]) == []


@pytest.mark.parametrize("state", [DONE, UNDONE])
def test_an_act_over_whose_nodes_there_is_a_later_one_is_not_under_way(tmp_path: Path, state: str) -> None:
    lake = Lake(f"file:{tmp_path}")
    both = (ChangedNode("totals", "a", "b", {}), ChangedNode("finals", "a", "b", {}))
    begin_act(lake, replace(_of("totals", 5), nodes=both))
    write_act(lake, replace(begin_act(lake, _of("finals", 6)), state=state))
    assert acts_under_way(lake, ["totals", "finals"]) == []


def _of(node: str, began_ms: int) -> Act:
    return Act(began_ms, "none", 9, (ChangedNode(node, "a", "b", {}),))
