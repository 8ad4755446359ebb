"""Which session each run belongs to.

Law: a left fold of a group's items in the log's order. An item becomes one session with the open ones within `gap` of it;
without any it begins a session, or, when it is old, it is late.

The fold begins anew where nothing of the group is open any more: there a *stretch* begins. In most stretches each item
touches the latest session alone; these are numbered for all groups at once. In the others an item reaches back to an
earlier session, or lies before all that it could join. These few are folded one by one. So are groups in which stream time
falls, as it may along the rows of a node (L32): each of them is one stretch, and a session that is closed to one item may be
open to the next. After such rows two sessions within `gap` may be open; only an item joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import NO_TIME, before, begins, distinct, numbered, running_max, running_min
from headrace.operators.sessions.fold.make_runs import Items

NO_SESSION = -1


def join_runs(items: Items, *, gap_ms: int, wait_ms: int) -> np.ndarray:
    """Give each item its session.

    In:     items  ordered by group; sessions that were open before come first in their group, by their start, with
                   `before_ms` NO_TIME
    Out:    for each item the place of one item of its session, the same for all of one; NO_SESSION: a late record
    """
    if not len(items):
        return np.empty(0, np.int64)
    first = begins(items.group)
    reached = before(first, running_max(first, items.end_ms), NO_TIME)  # the last event before it
    falls = in_falling_groups(
        first, items.before_ms, items.known & (items.start_ms <= reached + gap_ms) & ~first
    )
    closed = reached + wait_ms <= lowest_from_here(first, items.before_ms, falls)  # nothing is open
    stretch = numbered(first | closed)
    boundary = first | closed | (items.start_ms > reached + gap_ms)  # a session begins
    session = numbered(boundary)
    at_once = ~falls & _touches_latest_alone(items, boundary, session, reached, gap_ms, wait_ms)
    session_of = np.where(boundary & items.old, NO_SESSION, np.flatnonzero(boundary)[session])
    odd = distinct(stretch[~at_once])
    if len(odd):
        _fold_odd_stretches(items, stretch, odd, session_of, gap_ms, wait_ms)
    return session_of


def lowest_from_here(first: np.ndarray, before_ms: np.ndarray, falls: np.ndarray) -> np.ndarray:
    """The lowest of each item and all later ones of its group.

    In: first  marks where a group begins; `falls` the items of groups along which it falls
    """
    if not falls.any():
        return before_ms
    last = np.append(first[1:], True)
    lowest: np.ndarray = running_min(last[::-1], before_ms[::-1])[::-1]
    return lowest


def in_falling_groups(first: np.ndarray, before_ms: np.ndarray, near: np.ndarray) -> np.ndarray:
    """The items of groups along which stream time falls, or fell before.

    In: first  marks where a group begins; near  sessions that were open before and lie within the gap of an earlier one
    """
    falls = near | (before_ms < before(first, before_ms, NO_TIME))
    group = numbered(first)
    return np.isin(group, group[falls])


def _touches_latest_alone(
    items: Items, boundary: np.ndarray, session: np.ndarray, reached: np.ndarray, gap_ms: int, wait_ms: int
) -> np.ndarray:
    """Whether each item meets the latest session of its stretch and no earlier one, or begins one."""
    earlier_end = reached[boundary][session]  # the highest end before the item's session
    apart = (items.start_ms > earlier_end + gap_ms) | (earlier_end + wait_ms <= items.before_ms)
    lowest = before(boundary, running_min(boundary, items.start_ms), -NO_TIME)
    near = boundary | (items.end_ms >= lowest - gap_ms)
    return np.asarray(apart & near)


@dataclass
class _Open:
    """A session of the fold one by one: its number, its bounds, and the places of its items."""

    number: int
    start_ms: int
    end_ms: int
    places: list[int]


def _fold_odd_stretches(
    items: Items, stretch: np.ndarray, odd: np.ndarray, session_of: np.ndarray, gap_ms: int, wait_ms: int
) -> None:
    """Fold the items of some stretches one by one, in plain Python, and put their sessions into `session_of`."""
    firsts, lasts = np.searchsorted(stretch, odd), np.searchsorted(stretch, odd, side="right")
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        columns = (items.start_ms, items.end_ms, items.before_ms, items.old, items.known)
        rows = zip(*(column[first:last].tolist() for column in columns), strict=True)
        session_of[first:last] = NO_SESSION
        for each in _fold(rows, first, gap_ms, wait_ms):
            session_of[each.places] = each.number


def _fold(
    rows: Iterable[tuple[int, int, int, bool, bool]], first: int, gap_ms: int, wait_ms: int
) -> Iterator[_Open]:
    """The sessions of one stretch. In: its items in order; the place of the first."""
    known: list[_Open] = []
    for place, (start_ms, end_ms, before_ms, old, is_session) in enumerate(rows, first):
        if is_session:
            known.append(_Open(place, start_ms, end_ms, [place]))
            continue
        near: list[_Open] = []
        rest: list[_Open] = []
        for session in known:
            is_open = session.end_ms + wait_ms > before_ms
            if is_open and session.start_ms <= end_ms + gap_ms and session.end_ms >= start_ms - gap_ms:
                near.append(session)
            else:
                rest.append(session)
        if near or not old:
            rest.append(_merged(near, _Open(place, start_ms, end_ms, [place])))
        known = rest
    yield from known


def _merged(near: list[_Open], own: _Open) -> _Open:
    """One session of those near an item and the item itself; the largest list of places grows, the others are added."""
    if not near:
        return own
    largest = max(near, key=lambda session: len(session.places))
    for other in (*near, own):
        if other is not largest:
            largest.places += other.places
            largest.start_ms = min(largest.start_ms, other.start_ms)
            largest.end_ms = max(largest.end_ms, other.end_ms)
    return largest
