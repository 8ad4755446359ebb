"""The guard between commits: its state in records or in a file, resets, and a guard that is new to a log."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake import small_files
from headrace.log.clock import ManualClock
from headrace.log.decisions import guard as guard_module
from headrace.log.sequencer import Sequencer
from headrace.sequence.replays.exact import ExactGuard
from headrace.sequence.replays.intervals import NOWHERE, Intervals, merged
from headrace.testing.piped import PipedTopic
from tests.no_spark import no_session
from tests.rows import log_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import SparkSession

PLAIN = (0, NOWHERE)  # the unit of records of the first root that were never flat-mapped
MONOTONE, EXACT = hr.ReplayGuard(), hr.ReplayGuard(mode="exact")


class Log:
    """A log of the topic `screws` in one partition, opened with one guard or another."""

    def __init__(self, folder: Path, spark: SparkSession | None = None) -> None:
        self.folder, self.spark = folder / "screws", spark or no_session()
        self.clock, self.path = ManualClock(1_714_564_800_000), f"file:{self.folder}"
        self.piped = PipedTopic(hr.Topic("screws", value="n INT"), {})

    def open(self, guard: hr.ReplayGuard | None) -> Sequencer:
        topic = hr.Topic("screws", value="n INT", replay_guard=guard)
        return Sequencer(self.spark, topic, self.path, self.clock)

    def verdicts(self, sequencer: Sequencer, *roots: str) -> list[bool]:
        """Commit a record for each root, `orders/0@12`, by way of parts/0; whether each was refused."""
        first = sequencer.state.partitions[0].next_offset if sequencer.state.partitions else 0
        for root in roots:
            place, _, offset = root.partition("@")
            topic, _, partition = place.partition("/")
            chain = json.dumps([[topic, int(partition), int(offset)], ["parts", 0, 0]])
            self.piped.add(None, b'{"n": 1}', 1_714_564_800_000, 0, {"source-chain": chain})
        sequencer.append(self.piped.take_here(), in_order=True)
        rows = (row for row in log_rows(self.path) if row["offset"] is not None and row["offset"] >= first)
        return [row["replay"] for row in sorted(rows, key=lambda row: row["offset"])]

    def record(self) -> dict[str, object]:
        commit = lakes.last_commit(lakes.open_table(self.path), "log/screws")
        assert commit is not None
        return dict(commit.record)

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "_guard").glob("*.json"))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.mark.fast
@pytest.mark.parametrize("guard", [MONOTONE, EXACT], ids=lambda guard: guard.mode)
def test_a_reset_is_a_control_row_and_holds_from_there_on_also_after_a_restart(
    log: Log, guard: hr.ReplayGuard
) -> None:
    sequencer = log.open(guard)
    log.verdicts(sequencer, "orders/0@5", "orders/1@5", "calls/0@5")
    assert sequencer.reset_guard("orders", 0) == [0]
    row = next(row for row in log_rows(log.path) if row["kind"] == "control")
    assert json.loads(row["control"]) == {
        "action": "reset_guard",
        "root_topic": "orders",
        "root_partition": 0,
    }
    assert (row["partition"], row["offset"]) == (0, None)
    everything = ("orders/0@5", "orders/1@5", "calls/0@5")
    assert log.verdicts(log.open(guard), *everything) == [False, True, True]
    sequencer = log.open(guard)
    assert sequencer.reset_guard("orders") == [0, 1]
    assert log.verdicts(sequencer, *everything) == [False, False, True]
    with pytest.raises(
        TerminalError, match=r"knows no root orders partition 7\.\nIt knows calls/0, orders/0, orders/1\."
    ):
        sequencer.reset_guard("orders", 7)
    with pytest.raises(TerminalError, match="no replay guard"):
        log.open(None).reset_guard("orders")


@pytest.mark.fast
def test_a_large_state_is_one_file_that_the_record_names(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "INLINE_CHARACTERS_MAX", 100)
    sequencer = log.open(MONOTONE)
    log.verdicts(sequencer, *(f"orders/{p}@5" for p in range(10)))
    assert log.files() == [log.record()["guard_file"]]
    log.verdicts(sequencer, "orders/0@6")
    assert log.files() == [log.record()["guard_file"]]
    first = log.files()
    log.verdicts(sequencer, "orders/0@7")
    assert log.files() == [log.record()["guard_file"]] != first
    left = [log.folder / "_guard" / f"left-by-crash-{number}.json" for number in range(2)]
    for path in left:
        path.write_text("{}")
    together, delete_files = list[list[str]](), small_files.delete_files

    def noted(uris: Iterable[str]) -> None:
        together.append([*uris])
        delete_files(together[-1])

    with monkeypatch.context() as patch:
        patch.setattr(small_files, "delete_files", noted)
        sequencer = log.open(MONOTONE)
    assert [f"file:{path}" for path in left] in together, "one request on an object store"
    assert log.files() == [log.record()["guard_file"]]
    assert log.verdicts(sequencer, "orders/0@7", "orders/0@8", "orders/9@5") == [True, False, True]
    sequencer.reset_guard("orders")
    assert log.files() == []
    assert log.verdicts(log.open(MONOTONE), "orders/0@0") == [False]


@pytest.mark.spark
def test_a_guard_of_another_mode_learns_from_the_log_what_the_first_has_seen(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log(tmp_path, spark)
    log.verdicts(log.open(None), "orders/0@1")
    sequencer = log.open(MONOTONE)
    assert log.verdicts(sequencer, "orders/0@5", "orders/0@1", "calls/0@5") == [False, True, False]
    sequencer.reset_guard("calls")
    exact = log.open(EXACT)
    assert log.verdicts(exact, "orders/0@5", "orders/0@4", "calls/0@5") == [True, False, False]
    assert log.verdicts(log.open(MONOTONE), "orders/0@5", "orders/0@6", "calls/0@5") == [True, False, True]


@pytest.mark.fast
def test_dead_letters_do_not_advance_the_guard(log: Log) -> None:
    sequencer = log.open(MONOTONE)
    chain = json.dumps([["orders", 0, 5], ["parts", 0, 0]])
    log.piped.add(None, b"{bad", 1_714_564_800_000, 0, {"source-chain": chain})
    log.piped.add(None, b'{"n": 1}', 1_714_564_800_000, 0, {"source-chain": '[["orders", 0, 9]'})
    assert log.verdicts(sequencer, "orders/0@5", "orders/0@5") == [False, False, False, True]


def intervals(unit: Sequence[int], *found: tuple[int, int]) -> Intervals:
    first, last = (np.array([ends[side] for ends in found], np.int64) for side in (0, 1))
    return Intervals(np.array([unit] * len(found), np.int64).reshape(len(found), -1), first, last)


def exact_guard(gaps_max: int, *found: Intervals) -> ExactGuard:
    return ExactGuard({("a-1", 0): 0}, merged(reduce(Intervals.joined, found))).bounded(gaps_max)


def state(guard: ExactGuard) -> Any:
    return guard.to_json()["roots"]


@pytest.mark.fast
def test_neighbouring_intervals_are_one() -> None:
    found = merged(intervals(PLAIN, (5, 6), (0, 2), (3, 3), (8, 9), (6, 7)))
    assert list(zip(found.first.tolist(), found.last.tolist(), strict=True)) == [(0, 3), (5, 9)]
    assert len(merged(Intervals.none())) == 0


@pytest.mark.fast
def test_too_many_intervals_raise_the_mark_above_the_lowest() -> None:
    seen = exact_guard(2, intervals(PLAIN, (0, 1), (3, 4), (6, 9), (11, 11)))
    assert state(seen) == [["a-1", 0, 5, {"": [(6, 9), (11, 11)]}, []]]
    of_units = [intervals([0, 7], (0, 3)), intervals([0, 8], (0, 0), (2, 2))]
    seen = exact_guard(2, intervals(PLAIN, (0, 20)), *of_units)
    assert state(seen) == [["a-1", 0, 9, {"": [(9, 20)]}, []]]
    again = seen.joined(exact_guard(9, intervals(PLAIN, (2, 3)), intervals([0, 30], (1, 1))))
    assert state(again) == [["a-1", 0, 9, {"": [(9, 20)], "30": [(1, 1)]}, []]]


@pytest.mark.fast
def test_guards_that_saw_other_records_are_joined() -> None:
    one = exact_guard(9, intervals(PLAIN, (0, 1)))
    two = ExactGuard({("b", 2): 7, ("a-1", 0): 0}, intervals([1, NOWHERE], (2, 3)), 9)
    assert sorted(state(one.joined(two))) == [["a-1", 0, 0, {"": [(0, 3)]}, []], ["b", 2, 7, {}, []]]


@pytest.mark.fast
def test_an_exact_state_is_read_back_as_it_was_written() -> None:
    guard = exact_guard(9, intervals(PLAIN, (0, 1)), intervals([0, 3], (0, 0)))
    guard = guard.joined(ExactGuard({("b", 2): 7}, gaps_max=9))
    assert ExactGuard.from_json(json.loads(json.dumps(guard.to_json())), 9) == guard
    with_digests = replace(guard, recent={("a-1", 0): (((), 1, (5, 6)), ((3,), 0, (7, 8)))})
    assert ExactGuard.from_json(json.loads(json.dumps(with_digests.to_json())), 9) == with_digests
