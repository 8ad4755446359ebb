"""The monotone guard: on each path positions only rise, so what does not lie beyond the highest was seen before.

A path is the source chain's (topic, partition) pairs and the record's own; a position on it is the root offset and
then the ordinals in chain order, compared lexicographically. Another path has a guard of its own.

Law: L13. A record is a replay unless its position lies beyond every earlier one of its path, earlier by offset: a path
ends in one partition, so how the log was cut does not show. A record at the highest position that has the chain of the
record taken there, and other bytes, is ambiguous. Dead letters and ambiguous records advance nothing.
State: for each path one position, and digests of the record that was taken there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from headrace.description.replay import MONOTONE
from headrace.fold.segments import begins, numbered, running_max
from headrace.sequence.replays.chains import HOP, NO_ORDINAL, Chains, root_of
from headrace.sequence.replays.contents import UNKNOWN, Contents, Digests, differ
from headrace.sequence.replays.numbering import Run, Runs, number_outputs
from headrace.sequence.replays.verdicts import Verdicts

BEFORE_ALL = -(1 << 62)  # offsets of a seed may lie below 0


class Mark(NamedTuple):
    """A position on a path, and the digests of the record that was taken there."""

    offset: int
    ordinals: tuple[int, ...]
    digests: Digests = UNKNOWN


@dataclass(frozen=True)
class MonotoneGuard:
    """The highest position seen on each path; `runs`: None unless the order of records numbers them."""

    highest: Mapping[str, Mark] = field(default_factory=dict)
    runs: Runs | None = None
    mode = MONOTONE

    def judge(self, chains: Chains, alive: np.ndarray, contents: Contents) -> tuple[Verdicts, MonotoneGuard]:
        """The verdicts about records, and the guard after them.

        In: chains  of records in the order of their offsets, partition by partition
            alive   which are no dead letters
        """
        runs = self.runs
        if runs is not None:
            chains, runs = number_outputs(chains, contents, runs)
        rows = np.flatnonzero(alive)
        path = chains.path.indices.to_numpy()[rows]
        order = np.argsort(path, kind="stable")
        rows, path = rows[order], path[order]
        first = begins(path)
        names = [chains.path.dictionary[number].as_py() for number in path[first].tolist()]
        at = np.column_stack([chains.root_offset, chains.ordinals_by_hop()])[rows]
        known = self._known(names, at.shape[1])
        ranks = _ranks(np.vstack([known, at]))
        before, rank = ranks[: len(known)], ranks[len(known) :]
        segment = numbered(first)
        reached = np.maximum(running_max(first, rank), before[segment] if len(segment) else rank)
        earlier = np.empty_like(reached)
        earlier[1:] = reached[:-1]
        earlier[first] = before
        ordered = _Ordered(rows, first, segment, _last_taken(rank > earlier, first, segment))
        verdicts = Verdicts.none(chains)
        verdicts.replay[rows] = rank <= earlier
        again = np.flatnonzero(rank == earlier)
        other = again[differ(contents.digests(rows[again]), self._digests(names, ordered, again, contents))]
        verdicts.ambiguous[rows[other]] = True
        verdicts.replay[rows[other]] = False
        highest = {**self.highest, **_highest(names, at, ordered, contents)}
        return verdicts, MonotoneGuard(highest, runs)

    def joined(self, other: MonotoneGuard) -> MonotoneGuard:
        """The guard that has seen what both have: records of other partitions may be judged elsewhere.

        In: other  of one path both have the same run, or `other` has the later one
        """
        both = dict(self.highest)
        for path, mark in other.highest.items():
            known = both.get(path, mark)
            both[path] = mark if mark[:2] > known[:2] else known
        runs = None if self.runs is None else {**self.runs, **(other.runs or {})}
        return MonotoneGuard(both, runs)

    def moved_since(self, before: MonotoneGuard) -> MonotoneGuard:
        """The part of the guard that is not as it was."""
        highest = {path: mark for path, mark in self.highest.items() if before.highest.get(path) != mark}
        known = before.runs or {}
        runs = None if self.runs is None else {p: run for p, run in self.runs.items() if known.get(p) != run}
        return MonotoneGuard(highest, runs)

    def roots(self) -> set[tuple[str, int]]:
        """The root partitions that the guard knows."""
        return {root_of(path) for path in self.highest}

    def without(self, roots: set[tuple[str, int]]) -> MonotoneGuard:
        """The guard, everything about these root partitions forgotten."""
        highest = {path: mark for path, mark in self.highest.items() if root_of(path) not in roots}
        runs = (
            None if self.runs is None else {p: run for p, run in self.runs.items() if root_of(p) not in roots}
        )
        return MonotoneGuard(highest, runs)

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON document."""
        highest = {
            path: [mark.offset, list(mark.ordinals), *mark.digests] for path, mark in self.highest.items()
        }
        runs = {} if self.runs is None else {"runs": {path: list(run) for path, run in self.runs.items()}}
        return {"mode": self.mode, "highest": highest, **runs}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MonotoneGuard:
        """The guard that `to_json` wrote."""
        marks = document["highest"].items()
        highest = {path: Mark(at, tuple(ordinals), (one, two)) for path, (at, ordinals, one, two) in marks}
        runs = document.get("runs")
        return cls(highest, None if runs is None else {path: Run(*run) for path, run in runs.items()})

    def _digests(
        self, names: list[str], ordered: _Ordered, places: np.ndarray, contents: Contents
    ) -> np.ndarray:
        """The digests of the record that was taken last on the path of some records, before each."""
        marks = [self.highest[name].digests if name in self.highest else UNKNOWN for name in names]
        found: np.ndarray = np.array(marks, np.int64).reshape(-1, 2)[ordered.segment[places]]
        here = ordered.taken[places] >= 0
        found[here] = contents.digests(ordered.rows[ordered.taken[places[here]]])
        return found

    def _known(self, names: list[str], width: int) -> np.ndarray:
        """For each path a row with the highest position known, before all others if there is none."""
        known = np.full((len(names), width), NO_ORDINAL, np.int64)
        for row, name in enumerate(names):
            mark = self.highest.get(name, Mark(BEFORE_ALL, ()))
            known[row, 0] = mark.offset
            known[row, 1 : 1 + len(mark.ordinals)] = mark.ordinals
        return known


