"""The state that the sequencer carries from one log commit to the next."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from headrace.sequence.seed_pieces import SeedState
from headrace.sequence.set_limits import SetLimit, limits_read, set_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class PartitionState:
    """One partition as of a commit. Times in ms since 1970.

    `row_at_ms` and `record_at_ms` are the commit times of its last row of any kind and of its last record.
    `stream_ms` is None until a record with an event time arrives.
    """

    next_offset: int
    stream_ms: int | None = None
    row_at_ms: int = 0
    record_at_ms: int = 0


@dataclass(frozen=True)
class LogState:
    """The log as of a commit: number of commits, time of the last, and each partition's state.

    `limits_ms` has, for each node that has some, the time limits that were set while its stream ran (see `set_limits`).
    `topic_id` is Kafka's id of the topic; None while none is known.
    `raw` says, of a topic with `keep_raw`, how records are `decoded`, and from which `batch` on; `in` is "kafka" if the rows
    do not have their bytes.
    `seed` is a seed that is not read to its end; None: there is none, or the log holds all of it.
    `first_ends` has, for each partition, where Kafka's records ended when the log began; None: not known, or reached.
    `complete` is True once the log holds all records before these ends, and a control row says so.
    `idle` is True from the control row on that says so, until the next record. `began_ms` is the time of the first commit.
    """

    batch: int = 0
    ingested_at_ms: int = 0
    highest_event_ms: int | None = None
    partitions: Mapping[int, PartitionState] = field(default_factory=dict)
    limits_ms: Mapping[str, tuple[SetLimit, ...]] = field(default_factory=dict)
    topic_id: str | None = None
    seed: SeedState | None = None
    raw: Mapping[str, Any] | None = None
    first_ends: Mapping[int, int] | None = None
    complete: bool = False
    idle: bool = False
    began_ms: int = 0

    @property
    def knows_first_ends(self) -> bool:
        """Whether it was recorded where Kafka's records ended when the log was first begun."""
        return self.complete or self.first_ends is not None

    @property
    def is_newly_complete(self) -> bool:
        """Whether the log has reached the first ends, and no control row says so yet."""
        if self.first_ends is None or self.seed is not None:
            return False
        reached = self.next_offsets
        return all(reached.get(partition, 0) >= end for partition, end in self.first_ends.items())

    def completed(self) -> LogState:
        """The state once a control row says that the log is complete."""
        return replace(self, first_ends=None, complete=True)

    @property
    def next_offsets(self) -> dict[int, int]:
        """For each partition the offset after the last record."""
        return {partition: state.next_offset for partition, state in self.partitions.items()}

    def not_read(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Those of some offsets that lie after what the log has read; also where a partition begins."""
        read = self.next_offsets
        return {p: offset for p, offset in offsets.items() if p not in read or offset > read[p]}

    def lowest_stream_ms(self) -> int | None:
        """The lowest stream time of the non-empty partitions; None before the first event time."""
        return min((s.stream_ms for s in self.partitions.values() if s.stream_ms is not None), default=None)

    @property
    def record_at_ms(self) -> int:
        """The commit time of the last record; 0: there is none."""
        return max((s.record_at_ms for s in self.partitions.values()), default=0)

    def next_commit_ms(self, now_ms: int) -> int:
        """The next commit's `ingested_at`: strictly increasing whatever the machine's clock does."""
        return max(now_ms, self.ingested_at_ms + 1)

    def after(self, ingested_at_ms: int, rows: Iterable[LastRow]) -> LogState:
        """The state after a commit whose partitions end in these rows."""
        partitions = dict(self.partitions)
        highest, idle = self.highest_event_ms, self.idle
        for row in rows:
            idle &= row.offset is None
            before = partitions.get(row.partition, PartitionState(0))
            partitions[row.partition] = replace(
                before,
                next_offset=before.next_offset if row.offset is None else row.offset + 1,
                stream_ms=before.stream_ms if row.stream_ms is None else row.stream_ms,
                row_at_ms=ingested_at_ms,
                record_at_ms=before.record_at_ms if row.offset is None else ingested_at_ms,
            )
            if row.offset is not None and row.stream_ms is not None:
                highest = max(highest or 0, row.stream_ms)
        next_offsets = {partition: state.next_offset for partition, state in partitions.items()}
        return replace(
            self,
            batch=self.batch + 1,
            ingested_at_ms=ingested_at_ms,
            highest_event_ms=highest,
            partitions=partitions,
            idle=idle,
            began_ms=self.began_ms or ingested_at_ms,
            seed=None if self.seed is None or self.seed.is_read_by(next_offsets) else self.seed,
        )

    def with_limits(self, node: str, limits: Mapping[str, int | None], at_ms: int) -> LogState:
        """The state once limits of a node are set at a commit time: ticks go on as long as the node can wait."""
        limit_ms = limits.get("limit_ms")
        if limit_ms is None:
            return self
        known = set_after(self.limits_ms.get(node, ()), limit_ms, at_ms)
        return replace(self, limits_ms={**self.limits_ms, node: known})

    @property
    def longest_limits_ms(self) -> int:
        """The longest limit that was set of each node, summed up."""
        return sum(max(each.ms for each in known) for known in self.limits_ms.values())

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON document."""
        ends = self.first_ends
        seldom = {  # of a log without them nothing is written
            "seed": None if self.seed is None else self.seed.to_json(),
            "raw": self.raw,
            "first_ends": None if ends is None else {str(p): end for p, end in ends.items()},
            "complete": self.complete or None,
            "idle": self.idle or None,
        }
        often = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in seldom}
        often["partitions"] = {str(p): dict(vars(state)) for p, state in self.partitions.items()}
        return often | {name: of for name, of in seldom.items() if of is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LogState:
        """The state that `to_json` wrote."""
        partitions = {int(p): PartitionState(**s) for p, s in document["partitions"].items()}
        ends = document.get("first_ends")
        return cls(
            document["batch"],
            document["ingested_at_ms"],
            document["highest_event_ms"],
            partitions,
            {node: limits_read(known) for node, known in document.get("limits_ms", {}).items()},
            document.get("topic_id"),
            SeedState.from_json(document["seed"]) if document.get("seed") else None,
            document.get("raw"),
            None if ends is None else {int(p): end for p, end in ends.items()},
            document.get("complete", False),
            document.get("idle", False),
            document["began_ms"],
        )


@dataclass(frozen=True)
class LastRow:
    """A partition's last row in a commit; `offset` is None for ticks and control rows."""

    partition: int
    offset: int | None
    stream_ms: int | None
