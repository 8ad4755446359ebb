"""Random records of partitions, each log committed in several ways: the rows and their stream times are always the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tests.laws.kernel.logs import SECOND, Sequenced, World
from tests.oracle.log_oracle import Arrival, Commit, sequence

Place = tuple[str, int]  # topic and partition
LAST_MS = 120  # of the record that ends a partition
ALL_AT_ONCE, ONE_BY_ONE, ANYHOW = "all at once", "one by one", "anyhow"


@dataclass(frozen=True)
class Partitions:
    """The records of each partition, in their order; each value is another one."""

    records: dict[Place, list[Arrival]]

    def as_lists(self) -> Partitions:
        """The same with each value in an array."""
        return Partitions(
            {
                place: [replace(each, value=[each.value]) for each in records]  # type: ignore[arg-type]
                for place, records in self.records.items()
            }
        )

    def committed(self, rng: random.Random, how: str) -> World:
        """A world of log commits. Each partition begins in the first, so that none starts from the others' stream time."""
        after: dict[Place, int] = dict.fromkeys(self.records, 0)
        commits: list[dict[str, list[Arrival]]] = []
        while any(after[place] < len(records) for place, records in self.records.items()):
            taken = self._taken(rng, how, after, is_first=not commits)
            commit: dict[str, list[Arrival]] = {}
            for place, number in taken.items():
                first = after[place]
                commit.setdefault(place[0], []).extend(self.records[place][first : first + number])
                after[place] += number
            if any(commit.values()):
                commits.append(commit)
        logs = [
            Sequenced(topic, sequence(_of_topic(topic, commits), None, 0))
            for topic in dict.fromkeys(topic for topic, _ in self.records)
        ]
        has_lists = any(isinstance(each.value, list) for own in self.records.values() for each in own)
        return World(logs, pa.list_(pa.int64()) if has_lists else pa.int64())

    def _taken(
        self, rng: random.Random, how: str, after: dict[Place, int], *, is_first: bool
    ) -> dict[Place, int]:
        """How many records of each partition the next commit takes."""
        left = {place: len(records) - after[place] for place, records in self.records.items()}
        if how == ALL_AT_ONCE:
            return left
        if is_first:
            return dict.fromkeys(left, 1)
        if how == ONE_BY_ONE:
            place = rng.choice([place for place, number in left.items() if number])
            return {place: 1}
        return {place: min(number, rng.choice([0, 0, 1, 1, 2, 3])) for place, number in left.items()}


def random_partitions(
    rng: random.Random, topics: Sequence[str], partitions: int, *, confined: bool, most: int = 9
) -> Partitions:
    """Records of two groups, and of each partition one more that is beyond all of them, so that none of them waits.

    In: confined  whether a group is in one partition; most: records of a partition
    """
    value, records = 0, dict[Place, list[Arrival]]()
    for topic in topics:
        for partition in range(partitions):
            base, ahead = rng.randrange(5), rng.choice([0, 0, 10])
            own = records[topic, partition] = []
            for _ in range(rng.randrange(1, most)):
                base, value = base + rng.choice([0, 1, 1, 2, 9]), value + 1
                event = max(0, base + ahead - rng.choice([0, 0, 0, 3, 8]))
                key = f"{'gh'[rng.randrange(2)]}{f'{topic}{partition}' if confined else ''}"
                own.append(Arrival(partition, key, event, value))
            own.append(Arrival(partition, f"z{topic}{partition}", LAST_MS, value + LAST_MS))
    return Partitions(records)


def three_ways(rng: random.Random, partitions: Partitions) -> list[World]:
    """All in one commit, each record in one of its own, and anyhow."""
    return [partitions.committed(rng, how) for how in (ALL_AT_ONCE, ONE_BY_ONE, ANYHOW)]


def _of_topic(topic: str, commits: Sequence[dict[str, list[Arrival]]]) -> list[Commit]:
    return [
        Commit((number + 1) * SECOND, commit[topic])
        for number, commit in enumerate(commits)
        if commit.get(topic)
    ]
