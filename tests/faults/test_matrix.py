"""The matrix itself: a round of kills misses no step, four rounds miss no node, and the table adds up what was found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.faults.lives import NODE_STEPS, Place, orders, targets
from tests.faults.pipeline import NAMES, pipeline
from tests.faults.results import BEGIN, END, HELD, Line, append, kept, times, write_table
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
    assert steps["stream/final"] == len(NODE_STEPS)
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
        "",
    ]
