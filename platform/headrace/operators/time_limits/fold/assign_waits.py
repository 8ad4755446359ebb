"""Which wait each update belongs to, and where each wait ends.

Law: an update joins the open wait, opened at t, exactly if the expiry time before it is below t; otherwise it opens one.
The expiry time before an entry's updates does not fall along them. So where the wait that an update would open is
followed by the next is one binary search, and the openings are what the first of them leads to, step by step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.fold.segments import NO_TIME, begins, places, running_max

HELD = -1  # in place of an update: the wait was open before


@dataclass(frozen=True)
class Assigned:
    """Updates with their waits, and the waits, in the order of entries and of their openings.

    wait    of each update the number of its wait
    entry   of each wait
    opener  of each wait the update that opened it, or HELD
    """

    wait: np.ndarray
    entry: np.ndarray
    opener: np.ndarray


def timestamps(entry: np.ndarray, event_ms: np.ndarray, known_high_ms: np.ndarray) -> np.ndarray:
    """The timestamp of each update of an aggregate: the highest event time of its entry so far.

    In: updates ordered by entry and place; of each entry the highest event time before, or NO_TIME
    """
    first = begins(entry)
    return running_max(first, np.where(first, np.maximum(event_ms, known_high_ms[entry]), event_ms))


def assign_waits(
    entry: np.ndarray, stamp_ms: np.ndarray, before_ms: np.ndarray, known_opened_ms: np.ndarray
) -> Assigned:
    """Give each update its wait.

    In:     entry      number of each update's entry from 0; updates are ordered by entry and place, some entries have none
            stamp_ms   the update's timestamp
            before_ms  expiry time before the update
            held_…     for each entry when its open wait was opened; NO_TIME: none is open
    """
    rows, entries = len(entry), np.arange(len(known_opened_ms))
    ends = np.searchsorted(entry, entries, side="right")
    begun = np.searchsorted(entry, entries)
    waits = known_opened_ms != NO_TIME
    begun[waits] = places((entry, before_ms), (entries[waits], known_opened_ms[waits]))
    then = np.maximum(places((entry, before_ms), (entry, stamp_ms)), np.arange(rows) + 1)
    then[then >= ends[entry]] = rows
    opens = _reached(begun[begun < ends], then)
    openers = np.flatnonzero(opens)
    of_entry = np.concatenate([entry[openers], entries[waits]])
    opener = np.concatenate([openers, np.full(int(waits.sum()), HELD)])
    order = np.lexsort((opener, of_entry))
    of_entry, opener = of_entry[order], opener[order]
    held = opener == HELD
    # Of an update: all waits opened so far of all entries, and all held ones through its own entry.
    through = np.searchsorted(of_entry[held], entry, side="right")
    wait = np.cumsum(opens) + through - 1
    return Assigned(wait, of_entry, opener)


def end_waits(
    partition: np.ndarray,
    opened_ms: np.ndarray,
    opened_after_ms: np.ndarray,
    advances: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Where each wait ends.

    In:     opened_after_ms  the expiry time once the opening update was put; NO_TIME: it was opened before these rows
            advances         rows that move the expiry time: partition, rising, and that time, rising with it
    Out:    whether a wait is over at once; and of each the first advance that ends it, or one beyond the last advance
    Law:    a wait that the expiry time had reached when it was opened is over at once. Any other is over at the row that
            moves the expiry time from before its opening to or beyond it: of the advances not before it, the first.
    """
    at = places(advances, (partition, opened_ms))
    there = at < len(advances[0])
    there[there] = advances[0][at[there]] == partition[there]
    return opened_after_ms >= opened_ms, np.where(there, at, len(advances[0]))


def _reached(starts: np.ndarray, then: np.ndarray) -> np.ndarray:
    """Which rows the chains from some rows reach. In: for each row the next of its chain, or one beyond the last row."""
    rows = len(then)
    found = np.zeros(rows + 1, bool)
    found[starts] = True
    jump = np.append(then, rows)
    while (jump < rows).any():
        found[jump[np.flatnonzero(found)]] = True
        jump = jump[jump]
    return found[:rows]
