"""Cutting all groups at once, round by round or in Spark, equals cutting each record by record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.operators.batches.columnar import REASONS
from headrace.operators.batches.cut import Cutter
from headrace.operators.batches.place import open_state
from headrace.operators.batches.rounds import Limits, Opened, cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UPTO = 131
VISITS = hr.Topic("visits", key="visitor STRING", value="page STRING")
Record = tuple[int, int]  # commit time, bytes
Held = tuple[int, int, int]  # opened at, records, bytes
Case = tuple[list[list[Record]], list[Held | None], Limits, list[int]]


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
def cases(draw: st.DrawFn, groups: int) -> Case:
    """What came to each group, what was open before, and the drains."""
    limits = Limits(
        draw(st.none() | st.integers(1, 4)),
        draw(st.none() | st.integers(1, 12)),
        draw(st.none() | st.integers(1, 12)),
    )
    record = st.tuples(st.integers(50, 65).map(lambda half: 2 * half), st.integers(0, 7))
    records = [sorted(draw(st.lists(record, max_size=12)), key=lambda each: each[0]) for _ in range(groups)]
    n = st.integers(1, 10 if limits.max_records is None else max(1, limits.max_records - 1))
    size = st.integers(0, 10 if limits.max_bytes is None else limits.max_bytes - 1)
    before = st.integers(max(0, 100 - (limits.max_wait_ms or 50)), 99)
    held: list[Held | None] = []
    for _ in range(groups):
        opened = draw(st.none() | st.tuples(before, n, size))
        held.append(None if limits.max_records == 1 else opened)
    times = sorted({at for group in records for at, _ in group})
    drain = st.integers(100, 131)
    if times:  # also at the very commit time of records, as the logs of several topics have it
        drain |= st.sampled_from(times)
    return records, held, limits, draw(st.lists(drain, unique=True, max_size=3).map(sorted))


def wanted(case: Case) -> list[tuple[object, ...]]:
    """Every batch, by group and in order: as `expected` says it."""
    records, held, limits, drains = case
    return [
        (group, each.opened, each.n, each.size, each.own, each.held, each.closed)
        for group, came in enumerate(records)
        for each in expected(came, held[group], limits, drains, UPTO)
    ]


@settings(max_examples=400)
@given(case=cases(3))
def test_rounds_cut_as_the_law_says(case: Case) -> None:
    records, held, limits, drains = case
    known = [each for each in held if each is not None]
    row = np.full(len(held), -1)
    row[[group for group, each in enumerate(held) if each is not None]] = np.arange(len(known))
    opened = Opened(row, *(np.array([each[i] for each in known], np.int64) for i in range(3)))
    group = np.repeat(np.arange(len(held)), [len(each) for each in records])
    every = [record for each in records for record in each]
    at, size = (np.array([record[i] for record in every], np.int64) for i in range(2))
    found = cut(group, at, size, opened, limits, np.array(drains, np.int64), UPTO)

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
    assert got == wanted(case)
    lasts = [
        i for i in range(len(found.group)) if i + 1 == len(found.group) or found.group[i + 1] > found.group[i]
    ]
    assert np.flatnonzero(found.last).tolist() == lasts


@pytest.mark.spark
@settings(max_examples=12)
@given(case=cases(24))
def test_spark_cuts_as_the_law_says(spark: SparkSession, case: Case) -> None:
    records, held, limits, drains = case
    assume(limits != Limits(None, None, None))
    node = VISITS.stream.group_by().batch(
        collect=["page"],
        max_records=limits.max_records,
        max_wait=None if limits.max_wait_ms is None else f"{limits.max_wait_ms} ms",
        max_bytes=limits.max_bytes,
    )
    came = [
        (str(group), at, group, offset, size, at)
        for group, each in enumerate(records)
        for offset, (at, size) in enumerate(each)
    ]
    columns = "visitor STRING, __ingested_ms LONG, __partition INT, __offset LONG, __size_bytes LONG, __event_ms LONG"
    kept = spark.createDataFrame(came, columns)
    before = [
        (str(group), each[0], group, -1, each[1], each[2], each[0], [(group, each[1])], None)
        for group, each in enumerate(held)
        if each is not None
    ]
    kinds = ", ".join(f"{name} {kind}" for name, kind in open_state(node).items())
    state = spark.createDataFrame(before, f"visitor STRING, {kinds}")
    found = Cutter(node, collect=False).cut(kept, state, drains=drains, upto_ms=UPTO).collect()

    opened = [0 if each is None else each[1] for each in held]
    got = [
        (
            of,
            row["__opened_ms"],
            row["__records"],
            row["__bytes"],
            row["__records"] - opened[of] * row["__held"],
            row["__held"],
            None if row["__closed_by"] is None else (row["__closed_by"], row["__closed_ms"]),
        )
        for row in found
        for of in [int(row["visitor"])]
    ]
    assert Counter(got) == Counter(wanted(case))