@dataclass(frozen=True)
class _Ordered:
    """Records, path after path, each in the order of its offsets.

    rows     which record stands at each place
    first    which begin a path; `segment` numbers the paths
    taken    the place of the last record of the path that was taken, up to and including each; -1: there is none
    """

    rows: np.ndarray
    first: np.ndarray
    segment: np.ndarray
    taken: np.ndarray


def _last_taken(taken: np.ndarray, first: np.ndarray, segment: np.ndarray) -> np.ndarray:
    if not len(taken):
        return np.zeros(0, np.int64)
    last = np.maximum.accumulate(np.where(taken, np.arange(len(taken)), -1))
    found: np.ndarray = np.where(last >= np.flatnonzero(first)[segment], last, -1)
    return found


def _highest(names: list[str], at: np.ndarray, ordered: _Ordered, contents: Contents) -> dict[str, Mark]:
    """The highest position of each path on which a record was taken."""
    if not names:
        return {}
    last = ordered.taken[np.append(np.flatnonzero(ordered.first)[1:], len(at)) - 1]
    moved = np.flatnonzero(last >= 0)
    digests = map(tuple, contents.digests(ordered.rows[last[moved]]).tolist())
    return {
        names[number]: Mark(int(at[row, 0]), tuple(at[row, 1 : 1 + names[number].count(HOP)].tolist()), pair)
        for number, row, pair in zip(moved.tolist(), last[moved].tolist(), digests, strict=True)
    }


def _ranks(positions: np.ndarray) -> np.ndarray:
    """Numbers that compare as the rows do."""
    if positions.shape[1] > 1 and (positions[:, 1:] == NO_ORDINAL).all():
        positions = positions[:, :1]
    if positions.shape[1] == 1:
        return positions[:, 0]
    order = np.lexsort(positions.T[::-1])
    sorted_ = positions[order]
    steps = np.ones(len(order), np.int64)
    steps[1:] = (sorted_[1:] != sorted_[:-1]).any(axis=1)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(steps)
    return ranks
