"""The clocks of a micro-batch, as the rows of the logs tell them, and the rows as the node dates them.

Law: each row of a log says the stream time of its partition up to and including itself, so the clock after a log commit
follows from the clock before it and from the commit's rows. If a commit has a tick of the partition, the tick says it: rows
of nodes may have clocks beyond (L32). L follows from the driving topics (see `fold.reader_time`), and a record of commit m
has stream time max(s(r), L(m - 1)) for the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import highest_by
from headrace.fold.contract import FATE, INGESTED, OFFSET, PARTITION, REASON, STREAM, TOPIC, Clock, Times
from headrace.fold.fates import BUSY, COMPLETE, DRAIN, IDLE, SET_LIMITS, TICK, has_fate, with_column
from headrace.fold.keys import combined, group
from headrace.fold.reader_time import TopicTime, lowest_after
from headrace.fold.segments import LOWEST
from headrace.fold.values.columns import int64

READ = [INGESTED, TOPIC, PARTITION, OFFSET, STREAM, FATE, REASON]


class Moved(NamedTuple):
    """One partition in one log commit: the highest stream time (LOWEST: none), and whether a record is there."""

    at_ms: int
    topic: str
    partition: int
    stream_ms: int
    has_records: bool


def times_of(
    feeds: Sequence[pa.Table],
    before: Clock,
    upto_ms: Mapping[str, int],
    limits: Sequence[tuple[int, str]],
    driving: Sequence[str],
) -> Times:
    """The clocks around an increment and after each of its log commits that has rows.

    In: feeds    rows of logs, as operators take them; several may have the same
        upto_ms  commit time through which each topic is read
        limits   rows of `Times.limits` that stand for all control rows before
        driving  the topics by whose stream time the node goes
    """
    rows = pa.concat_tables([feed.select(READ) for feed in feeds])
    decided = {fate: _decided(rows, fate) for fate in (COMPLETE, IDLE, BUSY)}
    clock, commits = before, list[tuple[int, Clock]]()
    for at_ms, steps in groupby(_moved(rows), key=attrgetter("at_ms")):
        moved = [*steps]
        stream_ms = dict(clock.stream_ms)
        for each in moved:
            if each.stream_ms != LOWEST:
                place = each.topic, each.partition
                stream_ms[place] = max(each.stream_ms, stream_ms.get(place, each.stream_ms))
        ends = {each.topic for each in moved if each.has_records} | decided[BUSY].get(at_ms, set())
        clock = Clock(
            {**clock.upto_ms, **{each.topic: at_ms for each in moved}},
            stream_ms,
            clock.complete | decided[COMPLETE].get(at_ms, set()),
            (clock.idle - ends) | decided[IDLE].get(at_ms, set()),
            clock.lowest_ms,
        )
        if not {each.topic for each in moved}.isdisjoint(driving):
            clock = replace(clock, lowest_ms=_lowest(clock, at_ms, driving))
        commits.append((at_ms, clock))
    after = replace(clock, upto_ms={**before.upto_ms, **upto_ms})
    if commits:
        commits[-1] = (commits[-1][0], after)
    drains = rows.filter(pa.array(has_fate(rows, DRAIN)))
    set_here = rows.filter(pa.array(has_fate(rows, SET_LIMITS)))
    entries = zip(set_here[INGESTED].to_pylist(), set_here[REASON].to_pylist(), strict=True)
    drained = sorted({*drains[INGESTED].to_pylist()})
    return Times(before, after, commits, drained, [*limits, *sorted({*entries})])


def raised(rows: pa.Table, times: Times, driving: Sequence[str]) -> pa.Table:
    """The rows with the stream times that they have for the node: not below L before their commit.

    With one driving topic a log's own stream times are not below it (L4).
    """
    if len(driving) < 2 or not rows.num_rows or times.after.lowest_ms is None:
        return rows
    at_ms = np.array([ms for ms, _ in times.commits], np.int64)
    clocks = (times.before, *(clock for _, clock in times.commits))
    lowest = np.array([LOWEST if of.lowest_ms is None else of.lowest_ms for of in clocks], np.int64)
    own, there = int64(rows[STREAM], LOWEST), rows[STREAM].is_valid().to_numpy()
    floor = lowest[np.searchsorted(at_ms, int64(rows[INGESTED]))]
    return with_column(rows, STREAM, pa.array(np.maximum(own, floor), mask=~there))


def _lowest(clock: Clock, at_ms: int, driving: Sequence[str]) -> int | None:
    lowest: dict[str, int] = {}
    for (topic, _), ms in clock.stream_ms.items():
        lowest[topic] = min(ms, lowest.get(topic, ms))
    topics: list[TopicTime] = [(lowest.get(topic), topic in clock.idle) for topic in driving]
    return lowest_after(clock.lowest_ms, at_ms, topics)


def _decided(rows: pa.Table, fate: str) -> dict[int, set[str]]:
    """For each commit time the topics that have a control row of this kind."""
    found: dict[int, set[str]] = {}
    of = rows.filter(pa.array(has_fate(rows, fate)))
    for at_ms, topic in zip(of[INGESTED].to_pylist(), of[TOPIC].to_pylist(), strict=True):
        found.setdefault(at_ms, set()).add(topic)
    return found


def _counting(rows: pa.Table, codes: np.ndarray) -> np.ndarray:
    """The stream time that each row says; LOWEST where a tick says it for the row's partition and commit."""
    stream_ms, is_tick = int64(rows[STREAM], LOWEST), has_fate(rows, TICK)
    if is_tick.any():
        has_tick = np.zeros(int(codes.max()) + 1, bool)
        has_tick[codes[is_tick]] = True
        stream_ms = np.where(has_tick[codes] & ~is_tick, LOWEST, stream_ms)
    return stream_ms


def _moved(rows: pa.Table) -> list[Moved]:
    """The content of each log commit by partition, in order."""
    if not rows.num_rows:
        return []
    groups = combined(int64(rows[INGESTED]), group(rows[TOPIC]).codes, int64(rows[PARTITION]))
    highest = highest_by(groups.codes, len(groups), _counting(rows, groups.codes))
    records = np.bincount(groups.codes, rows[OFFSET].is_valid().to_numpy(), len(groups)) > 0
    first = rows.select([INGESTED, TOPIC, PARTITION]).take(pa.array(groups.first))
    columns = (*(first[name].to_pylist() for name in first.column_names), np.asarray(highest).tolist())
    return sorted(map(Moved, *columns, records.tolist()))
