"""A tick that is asked for while an append is under way."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.log.bench import Bench

pytestmark = pytest.mark.fast


def test_a_record_that_came_during_a_long_append_keeps_its_partition_from_ticking(bench: Bench) -> None:
    """The tick is asked for while the append is under way: Kafka's ends are looked at after it, not before."""
    ends, asked, appending, may_commit = {0: 1, 1: 1}, list[int](), threading.Event(), threading.Event()

    def hold(step: str) -> None:
        if step == "before log commit":
            appending.set()
            assert may_commit.wait(60)

    def caught_up() -> frozenset[int]:
        asked.append(bench.sequencer.state.batch)
        states = bench.sequencer.state.partitions
        return frozenset(p for p, end in ends.items() if states[p].next_offset >= end)

    bench.append((0, 5), (1, 8))
    bench.sequencer = bench.opened_with(on_step=hold)
    before = bench.sequencer.state.batch
    raw = bench.batch((0, 6))
    with ThreadPoolExecutor(2) as threads:
        append = threads.submit(bench.sequencer.append, raw, in_order=True)
        assert appending.wait(60)
        tick = threads.submit(bench.sequencer.tick, caught_up)
        bench.clock.ms += 60_000
        ends.update({0: 2, 1: 2})  # partition 1 has a record that nobody has read
        may_commit.set()
        append.result(60)
        assert tick.result(60) == 1
    assert asked == [before + 1]
    assert [row["partition"] for row in bench.rows("tick")] == [0]
