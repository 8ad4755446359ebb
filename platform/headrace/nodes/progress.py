"""How far a node has come: what the record of each of its state commits says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.fold.contract import FATE, PARTITION, TOPIC, Clock
from headrace.fold.fates import RECORDS
from headrace.operators.time_limits.fold.limits_in_force import standing_row

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.description import Node
    from headrace.description.limits import Limits
    from headrace.fold.bounds import Sizes


@dataclass(frozen=True)
class Progress:
    """A node as of a micro-batch. Times in ms since 1970; topics by name, partitions by their numbers as text.

    batch      of the last micro-batch; it rises by one with each
    upto_ms    for each topic, `ingested_at` of the last log commit folded
    stream_ms  for each topic and partition, the stream time
    closed_ms  every window with end + grace at or before it is closed; None: none is
    records    for each topic, partition and fate, how many records
    buffer     of a node with a time limit: for each partition what waits (`records`, `bytes`) and how many rows left
               (`emitted`, `early`)
    limits     those that were set in the log, one after the other (see `time_limits.limits_in_force.standing`)
    sizes      of windows whose bound shuts them down: for each topic and partition how many are open, and their bytes
    complete   the topics that were read to where they ended when their logs were first begun
    idle       the topics that are idle
    lowest_ms  L, the lowest stream time of the node; None: there is none yet
    """

    batch: int = 0
    upto_ms: Mapping[str, int] = field(default_factory=dict)
    stream_ms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    closed_ms: int | None = None
    records: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    buffer: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    limits: Sequence[Limits] = field(default_factory=list)
    sizes: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    complete: Sequence[str] = field(default_factory=list)
    idle: Sequence[str] = field(default_factory=list)
    lowest_ms: int | None = None

    @property
    def clock(self) -> Clock:
        """Where the logs stand."""
        times = {(topic, int(p)): ms for topic, of in self.stream_ms.items() for p, ms in of.items()}
        return Clock(
            dict(self.upto_ms), times, frozenset(self.complete), frozenset(self.idle), self.lowest_ms
        )

    @property
    def bounded(self) -> Sizes:
        """The sizes, as bounds are judged by."""
        return {(t, int(p)): (size[0], size[1]) for t, of in self.sizes.items() for p, size in of.items()}

    def standing_limits(self, node: str) -> list[tuple[int, str]]:
        """The rows of `Times.limits` that stand for all control rows so far."""
        return [standing_row(node, limits) for limits in self.limits]

    def counted(self, tally: pa.Table) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """The records with those of an increment. In: tally  as `fates.TALLY`."""
        records = {t: {p: dict(fates) for p, fates in of.items()} for t, of in self.records.items()}
        for row in tally.to_pylist():  # one row per topic, partition and fate
            fates = records.setdefault(row[TOPIC], {}).setdefault(str(row[PARTITION]), {})
            fates[row[FATE]] = fates.get(row[FATE], 0) + row[RECORDS]
        return records

    def totals(self) -> dict[str, int]:
        """For each fate the records of all partitions."""
        totals: Counter[str] = Counter()
        for partitions in self.records.values():
            for fates in partitions.values():
                totals.update(fates)
        return dict(totals)

    def frontier_ms(self, node: Node) -> int:
        """The last commit time folded, of all topics of a node: the wall clock as far as the logs tell it."""
        return min((self.upto_ms.get(topic.name, 0) for topic in node.topics), default=0)

    @property
    def all_records(self) -> int:
        """The records of all fates and partitions."""
        return sum(self.totals().values())

    def to_json(self) -> dict[str, Any]:
        """The progress as a JSON document."""
        return {name: of for name, of in asdict(self).items() if name not in ("complete", "idle") or of}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Progress:
        """The progress that `to_json` wrote."""
        return cls(**document)


def by_place(values: Mapping[tuple[str, int], Any]) -> dict[str, dict[str, Any]]:
    """Values by topic and partition as JSON has them."""
    found: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in sorted(values.items()):
        found.setdefault(topic, {})[str(partition)] = value
    return found
