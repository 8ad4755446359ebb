"""Cutting all groups at once, round by round, equals cutting each record by record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.batches.columnar import REASONS
from headrace.operators.batches.rounds import Limits, Opened, cut

GROUPS = 3
Record = tuple[int, int]  # commit time, bytes
Held = tuple[int, int, int]  # opened at, records, bytes


@dataclass
class Batch:
    """One batch as the law says it."""

    opened: int
    n: int = 0
    size: int = 0
    own: int = 0
    held: bool = False
    closed: tuple[str, int] | None = None


def expected(
    records: list[Record], held: Held | None, limits: Limits, drains: list[int], upto: int
) -> list[Batch]:
    """Record by record (the law: `headrace.description.Batches`)."""
    batches: list[Batch] = []
    now = None if held is None else Batch(held[0], held[1], held[2], held=True)

    def ends_before(batch: Batch, at: int) -> tuple[str, int] | None:
        """What closes a batch before a record that comes then."""
        ends = [(d, 1, "drain") for d in drains if batch.opened <= d < at]
        if limits.max_wait_ms is not None and batch.opened + limits.max_wait_ms <= at:
            ends.append((batch.opened + limits.max_wait_ms, 0, "wait"))
        return (min(ends)[2], min(ends)[0]) if ends else None

    for at, size in records:
        if now is not None:
            now.closed = ends_before(now, at)
            if now.closed is None and limits.max_bytes is not None and now.size + size > limits.max_bytes:
                now.closed = "bytes", at
            if now.closed is not None:
                batches.append(now)
                now = None
        now = now or Batch(at)
        now.n, now.size, now.own = now.n + 1, now.size + size, now.own + 1
        if limits.max_records is not None and now.n >= limits.max_records:
            now.closed = "count", at
        elif limits.max_bytes is not None and now.size >= limits.max_bytes:
            now.closed = "bytes", at
        if now.closed is not None:
            batches.append(now)
            now = None
    if now is not None:
        waited = limits.max_wait_ms is not None and now.opened + limits.max_wait_ms <= upto
        drained = any(d >= now.opened for d in drains)
        now.closed = ends_before(now, upto + 1) if waited or drained else None
        batches.append(now)
    return batches


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[Record]], list[Held | None], Limits, list[int]]:
    limits = Limits(
        draw(st.none() | st.integers(1, 4)),
        draw(st.none() | st.integers(1, 12)),
        draw(st.none() | st.integers(1, 12)),
    )
    record = st.tuples(st.integers(50, 65).map(lambda half: 2 * half), st.integers(0, 7))
    records = [sorted(draw(st.lists(record, max_size=12)), key=lambda each: each[0]) for _ in range(GROUPS)]
    n = st.integers(1, 10 if limits.max_records is None else max(1, limits.max_records - 1))
    size = st.integers(0, 10 if limits.max_bytes is None else limits.max_bytes - 1)
    before = st.integers(max(0, 100 - (limits.max_wait_ms or 50)), 99)
    held: list[Held | None] = []
    for _ in range(GROUPS):
        opened = draw(st.none() | st.tuples(before, n, size))
        held.append(None if limits.max_records == 1 else opened)
    drain = st.integers(50, 64).map(
        lambda half: 2 * half + 1
    )  # a commit of its own, as in a log of one topic
    return records, held, limits, draw(st.lists(drain, unique=True, max_size=3).map(sorted))


@settings(max_examples=400)
@given(case=cases())
def test_rounds_cut_as_the_law_says(
    case: tuple[list[list[Record]], list[Held | None], Limits, list[int]],
) -> None:
    records, held, limits, drains = case
    upto = 131
    known = [each for each in held if each is not None]
    row = np.full(GROUPS, -1)
    row[[group for group, each in enumerate(held) if each is not None]] = np.arange(len(known))
    opened = Opened(row, *(np.array([each[i] for each in known], np.int64) for i in range(3)))
    group = np.repeat(np.arange(GROUPS), [len(each) for each in records])
    every = [record for each in records for record in each]
    at, size = (np.array([record[i] for record in every], np.int64) for i in range(2))
    found = cut(group, at, size, opened, limits, np.array(drains, np.int64), upto)

    wanted = [
        (g, b.opened, b.n, b.size, b.own, b.held, b.closed)
        for g in range(GROUPS)
        for b in expected(records[g], held[g], limits, drains, upto)
    ]
    got = [
        (
            int(found.group[i]),
            int(found.opened_ms[i]),
            int(found.records[i]),
            int(found.bytes[i]),
            int(found.end[i] - found.begin[i]),
            bool(found.held[i]),
            None if found.closed_by[i] < 0 else (REASONS[found.closed_by[i]], int(found.closed_ms[i])),
        )
        for i in range(len(found.group))
    ]
    assert got == wanted
    lasts = [
        i for i in range(len(found.group)) if i + 1 == len(found.group) or found.group[i + 1] > found.group[i]
    ]
    assert np.flatnonzero(found.last).tolist() == lasts
