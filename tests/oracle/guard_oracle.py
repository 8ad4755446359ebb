"""The replay guard once more, in plain Python, record by record: which records were sent before.

Nothing here is shared with the engine. A chain is a list of (topic, partition, offset) or (topic, partition, offset,
ordinal), root first; None: the record has no header and is its own root.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Entry = tuple[str, int, int] | tuple[str, int, int, int]
Position = tuple[int, ...]


@dataclass(frozen=True)
class Delivery:
    """A record of the guarded topic as it is delivered; a dead one cannot be decoded."""

    partition: int
    offset: int
    chain: Sequence[Entry] | None
    dead: bool = False


def monotone(topic: str, commits: Iterable[Sequence[Delivery]]) -> set[tuple[int, int]]:
    """The partition and offset of each replay: not beyond the highest (root offset, ordinals) on its path."""
    highest: dict[tuple[tuple[str, int], ...], Position] = {}
    replays = set()
    for commit in commits:
        for record in commit:
            if record.dead:
                continue
            chain = record.chain or []
            path = (*((entry[0], entry[1]) for entry in chain), (topic, record.partition))
            offset = chain[0][2] if chain else record.offset
            position = (offset, *(entry[3] if len(entry) == 4 else -1 for entry in chain))
            if path in highest and position <= highest[path]:
                replays.add((record.partition, record.offset))
            else:
                highest[path] = position
    return replays


class ExactOracle:
    """All root positions seen, one by one; after each commit the lowest are forgotten if their runs are too many."""

    def __init__(self, topic: str, runs_max: int) -> None:
        self.topic, self.runs_max = topic, runs_max
        self.seen: dict[tuple[str, int], set[Position]] = {}
        self.mark: dict[tuple[str, int], int] = {}

    def take(self, commit: Sequence[Delivery]) -> set[tuple[int, int]]:
        """The partition and offset of each replay of a commit."""
        replays = set()
        for record in sorted(commit, key=lambda record: (record.partition, record.offset)):
            if record.dead:
                continue
            chain = record.chain or [(self.topic, record.partition, record.offset)]
            root = (chain[0][0], chain[0][1])
            position = (chain[0][2], *(entry[3] for entry in chain if len(entry) == 4))
            seen = self.seen.setdefault(root, set())
            if position[0] < self.mark.get(root, 0) or position in seen:
                replays.add((record.partition, record.offset))
            else:
                seen.add(position)
        for root, seen in self.seen.items():
            self._forget(root, seen)
        return replays

    def _forget(self, root: tuple[str, int], seen: set[Position]) -> None:
        ends = sorted(position[0] for position in seen if (*position[:-1], position[-1] + 1) not in seen)
        too_many = len(ends) - self.runs_max
        if too_many > 0:
            self.mark[root] = ends[too_many - 1] + 1
            self.seen[root] = {position for position in seen if position[0] >= self.mark[root]}
