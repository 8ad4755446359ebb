"""Sessions folded by one log commit after the other, where what they were in between is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.fold.columns import int64
from headrace.fold.contract import BATCH, INGESTED, Clock, Folded, Times
from headrace.fold.sessions.open_sessions import OPEN

if TYPE_CHECKING:
    from headrace.fold.sessions.fold_sessions import FoldSessions


@dataclass(frozen=True)
class AfterCommit:
    """One log commit.

    at_ms   its commit time; clock: after it
    rows    those of the commit
    then    the open sessions before it as the state has them, those that its time closes too; now: after it
    came    the rows that the state gains; folded: all that the fold gives
    before  the clock as of the commit before
    """

    at_ms: int
    before: Clock
    clock: Clock
    rows: pa.Table
    then: pa.Table
    now: pa.Table
    came: pa.Table
    folded: Folded


def each_commit(fold: FoldSessions, rows: pa.Table, held: pa.Table, times: Times) -> Iterator[AfterCommit]:
    """The commits that have rows: what only closes sessions is left out. In: held  rows of the state, merged."""
    table = fold.state[OPEN]
    batch = int(int64(held[BATCH]).max(initial=0))
    at_ms, before = int64(rows[INGESTED]), times.before
    for at, clock in times.commits:
        mine = rows.filter(pa.array(at_ms == at))
        if mine.num_rows:
            batch += 1
            folded = fold.fold(mine, {OPEN: held}, Times(before, clock, [(at, clock)]))
            came = folded.changes[OPEN]
            came = came.append_column(BATCH, pa.array(np.full(came.num_rows, batch, np.int32)))
            now = table.merge(pa.concat_tables([held, came]))
            yield AfterCommit(at, before, clock, mine, held, now, came, folded)
            held = now
        before = clock
