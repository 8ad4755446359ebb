"""The matrix itself: a round of kills misses no step, four rounds miss no node, and the table adds up what was found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from signal import SIGKILL
from time import monotonic

import pytest

from headrace.lifecycle.backfills.backfill_plan import DayVerdict
from tests.faults.beside import equal_backfills
from tests.faults.lives import CAUGHT_UP, NODE_STEPS, REST, Life, Place, live, orders, targets
from tests.faults.pipeline import NAMES, pipeline
from tests.faults.results import BEGIN, END, HELD, Line, append, kept, times, write_table
from tests.faults.stream import Order, told
from tests.faults.traffic import portion
from tests.faults.trials import some_nodes
from tests.faults.verdict import Verdict

pytestmark = pytest.mark.fast

PLACE = Place("nowhere:1", "file:/lake", "p", Path("/p"), ("final", "totals", "joined"))
LINE = Line("SIGKILL", "file", 1, 20, HELD, 900, 4_000, 0, 0, 0, [1.0, 3.0], "abc", "2026-01-01", [])


def test_a_round_of_kills_takes_each_step_of_each_log_node_and_sink_once() -> None:
    for seed in range(5):
        some = orders(PLACE, Random(seed))
        assert sorted((o.asset, o.step) for o in some if o.asset) == sorted(targets(PLACE))
        assert any(o.after_s is not None for o in some)
    steps = Counter(asset for asset, _ in targets(PLACE))
    assert steps["stream/final_stream"] == len(NODE_STEPS)
    assert steps["log/p-readings"] == steps["log/p-stations"] == steps["kafka-p-results"] == 2
    assert steps["postgres-p_totals"] == 2


def test_four_seeds_in_a_row_take_every_node_once() -> None:
    for seed in (0, 7):
        assert sorted(name for at in range(4) for name in some_nodes(seed + at)) == sorted(NAMES)


def test_the_revised_pipeline_differs_where_a_rebuild_is_wanted() -> None:
    one, other = (pipeline("p", "nowhere:1", revised=revised) for revised in (False, True))
    changed = {name for name in NAMES if one[name].fingerprint() != other[name].fingerprint()}
    assert changed == {"limited", "early"}


def test_a_seed_decides_the_traffic() -> None:
    assert portion(3, 1) == portion(3, 1) != portion(3, 2)


def test_a_verdict_tells_what_is_missing_from_what_is_too_much() -> None:
    verdict = Verdict()
    verdict.compare("log", Counter("aab"), Counter("abbc"))
    assert (verdict.lost, verdict.doubled, verdict.rows, verdict.holds) == (1, 2, 3, False)
    assert verdict.words == ["log lacks 1: ['a']", "log has, and should not, 2: ['b', 'c']"]


def test_the_table_adds_up_what_was_found(tmp_path: Path) -> None:
    results, page = tmp_path / "results.jsonl", tmp_path / "page.md"
    append(LINE, results)
    append(replace(LINE, seed=2, times=5, lost=3, recovery_s=[9.0]), results)
    append(replace(LINE, storage="s3"), results)
    assert times(kept(results), "SIGKILL") == 45
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_table({"SIGKILL": "nothing lost", "never tried": "much"}, page, results)
    assert page.read_text().splitlines()[4:8] == [
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        "| SIGKILL | nothing lost | file | 25 | 2 | 8,000 | 3 | 0 | 0 | 3.0 s, 9.0 s |",
        "| SIGKILL | nothing lost | s3 | 20 | 1 | 4,000 | 0 | 0 | 0 | 2.0 s, 3.0 s |",
        "| never tried | much | - | 0 | 0 | - | - | - | - | - |",
    ]


def test_a_backfill_that_found_other_rows_fails_its_trial() -> None:
    same = DayVerdict(None, True, 3, 3, 0, (), swapped=False)
    other = DayVerdict(None, False, 3, 3, 1, ("log has (1)",), swapped=True)
    assert equal_backfills("\n".join([told("final", [same, same]), told("totals", [same]), "round 1"])) == 2
    with pytest.raises(AssertionError, match="totals"):
        equal_backfills("\n".join([told("final", [same]), told("totals", [same, other])]))


class Dying:
    """A process that has said something, and is dead or, if it was at rest first, alive."""

    began = ended = 0.0

    def __init__(self, where: str) -> None:
        self.process, self.orders, self._where = self, list[Order](), where

    def go(self, order: Order) -> None:
        self.orders.append(order)
        self.began = monotonic()

    def said(self) -> str:
        return CAUGHT_UP if self._where == REST else f"dies at {self._where}\n"

    def poll(self) -> int | None:
        return None if self._where == REST else -SIGKILL

    def end(self) -> int:
        return -SIGKILL


def test_a_kill_whose_step_never_came_is_none_and_is_tried_again_at_its_first_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Place, "made", lambda place: place)
    life = Life(PLACE, 1)
    every = [Dying(where) for where in (REST, "stream/final_stream: after state", REST, REST, "a moment")]
    left = iter(every)
    monkeypatch.setattr(life, "next", lambda: next(left))
    monkeypatch.setattr(life, "traffic", lambda readings: None)
    monkeypatch.setattr(life, "drained", Verdict)
    step = Order("stream/final_stream", "after state", 2)
    live(life, [step, Order(after_s=1.0), step])
    assert [order.time for dying in every for order in dying.orders] == [2, 1, 1, 2, 1]
    assert (life.times, life.rests) == (2, 3)
