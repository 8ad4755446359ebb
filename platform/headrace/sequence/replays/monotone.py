"""The monotone guard: on each path positions only rise, so what does not lie beyond the highest was seen before.

A path is the source chain's (topic, partition) pairs and the record's own; a position on it is the root offset and
then the ordinals in chain order, compared lexicographically. Another path has a guard of its own.

Law: L13. A record is a replay unless its position lies beyond every earlier one of its path, earlier by offset: a path
ends in one partition, so how the log was cut does not show. Dead letters advance nothing.
State: one position for each path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.description.replay import MONOTONE
from headrace.fold.segments import begins, numbered, running_max
from headrace.sequence.replays.chains import HOP, NO_ORDINAL, Chains, root_of

Position = tuple[int, tuple[int, ...]]
BEFORE_ALL = -(1 << 62)  # offsets of a seed may lie below 0


@dataclass(frozen=True)
class MonotoneGuard:
    """The highest position seen on each path."""

    highest: Mapping[str, Position] = field(default_factory=dict)
    mode = MONOTONE

    def judge(self, chains: Chains, alive: np.ndarray) -> tuple[np.ndarray, MonotoneGuard]:
        """Which records are replays, and the guard after them.

        In: chains  of records in the order of their offsets, partition by partition
            alive   which are no dead letters
        """
        replay = np.zeros(len(alive), bool)
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
        replay[rows] = rank <= earlier
        return replay, MonotoneGuard({**self.highest, **_highest(names, at, rank, reached, first)})

    def joined(self, other: MonotoneGuard) -> MonotoneGuard:
        """The guard that has seen what both have: records of other partitions may be judged elsewhere."""
        both = dict(self.highest)
        for path, at in other.highest.items():
            both[path] = max(at, both.get(path, at))
        return MonotoneGuard(both)

    def roots(self) -> set[tuple[str, int]]:
        """The root partitions that the guard knows."""
        return {root_of(path) for path in self.highest}

    def without(self, roots: set[tuple[str, int]]) -> MonotoneGuard:
        """The guard, everything about these root partitions forgotten."""
        return MonotoneGuard({path: at for path, at in self.highest.items() if root_of(path) not in roots})

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON document."""
        return {
            "mode": self.mode,
            "highest": {path: [at[0], list(at[1])] for path, at in self.highest.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MonotoneGuard:
        """The guard that `to_json` wrote."""
        return cls({path: (at[0], tuple(at[1])) for path, at in document["highest"].items()})

    def _known(self, names: list[str], width: int) -> np.ndarray:
        """For each path a row with the highest position known, before all others if there is none."""
        known = np.full((len(names), width), NO_ORDINAL, np.int64)
        for row, name in enumerate(names):
            offset, ordinals = self.highest.get(name, (BEFORE_ALL, ()))
            known[row, 0] = offset
            known[row, 1 : 1 + len(ordinals)] = ordinals
        return known


def _highest(
    names: list[str], at: np.ndarray, rank: np.ndarray, reached: np.ndarray, first: np.ndarray
) -> dict[str, Position]:
    """The highest position of each path, if one of the records is at it."""
    if not names:
        return {}
    segment = numbered(first)
    ends = np.append(np.flatnonzero(first)[1:], len(rank)) - 1
    top = np.flatnonzero(rank == reached[ends][segment])
    found: dict[int, int] = dict(zip(segment[top].tolist(), top.tolist(), strict=True))
    return {
        names[number]: (int(at[row, 0]), tuple(at[row, 1 : 1 + names[number].count(HOP)].tolist()))
        for number, row in found.items()
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
