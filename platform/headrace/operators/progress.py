"""How far a node has come: what the record of each of its state commits says."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.description.limits import Limits


@dataclass(frozen=True)
class Tally:
    """Records of one partition that met one fate in an increment, and the partition's stream time after them.

    rows  of the increment that stand for them
    """

    topic: str
    partition: int
    fate: str
    records: int
    stream_ms: int | None
    rows: int = 0


@dataclass(frozen=True)
class Progress:
    """A node as of a micro-batch. Times in ms since 1970.

    batch      number of micro-batches folded
    upto_ms    for each topic, `ingested_at` of the last log commit folded
    stream_ms  for each topic and partition, the stream time
    closed_ms  every window with end + grace at or before it is closed; None: none is
    records    for each topic, partition and fate, how many records
    own_ms     of a node with a time limit: for each partition the suppressor's own stream time
    expiry_ms  of such a node: for each partition, waits that were opened at or before it are over
    buffer     of such a node: for each partition what waits (`records`, `bytes`) and how many rows left (`emitted`, `early`)
    limits     of a suppressed node: those that were set in the log, in place of those described
    """

    batch: int = 0
    upto_ms: Mapping[str, int] = field(default_factory=dict)
    stream_ms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    closed_ms: int | None = None
    records: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    own_ms: Mapping[str, int] = field(default_factory=dict)
    buffer: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    expiry_ms: Mapping[str, int] = field(default_factory=dict)
    limits: Limits = field(default_factory=dict)

    def after(self, upto_ms: Mapping[str, int], tallies: Iterable[Tally], topics: Iterable[str]) -> Progress:
        """The progress once the increment with these tallies has been folded.

        Law: windows close by the lowest stream time of all partitions, and not before every topic has one.
        """
        stream_ms = {topic: dict(partitions) for topic, partitions in self.stream_ms.items()}
        records = {t: {p: dict(fates) for p, fates in ps.items()} for t, ps in self.records.items()}
        for tally in tallies:
            partition = str(tally.partition)
            if tally.stream_ms is not None:
                known = stream_ms.setdefault(tally.topic, {})
                known[partition] = max(tally.stream_ms, known.get(partition, tally.stream_ms))
            fates = records.setdefault(tally.topic, {}).setdefault(partition, {})
            fates[tally.fate] = fates.get(tally.fate, 0) + tally.records
        after = Progress(
            self.batch + 1, {**self.upto_ms, **upto_ms}, stream_ms, None, records, limits=self.limits
        )
        return replace(after, closed_ms=after.lowest_ms(topics))

    def lowest_ms(self, topics: Iterable[str]) -> int | None:
        """The lowest stream time of the partitions of some topics; None before each of these has one."""
        known = [self.stream_ms.get(topic, {}) for topic in topics]
        return min(ms for times in known for ms in times.values()) if known and all(known) else None

    def totals(self) -> dict[str, int]:
        """For each fate the records of all partitions."""
        totals: Counter[str] = Counter()
        for partitions in self.records.values():
            for fates in partitions.values():
                totals.update(fates)
        return dict(totals)

    def to_json(self) -> dict[str, Any]:
        """The progress as a JSON document."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Progress:
        """The progress that `to_json` wrote."""
        return cls(**document)
