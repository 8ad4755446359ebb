"""Sessions after each log commit of a micro-batch that has records of their group.

Law: no group meets another one. So a *round* takes from each group one log commit, its first in the first round, and folds
these commits of all groups at once. Each row is in one round, and so is each session of a group that has rows there: work
grows with the rows and the sessions that they touch, and not with the number of commits times the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headrace.fold.contract import INGESTED, PARTITION, TOPIC, Times
from headrace.fold.fates import is_kept
from headrace.fold.keys import groups_of_both
from headrace.fold.segments import HIGHEST, begins
from headrace.fold.values.columns import int64
from headrace.operators.sessions.fold.close_sessions import stream_times_along
from headrace.operators.sessions.fold.merge_sessions import merge_sessions
from headrace.operators.sessions.fold.open_sessions import (
    deleted_rows,
    is_gone,
    not_deleted,
    open_at,
    places_of,
)
from headrace.operators.sessions.fold.shape import END, Shape


@dataclass(frozen=True)
class Round:
    """One log commit of each of some groups. All sessions are as the state has them, without BATCH.

    rows     of these commits
    late     the places of late ones among all rows
    before   the sessions of the groups that were open before their commit
    after    the same after it, those too that it has closed
    gained   the rows that the state gains; gained_ms: the commit of each
    """

    rows: pa.Table
    late: np.ndarray
    before: pa.Table
    after: pa.Table
    gained: pa.Table
    gained_ms: np.ndarray


def each_commit(decided: pa.Table, open_sessions: pa.Table, shape: Shape, times: Times) -> Iterator[Round]:
    """The rounds of a micro-batch; a later round of a group has a later commit.

    In: decided  rows with a KEY; those of groups without a record that is kept are left out
        open_sessions  rows of the state, merged: at least those of the groups that have rows
    """
    known = open_at(open_sessions, shape.wait_ms, times.before).select(shape.state.names)
    of_row, of_known, groups = groups_of_both(decided, known)
    cuts = _Cuts.of(decided, of_row, groups)
    closings = _Closings(known, of_known, decided, of_row, shape.wait_ms, times)
    decided = decided.combine_chunks().take(pa.array(cuts.order))
    at_ms = np.zeros(len(cuts.rounds), np.int64)  # of each group its commit in the round
    for number, (begin, end) in enumerate(pairwise(cuts.ends)):
        rows, places = decided.slice(begin, end - begin), cuts.order[begin:end]
        at_ms[of_row[places]] = int64(rows[INGESTED])
        in_round = cuts.rounds[of_known] > number  # the others are not needed any more
        known, of_known = known.filter(pa.array(in_round)), of_known[in_round]
        is_open = closings.at_ms(known, of_known) >= at_ms[of_known]
        open_before, of_before = known.filter(pa.array(is_open)), of_known[is_open]
        used = is_kept(rows)
        merged = merge_sessions(rows.filter(pa.array(used)), open_before.select(shape.session_columns), shape)
        of_session = np.concatenate([of_row[places[used]], of_before])[merged.group_row]
        closed = closings.at_ms(merged.sessions, of_session) <= at_ms[of_session]
        sessions = not_deleted(merged.sessions)
        open_after, of_after = sessions.filter(pa.array(~closed)), of_session[~closed]
        changed, touched = merged.changed[~closed], np.flatnonzero(merged.touched)
        gone = touched[is_gone(open_before.take(pa.array(touched)), open_after)]
        gone_rows = deleted_rows(open_before.take(pa.array(gone)), shape)
        yield Round(
            rows,
            places[used][merged.late],
            open_before,
            pa.concat_tables([open_after, sessions.filter(pa.array(closed))]),
            pa.concat_tables([open_after.filter(pa.array(changed)), gone_rows]),
            at_ms[np.concatenate([of_after[changed], of_before[gone]])],
        )
        known, of_known = open_after, of_after


@dataclass(frozen=True)
class _Cuts:
    """Rows cut into rounds.

    order   the places of rows, round by round; ends: where each round begins, and the last one ends
    rounds  how many each group has, by its number
    """

    order: np.ndarray
    ends: list[int]
    rounds: np.ndarray

    @classmethod
    def of(cls, decided: pa.Table, of_row: np.ndarray, groups: int) -> _Cuts:
        """In: of_row  the number of each row's group."""
        kept = np.zeros(groups, bool)
        kept[of_row[is_kept(decided)]] = True
        place = np.flatnonzero(kept[of_row])
        at_ms = int64(decided[INGESTED])
        place = place[np.lexsort((at_ms[place], of_row[place]))]
        first = begins(of_row[place])
        commit = np.cumsum(first | begins(at_ms[place]))
        number = commit - commit[first][np.cumsum(first) - 1]
        rounds = np.zeros(groups, np.int64)
        rounds[of_row[place]] = number + 1  # rows of a group are ordered by their round: the last one stays
        ends = np.cumsum(np.bincount(number))
        return cls(place[np.argsort(number, kind="stable")], [0, *ends.tolist()], rounds)


class _Closings:
    """When sessions of some groups close: each by the stream time of its group's partition after each log commit."""

    def __init__(
        self,
        known: pa.Table,
        of_known: np.ndarray,
        decided: pa.Table,
        of_row: np.ndarray,
        wait_ms: int,
        times: Times,
    ) -> None:
        """In: of_known, of_row  the numbers of the groups."""
        names, self._wait_ms = [TOPIC, PARTITION], wait_ms
        partition, places = places_of(pa.concat_tables([known.select(names), decided.select(names)]))
        codes = np.concatenate([of_known, of_row])
        self._partition = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        self._partition[codes] = partition
        self._along = [stream_times_along(times, place) for place in places]
        self._at_ms = np.array([*(ms for ms, _ in times.commits), HIGHEST], np.int64)

    def at_ms(self, sessions: pa.Table, of: np.ndarray) -> np.ndarray:
        """As `closing_commits`. In: of  the numbers of their groups."""
        deadline_ms, partition = int64(sessions[END]) + self._wait_ms, self._partition[of]
        found = np.empty(len(of), np.int64)
        for number in np.flatnonzero(np.bincount(partition)).tolist():
            mine = np.flatnonzero(partition == number)
            found[mine] = self._at_ms[np.searchsorted(self._along[number], deadline_ms[mine])]
        return found
