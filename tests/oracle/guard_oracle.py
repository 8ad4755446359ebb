"""The replay guard once more, in plain Python, record by record: which records were sent before.

Nothing here is shared with the engine. A chain is a list of (topic, partition, offset) or (topic, partition, offset,
ordinal), root first; None: the record has no header and is its own root.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

Entry = tuple[str, int, int] | tuple[str, int, int, int]
Position = tuple[int, ...]
Place = tuple[int, int]
REMEMBERED = 8  # records of a root partition whose bytes the exact guard knows


@dataclass(frozen=True)
class Delivery:
    """A record of the guarded topic as it is delivered; a dead one cannot be decoded."""

    partition: int
    offset: int
    chain: Sequence[Entry] | None
    dead: bool = False
    content: tuple[bytes | None, ...] = ()
    sent: Sequence[Entry] | None = None  # the chain as it was sent, of a record that was numbered

    @property
    def place(self) -> Place:
        """Where it stands in the guarded topic."""
        return self.partition, self.offset

    def is_confused_with(self, taken: Delivery) -> bool:
        """Whether one chain names both, and they are not the same."""
        one, other = ([tuple(entry) for entry in each.sent or each.chain or []] for each in (self, taken))
        return one == other and self.content != taken.content


@dataclass(frozen=True)
class Refused:
    """The records that are not taken."""

    replays: set[Place]
    ambiguous: set[Place]

    def add(self, record: Delivery, taken: Delivery | None) -> None:
        """A record at a position that was taken. In: taken  the record that was taken there; None: nobody knows any more."""
        confused = taken is not None and record.is_confused_with(taken)
        (self.ambiguous if confused else self.replays).add(record.place)


def monotone(topic: str, commits: Iterable[Sequence[Delivery]]) -> Refused:
    """Replays are not beyond the highest (root offset, ordinals) on their path; ambiguous records stand at the highest."""
    highest: dict[tuple[tuple[str, int], ...], tuple[Position, Delivery]] = {}
    refused = Refused(set(), set())
    for commit in commits:
        for record in commit:
            if record.dead:
                continue
            chain = record.chain or []
            path = (*((entry[0], entry[1]) for entry in chain), (topic, record.partition))
            offset = chain[0][2] if chain else record.offset
            position = (offset, *(entry[3] if len(entry) == 4 else -1 for entry in chain))
            reached, taken = highest.get(path, ((), record))
            if position <= reached:
                refused.add(record, taken if position == reached else None)
            else:
                highest[path] = position, record
    return refused


def numbered(topic: str, commits: Iterable[Sequence[Delivery]]) -> list[list[Delivery]]:
    """The same with ordinals by order: neighbours of one chain on a path count up, dead or not; the first one's bytes begin again."""
    runs: dict[tuple[tuple[str, int], ...], list[Delivery]] = {}
    result = []
    for commit in commits:
        result.append(list[Delivery]())
        for record in commit:
            chain = record.chain or []
            if not chain or len(chain[-1]) == 4:
                result[-1].append(record)
                continue
            path = (*((entry[0], entry[1]) for entry in chain), (topic, record.partition))
            run = runs.get(path, [])
            follows = bool(run) and run[0].chain == record.chain and run[0].content != record.content
            runs[path] = [*run, record] if follows else [record]
            last = (*chain[-1][:3], len(runs[path]) - 1)
            result[-1].append(replace(record, chain=[*chain[:-1], last], sent=chain))
    return result


class ExactOracle:
    """All root positions seen, one by one; after each commit the lowest are forgotten if their runs are too many."""

    def __init__(self, topic: str, runs_max: int) -> None:
        self.topic, self.runs_max = topic, runs_max
        self.seen: dict[tuple[str, int], set[Position]] = {}
        self.taken: dict[tuple[str, int], list[tuple[Position, Delivery]]] = {}
        self.mark: dict[tuple[str, int], int] = {}

    def take(self, commit: Sequence[Delivery]) -> Refused:
        """The replays and the ambiguous records of a commit."""
        refused = Refused(set(), set())
        for record in sorted(commit, key=lambda record: (record.partition, record.offset)):
            if record.dead:
                continue
            chain = record.chain or [(self.topic, record.partition, record.offset)]
            root = (chain[0][0], chain[0][1])
            position = (chain[0][2], *(entry[3] for entry in chain if len(entry) == 4))
            seen, last = self.seen.setdefault(root, set()), self.taken.setdefault(root, [])
            if position[0] < self.mark.get(root, 0):
                refused.add(record, None)
            elif position in seen:
                refused.add(record, dict(last[-REMEMBERED:]).get(position))
            else:
                seen.add(position)
                last.append((position, record))
        for root, seen in self.seen.items():
            self._forget(root, seen)
        return refused

    def _forget(self, root: tuple[str, int], seen: set[Position]) -> None:
        ends = sorted(position[0] for position in seen if (*position[:-1], position[-1] + 1) not in seen)
        too_many = len(ends) - self.runs_max
        if too_many > 0:
            self.mark[root] = ends[too_many - 1] + 1
            self.seen[root] = {position for position in seen if position[0] >= self.mark[root]}
