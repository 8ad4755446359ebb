"""Cutting all groups at once, by links that are followed in doubling jumps, equals cutting record by record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.operators.batches.fold.cut_batches import (
    BY_BYTES,
    BY_COUNT,
    BY_DRAIN,
    BY_NEXT,
    BY_WAIT,
    OPEN,
    Begun,
    cut,
)
from headrace.operators.batches.fold.limits import Limits
from headrace.operators.batches.fold.line import Line

pytestmark = pytest.mark.fast

UPTO = 131
Record = tuple[int, int]  # commit time, bytes
Held = tuple[int, int, int]  # opened at, records, bytes
Case = tuple[list[list[Record]], list[Held | None], Limits, list[int]]
Closed = tuple[int, int] | None


@dataclass
class Batch:
    """One batch as the law describes it."""

    opened: int
    n: int = 0
    size: int = 0
    own: int = 0
    held: bool = False
    closed: Closed = None


def cut_one_by_one(
    records: list[Record], held: Held | None, limits: Limits, drains: list[int], upto: int
) -> list[Batch]:
    """The batches of one group, record by record (the law: `headrace.description.Batches`)."""
    batches: list[Batch] = []
    now = None if held is None else Batch(held[0], held[1], held[2], held=True)

    def ends_before(batch: Batch, at: int) -> Closed:
        """What closes a batch before a record that comes then."""
        ends = [(d, 1, BY_DRAIN) for d in drains if batch.opened <= d < at]
        deadline = None if limits.max_wait_ms is None else batch.opened + limits.max_wait_ms
        if limits.every_ms is not None:
            deadline = next(beat for beat in range(0, 1_000, limits.every_ms) if beat > batch.opened)
        if deadline is not None and deadline <= at:
            ends.append((deadline, 0, BY_WAIT))
        return (min(ends)[2], min(ends)[0]) if ends else None

    for at, size in records:
        if now is not None:
            now.closed = ends_before(now, at)
            if now.closed is None and limits.max_bytes is not None and now.size + size > limits.max_bytes:
                now.closed = BY_NEXT, at
            if now.closed is not None:
                batches.append(now)
                now = None
        now = now or Batch(at)
        now.n, now.size, now.own = now.n + 1, now.size + size, now.own + 1
        if limits.max_records is not None and now.n >= limits.max_records:
            now.closed = BY_COUNT, at
        elif limits.max_bytes is not None and now.size >= limits.max_bytes:
            now.closed = BY_BYTES, at
        if now.closed is not None:
            batches.append(now)
            now = None
    if now is not None:
        now.closed = ends_before(now, upto + 1)
        if now.closed == (BY_WAIT, upto + 1):
            now.closed = None
        batches.append(now)
    return batches


@st.composite
def cases(draw: st.DrawFn, groups: int = 3) -> Case:
    """What came to each group, what was open before, and the drains."""
    time_ms, beats = draw(st.none() | st.integers(1, 12)), draw(st.booleans())
    limits = Limits(
        draw(st.none() | st.integers(1, 4)),
        None if beats else time_ms,
        draw(st.none() | st.integers(1, 12)),
        time_ms if beats else None,
    )
    record = st.tuples(st.integers(50, 65).map(lambda half: 2 * half), st.integers(0, 7))
    records = [sorted(draw(st.lists(record, max_size=12)), key=lambda each: each[0]) for _ in range(groups)]
    n = st.integers(1, 10 if limits.max_records is None else max(1, limits.max_records - 1))
    size = st.integers(0, 10 if limits.max_bytes is None else limits.max_bytes - 1)
    beat = limits.every_ms
    before = st.integers(max(0, 100 - (limits.max_wait_ms or 50)) if beat is None else 99 - 99 % beat, 99)
    held: list[Held | None] = []
    for _ in range(groups):
        opened = draw(st.none() | st.tuples(before, n, size))
        held.append(None if limits.max_records == 1 else opened)
    times = sorted({at for group in records for at, _ in group})
    drain = st.integers(100, UPTO)
    if times:  # also at the very commit time of records, as the logs of several topics have it
        drain |= st.sampled_from(times)
    return records, held, limits, draw(st.lists(drain, unique=True, max_size=3).map(sorted))


@given(case=cases())
@example(case=([[(100, 1)] * 12], [None], Limits(1, None, None), []))
@example(case=([[(100, 1), (130, 1)]], [None], Limits(None, 1, None), []))
@example(case=([[], [(102, 3)]], [(99, 1, 3), (99, 2, 11)], Limits(None, None, 12), [130]))
@example(case=([[(100, 1), (110, 1)], [(100, 1), (109, 1)]], [None, None], Limits(None, 10, None), []))
def test_all_groups_at_once_equal_each_record_by_record(case: Case) -> None:
    records, held, limits, drains = case
    group = np.repeat(np.arange(len(held)), [len(each) for each in records])
    every = [record for each in records for record in each]
    at, size = (np.array([record[i] for record in every], np.int64) for i in range(2))
    line = Line(group, at, size, len(held))
    known = [(number, each) for number, each in enumerate(held) if each is not None]
    of = np.array([number for number, _ in known], np.int64)
    opened = Begun(
        of, line.starts[of], *(np.array([each[i] for _, each in known], np.int64) for i in range(3))
    )
    found = cut(line, opened, limits, np.array(drains, np.int64), UPTO)

    got = [
        (
            int(found.begun.group[i]),
            int(found.begun.opened_ms[i]),
            int(found.begun.records[i] + found.new_records[i]),
            int(found.new_records[i]),
            bool(found.continued[i]),
            None if found.closed_by[i] == OPEN else (int(found.closed_by[i]), int(found.closed_ms[i])),
        )
        for i in range(len(found.end))
    ]
    assert got == [
        (number, each.opened, each.n, each.own, each.held, each.closed)
        for number, came in enumerate(records)
        for each in cut_one_by_one(came, held[number], limits, drains, UPTO)
    ]


def test_a_group_of_many_batches_is_cut_in_few_rounds() -> None:
    n = 200_000
    none = np.zeros(0, np.int64)
    line = Line(np.zeros(n, np.int64), np.arange(n), np.ones(n, np.int64), 1)
    found = cut(line, Begun(none, none, none, none, none), Limits(1, None, None), none, n)
    assert len(found.end) == n
    assert (found.closed_by == BY_COUNT).all()
