"""The clocks of a micro-batch, as the rows of the logs tell them.

Law: each row of a log says the stream time of its partition up to and including itself, so the clock after a log commit
follows from the clock before it and from the commit's rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.kind import highest_by
from headrace.fold.columns import int64
from headrace.fold.contract import FATE, INGESTED, PARTITION, REASON, STREAM, TOPIC, Clock, Times
from headrace.fold.fates import COMPLETE, DRAIN, SET_LIMITS, has_fate
from headrace.fold.keys import combined, group
from headrace.fold.segments import LOWEST

READ = [INGESTED, TOPIC, PARTITION, STREAM, FATE, REASON]


def times_of(
    feeds: Sequence[pa.Table], before: Clock, upto_ms: Mapping[str, int], limits: Sequence[tuple[int, str]]
) -> Times:
    """The clocks around an increment and after each of its log commits that has rows.

    In: feeds    rows of logs, as operators take them; several may have the same
        upto_ms  commit time through which each topic is read
        limits   rows of `Times.limits` that stand for all control rows before
    """
    rows = pa.concat_tables([feed.select(READ) for feed in feeds])
    stream_ms, reached = dict(before.stream_ms), dict(before.upto_ms)
    complete, completed = before.complete, _completed(rows)
    commits: list[tuple[int, Clock]] = []
    for at_ms, steps in groupby(_steps(rows), key=itemgetter(0)):
        for _, topic, partition, highest_ms in steps:
            reached[topic] = at_ms
            if highest_ms != LOWEST:
                stream_ms[topic, partition] = max(highest_ms, stream_ms.get((topic, partition), highest_ms))
        complete |= {topic for topic, complete_ms in completed if complete_ms == at_ms}
        commits.append((at_ms, Clock(dict(reached), dict(stream_ms), complete)))
    after = Clock({**before.upto_ms, **upto_ms}, stream_ms, complete)
    if commits:
        commits[-1] = (commits[-1][0], after)
    drains = rows.filter(pa.array(has_fate(rows, DRAIN)))
    set_here = rows.filter(pa.array(has_fate(rows, SET_LIMITS)))
    said = zip(set_here[INGESTED].to_pylist(), set_here[REASON].to_pylist(), strict=True)
    return Times(before, after, commits, sorted({*drains[INGESTED].to_pylist()}), [*limits, *sorted({*said})])


def _completed(rows: pa.Table) -> list[tuple[str, int]]:
    """The topics that become complete, and when."""
    said = rows.filter(pa.array(has_fate(rows, COMPLETE)))
    return [*zip(said[TOPIC].to_pylist(), said[INGESTED].to_pylist(), strict=True)]


def _steps(rows: pa.Table) -> Sequence[tuple[int, str, int, int]]:
    """Commit time, topic, partition and the highest stream time that is told there, in order."""
    if not rows.num_rows:
        return []
    groups = combined(int64(rows[INGESTED]), group(rows[TOPIC]).codes, int64(rows[PARTITION]))
    highest = highest_by(groups.codes, len(groups), int64(rows[STREAM], LOWEST))
    first = rows.select([INGESTED, TOPIC, PARTITION]).take(pa.array(groups.first))
    columns = (*(first[name].to_pylist() for name in first.column_names), np.asarray(highest).tolist())
    return sorted(zip(*columns, strict=True))
