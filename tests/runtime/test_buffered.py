"""The figures of a suppression's buffer. No Spark."""

from __future__ import annotations

import pytest

from headrace.streams.status.buffered import MEANINGS, BufferFigures

pytestmark = pytest.mark.fast


def partition(records: int, size: int, emitted: int, early: int = 0) -> dict[str, int]:
    return {"records": records, "bytes": size, "emitted": emitted, "early": early}


def test_what_waits_is_summed_over_partitions_and_its_highest_and_average_over_micro_batches() -> None:
    figures = BufferFigures()
    assert figures.numbers() == {}
    figures.see({})
    assert figures.numbers() == {}
    figures.see({"0": partition(4, 40, 1), "1": partition(2, 20, 0)})
    figures.see({"0": partition(0, 0, 6), "1": partition(1, 10, 2, early=1)})
    assert figures.numbers() == {
        "suppression_buffer_count_current": 1,
        "suppression_buffer_count_avg": 3.5,
        "suppression_buffer_count_max": 6,
        "suppression_buffer_size_current": 10,
        "suppression_buffer_size_avg": 35.0,
        "suppression_buffer_size_max": 60,
        "suppression_emit_total": 8,
        "suppression_emit_early_total": 1,
    }
    assert figures.numbers().keys() == MEANINGS.keys()
