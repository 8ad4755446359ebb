"""The exact guard: each root position is taken once, whatever the path and in whatever order it comes.

A root position is the root topic, partition and offset and the ordinals that the chain has. All but its last number
is its *unit*: "" for records that were never flat-mapped (the last number is the offset), else the offset and the
ordinals before the last, such as "12" or "12,0". The seen last numbers of a unit are kept as intervals.

Law: L13. A record is taken if it is the first of its root position, in the order of commits and, within one, of
(partition, offset), and its offset is not below the low-water mark of its root partition. All others are replays.
Dead letters count nowhere. A refused record is ambiguous if it has the chain of the one that was taken at its position, and
other bytes, and if that one is among the last RECENT_MAX that were taken of the root partition before it.
State: the digests of these, and at most `gaps_max` intervals for each root partition. When there are more, those with the
lowest offsets are forgotten and the mark is set above them: what lies below is refused, as none can tell it from a replay,
and reported by a check. A single flat-mapped input that alone needs more intervals than that loses its rest in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headrace.description.replay import EXACT, MAX_GAPS
from headrace.fold.segments import running_max
from headrace.sequence.replays.chains import Chains
from headrace.sequence.replays.contents import Contents
from headrace.sequence.replays.intervals import NOWHERE, Intervals, above_the_lowest, merged
from headrace.sequence.replays.recent import Recent, Taken
from headrace.sequence.replays.verdicts import Verdicts

Root = tuple[str, int]
UNBOUNDED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class ExactGuard:
    """The root positions seen so far.

    marks  the low-water mark of each root partition that the guard knows; 0: nothing was forgotten
    seen   intervals of last numbers; a unit is the root's place in `marks`, the offset (-1: of the unit ""), the ordinals
    recent the records that were taken last of each root partition; a root without such records is not among them
    """

    marks: Mapping[Root, int] = field(default_factory=dict)
    seen: Intervals = field(default_factory=Intervals.none)
    gaps_max: int = MAX_GAPS
    recent: Mapping[Root, Recent] = field(default_factory=dict)
    mode = EXACT

    def judge(self, chains: Chains, alive: np.ndarray, contents: Contents) -> tuple[Verdicts, ExactGuard]:
        """The verdicts about records, and the guard after them.

        In: chains  of all records of a commit, by partition and offset
            alive   which are no dead letters
        """
        verdicts, rows = Verdicts.none(chains), np.flatnonzero(alive)
        if not len(rows):
            return verdicts, self
        marks, root = self._with_roots(chains, rows)
        unit, at = _located(chains, rows, root)
        below = chains.root_offset[rows] < np.array(list(marks.values()), np.int64)[root]
        repeated = _repeated(unit, at, self.seen)
        taken = Taken(unit, at, ~below & ~repeated, rows, contents)
        recent = [self.recent.get(each, ()) for each in marks]
        other = taken.differing(recent, np.flatnonzero(repeated & ~below))
        verdicts.replay[rows] = ~taken.marks
        verdicts.replay[rows[other]] = False
        verdicts.ambiguous[rows[other]] = True
        found = merged(Intervals(unit, at, at).joined(self.seen))
        last = {root: of for root, of in zip(marks, taken.recent_after(recent), strict=True) if of}
        return verdicts, ExactGuard(marks, found, self.gaps_max, last).bounded(self.gaps_max)

    def unbounded(self) -> ExactGuard:
        """The same guard without a bound. Chunks of one commit are judged with it; `bounded` then applies the limit."""
        return replace(self, gaps_max=UNBOUNDED)

    def joined(self, other: ExactGuard) -> ExactGuard:
        """The guard that has seen what both have."""
        marks = dict(self.marks)
        for root, mark in other.marks.items():
            marks[root] = max(mark, marks.get(root, 0))
        places = {root: place for place, root in enumerate(marks)}
        place = np.array([places[root] for root in other.marks], np.int64)
        theirs = other.seen
        unit = np.column_stack([place[theirs.unit[:, 0]], theirs.unit[:, 1:]])
        seen = merged(Intervals(unit, theirs.first, theirs.last).joined(self.seen))
        return ExactGuard(marks, seen, self.gaps_max, {**other.recent, **self.recent}).bounded(self.gaps_max)

    def roots(self) -> set[Root]:
        """The root partitions that the guard knows."""
        return set(self.marks)

    def without(self, roots: set[Root]) -> ExactGuard:
        """The guard, everything about these root partitions forgotten, their marks too."""
        kept = [number for number, root in enumerate(self.marks) if root not in roots]
        marks = {root: mark for root, mark in self.marks.items() if root not in roots}
        place = np.full(len(self.marks) + 1, NOWHERE, np.int64)
        place[kept] = np.arange(len(kept))
        seen = self.seen.where(np.isin(self.seen.unit[:, 0], kept))
        unit = np.column_stack([place[seen.unit[:, 0]], seen.unit[:, 1:]])
        recent = {root: last for root, last in self.recent.items() if root not in roots}
        return ExactGuard(marks, Intervals(unit, seen.first, seen.last), self.gaps_max, recent)

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON document."""
        units: list[dict[str, list[tuple[int, int]]]] = [{} for _ in self.marks]
        for unit, *interval in zip(
            self.seen.unit.tolist(), self.seen.first.tolist(), self.seen.last.tolist(), strict=True
        ):
            name = ",".join(str(number) for number in unit[1:] if number != NOWHERE)
            units[unit[0]].setdefault(name, []).append((interval[0], interval[1]))
        roots = [
            [
                *root,
                mark,
                of,
                [[list(unit), last, *digests] for unit, last, digests in self.recent.get(root, ())],
            ]
            for (root, mark), of in zip(self.marks.items(), units, strict=True)
        ]
        return {"mode": self.mode, "roots": roots}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], gaps_max: int) -> ExactGuard:
        """The guard that `to_json` wrote; a lower bound than then shows at the next commit."""
        marks = {(topic, partition): mark for topic, partition, mark, *_ in document["roots"]}
        recent = {
            (topic, partition): tuple((tuple(unit), at, (one, two)) for unit, at, one, two in last)
            for topic, partition, *_, last in document["roots"]
            if last
        }
        rows = [
            ([root, *_numbers(name)], first, last)
            for root, (*_, units, _) in enumerate(document["roots"])
            for name, intervals in units.items()
            for first, last in intervals
        ]
        width = max((len(unit) for unit, _, _ in rows), default=2)
        units = [unit + [NOWHERE] * (width - len(unit)) for unit, _, _ in rows]
        seen = Intervals(
            np.array(units, np.int64).reshape(-1, width),
            np.array([first for _, first, _ in rows], np.int64),
            np.array([last for _, _, last in rows], np.int64),
        )
        return cls(marks, merged(seen), gaps_max, recent)

    def _with_roots(self, chains: Chains, rows: np.ndarray) -> tuple[dict[Root, int], np.ndarray]:
        """The marks, those of new roots among them, and of each record its root's place."""
        topic = chains.root_topic.indices.to_numpy()[rows].astype(np.int64)
        pairs = topic << 32 | chains.root_partition[rows]
        used, which = np.unique(pairs, return_inverse=True)
        names: Sequence[str] = chains.root_topic.dictionary.to_pylist()
        marks = dict(self.marks)
        places = {root: place for place, root in enumerate(marks)}
        of_used = []
        for pair in used.tolist():
            root = (names[pair >> 32], pair & 0xFFFF_FFFF)
            marks.setdefault(root, 0)
            of_used.append(places.setdefault(root, len(places)))
        return marks, np.array(of_used, np.int64)[which]

    def bounded(self, gaps_max: int) -> ExactGuard:
        """The guard with another bound, the lowest intervals of roots that have too many forgotten."""
        marks, seen = dict(self.marks), self.seen
        counts = np.bincount(seen.unit[:, 0], minlength=len(marks))
        for number, root in enumerate(self.marks):
            too_many = int(counts[number]) - gaps_max
            if too_many > 0:
                marks[root] = max(marks[root], above_the_lowest(seen, number, too_many))
        low = np.array(list(marks.values()), np.int64)[seen.unit[:, 0]] if marks else np.zeros(0, np.int64)
        plain = seen.unit[:, 1] == NOWHERE
        kept = np.where(plain, seen.last, seen.unit[:, 1]) >= low
        cut = Intervals(seen.unit, np.where(plain, np.maximum(seen.first, low), seen.first), seen.last)
        return ExactGuard(marks, cut.where(kept), gaps_max, self.recent)


def _located(chains: Chains, rows: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unit of each record's root position, and its last number."""
    ordinals = chains.ordinals_by_hop()[rows]
    # The ordinals that a chain has, to the left.
    there = ordinals >= 0
    count = there.sum(axis=1)
    width = int(count.max(initial=0))
    dense = np.full((len(rows), width), NOWHERE, np.int64)
    dense[np.arange(width) < count[:, None]] = ordinals[there]
    offset = chains.root_offset[rows]
    if not width:
        return np.column_stack([root, np.full(len(rows), NOWHERE)]), offset
    last = dense[np.arange(len(rows)), np.maximum(count - 1, 0)]
    dense[np.arange(len(rows)), np.maximum(count - 1, 0)] = NOWHERE
    mapped = count > 0
    unit = np.column_stack([root, np.where(mapped, offset, NOWHERE), dense[:, : width - 1]])
    return unit, np.where(mapped, last, offset)


def _repeated(unit: np.ndarray, at: np.ndarray, seen: Intervals) -> np.ndarray:
    """Which positions lie in an interval, or were there in an earlier row."""
    both = Intervals(unit, at, np.full(len(at), NOWHERE)).joined(seen)
    is_record = np.arange(len(both)) < len(at)
    # Intervals come before the records that they reach; of equal positions the first record is first.
    order = np.lexsort((is_record, both.first, *both.unit.T[::-1]))
    units, place = both.unit[order], both.first[order]
    first = np.ones(len(order), bool)
    first[1:] = (units[1:] != units[:-1]).any(axis=1)
    reached = running_max(first, both.last[order])
    again = ~first
    again[1:] &= (place[1:] == place[:-1]) & is_record[order][:-1]
    repeated = np.zeros(len(order), bool)
    repeated[order] = again | (place <= reached)
    return repeated[: len(at)]


def _numbers(name: str) -> list[int]:
    """The numbers of a unit as JSON names it."""
    return [int(number) for number in name.split(",")] if name else [NOWHERE]
