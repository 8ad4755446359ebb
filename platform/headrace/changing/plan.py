"""The plan of a changed pipeline: what becomes of each of its topics and nodes, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.nodes.descriptions.compare_rules import Changes
from headrace.nodes.descriptions.evolution import GOES_ON, REBUILT, REFUSED

if TYPE_CHECKING:
    from headrace.changing.drift import UntakenField

NEW, UNCHANGED, RENAMED = "new", "unchanged", "renamed"
HEADS = {
    NEW: "new: it is built from the log when its stream starts",
    UNCHANGED: "unchanged",
    GOES_ON: "goes on",
    RENAMED: "goes on from the tables of its former name",
    REBUILT: "rebuilt from the log",
    REFUSED: "refused",
}
FROM_BALANCE = "rebuilt from the log's rest and its opening balance"
TOPIC_HEADS = HEADS | {
    NEW: "new: its log begins when its stream starts",
    REBUILT: "its log is written again",
}


@dataclass(frozen=True)
class LogRead:
    """The rows that a rebuild reads of one log: of a topic, or of a node that is read. Rows of all kinds."""

    name: str
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class TopicPlan:
    """The plan for a topic's log.

    outcome  NEW, UNCHANGED, GOES_ON (it gains fields, null in older records), REBUILT (it is written again) or REFUSED
    detail   what changed
    lines    of a log that is written again: what becomes of its columns
    renamed  of such a log: the former name of each column that has another one
    reads    of such a log: how much that is
    from_bytes  of such a log: its records are read anew from the bytes that it keeps
    from_kafka  of such a log: its records are read anew from Kafka
    """

    topic: str
    outcome: str
    detail: str = ""
    way_out: str = ""
    lines: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    reads: LogRead | None = None
    from_bytes: bool = False
    from_kafka: bool = False

    def __str__(self) -> str:
        """A few lines."""
        said = [*self.lines, *(words for words in (self.detail, self.way_out) if words)]
        if self.reads is not None:
            rows, size = f"{self.reads.rows:,} rows", in_bytes(self.reads.size_bytes)
            if self.from_bytes:
                said.append(
                    f"reads {rows} anew from the bytes of their records ({size}); all nodes that read it follow"
                )
            elif self.from_kafka:
                said.append(
                    f"reads {rows} anew from Kafka ({size} in the log); all nodes that read it follow"
                )
            else:
                said.append(f"writes {rows} again ({size}); what was decided about each record stays")
        return "\n".join(
            [f"topic {self.topic}: {TOPIC_HEADS[self.outcome]}", *(f"  {words}" for words in said)]
        )

    def to_json(self) -> dict[str, Any]:
        """The plan of the topic as a JSON document."""
        reads = None if self.reads is None else vars(self.reads)
        return {**vars(self), "lines": list(self.lines), "renamed": dict(self.renamed), "reads": reads}


@dataclass(frozen=True)
class NodePlan:
    """The plan for a node.

    outcome         NEW, UNCHANGED, GOES_ON, RENAMED, REBUILT or REFUSED
    renamed_from    its former name, from whose tables it goes on before anything else; None: it has tables of its own
    changes         what changed of its rules
    remarks         what changed that alters no row, one line each
    details_unknown the lake does not hold the rules by which its tables were written
    interrupted     a change to this description was broken off while it was swapped in
    reason, way_out why it is refused, and what to do
    reads           what its rebuild reads
    seconds         how long that takes, by the last rebuild of the node; None: there was none
    readers         the nodes that follow it
    by_spark        the steps that only Spark computes
    from_balance    its rebuild begins with its opening balance, for rows of its log were cut off
    at_start        True: its stream rebuilds it when it starts; else `headrace apply` does
    sinks           its sinks, and whether each can be corrected
    rekeyed         those that hold rows of another identity: until they are corrected they take no row
    """

    node: str
    outcome: str
    changes: Changes = field(default_factory=Changes)
    remarks: tuple[str, ...] = ()
    details_unknown: bool = False
    interrupted: bool = False
    reason: str = ""
    way_out: str = ""
    reads: tuple[LogRead, ...] = ()
    seconds: float | None = None
    readers: tuple[str, ...] = ()
    at_start: bool = False
    sinks: tuple[tuple[str, bool], ...] = ()
    rekeyed: tuple[str, ...] = ()
    renamed_from: str | None = None
    from_balance: bool = False
    by_spark: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A few lines."""
        head = FROM_BALANCE if self.from_balance else HEADS[self.outcome]
        return "\n".join([f"node {self.node}: {head}", *(f"  {line}" for line in self._lines())])

    def _lines(self) -> Iterator[str]:
        if self.interrupted:
            yield "a change to this description was broken off while it was swapped in"
        elif self.details_unknown:
            yield "changed, details unknown: the lake does not hold the rules by which its tables were written"
        if self.renamed_from is not None:
            yield f"renamed from {self.renamed_from}, whose tables stay as they are"
        yield from map(str, self.changes.columns)
        yield from self.changes.others
        yield from (f"follows {name}" for name in self.changes.follows)
        yield from self.remarks
        if self.by_spark and self.outcome != UNCHANGED:
            yield f"only Spark computes: {'; '.join(self.by_spark)}"
        yield from (words for words in (self.reason, self.way_out) if words)
        if self.outcome == REBUILT:
            yield from self._of_rebuild()

    def _of_rebuild(self) -> Iterator[str]:
        for read in self.reads:
            yield f"reads {read.rows:,} rows of {read.name} ({in_bytes(read.size_bytes)})"
        if self.seconds is not None:
            yield f"takes about {in_minutes(self.seconds)}, as fast as its last rebuild was"
        if self.readers:
            yield f"followed by {', '.join(self.readers)}"
        for name, can in self.sinks:
            yield f"sink {name}: {'can be corrected' if can else 'cannot be corrected: it keeps what it was given'}"
        for name in self.rekeyed:
            yield f"sink {name}: the rows have another identity now, so headrace apply needs --emit differences"
        if self.at_start:
            yield "its stream rebuilds it when it starts"

    def to_json(self) -> dict[str, Any]:
        """The plan of the node as a JSON document."""
        plain = {name: list(of) if isinstance(of, tuple) else of for name, of in vars(self).items()}
        return {
            **plain,
            "columns": [vars(each) for each in self.changes.columns],
            "changes": list(self.changes.others),
            "follows": list(self.changes.follows),
            "reads": [vars(each) for each in self.reads],
            "sinks": [{"name": name, "can_be_corrected": can} for name, can in self.sinks],
        }


@dataclass(frozen=True)
class ChangePlan:
    """The plan of a pipeline.

    topics, nodes  each before those that read it; steps without a name are not listed
    undescribed    nodes that have tables in the lake and are not described here
    untaken        fields that no column takes, if they were looked for
    """

    topics: tuple[TopicPlan, ...]
    nodes: tuple[NodePlan, ...]
    undescribed: tuple[str, ...] = ()
    untaken: tuple[UntakenField, ...] = ()

    @property
    def rebuilt(self) -> tuple[NodePlan, ...]:
        """The nodes that are rebuilt."""
        return tuple(each for each in self.nodes if each.outcome == REBUILT)

    @property
    def rewritten(self) -> tuple[TopicPlan, ...]:
        """The topics whose logs are written again."""
        return tuple(each for each in self.topics if each.outcome == REBUILT)

    @property
    def renamed(self) -> tuple[NodePlan, ...]:
        """The nodes that go on from the tables of a former name, whether they are rebuilt then or not."""
        return tuple(each for each in self.nodes if each.renamed_from is not None)

    @property
    def refused(self) -> tuple[str, ...]:
        """The topics and nodes that cannot be changed so."""
        topics = (each.topic for each in self.topics if each.outcome == REFUSED)
        return (*topics, *(each.node for each in self.nodes if each.outcome == REFUSED))

    def __str__(self) -> str:
        """Topics, then nodes, those that change first; then what to do."""
        plans: list[TopicPlan | NodePlan] = [*self.topics, *self.nodes]
        lines = [*map(str, sorted(plans, key=lambda each: each.outcome == UNCHANGED))]
        lines += [
            f"node {name}: not described here: its tables stay as they are" for name in self.undescribed
        ]
        lines += map(str, self.untaken)
        return "\n".join([*lines, "", self.summary])

    @property
    def summary(self) -> str:
        """The next thing to do, in a sentence."""
        if self.refused:
            return f"Refused: {', '.join(self.refused)}. Nothing is applied before that is settled."
        if self.rewritten:
            nodes = ", ".join(each.node for each in self.rebuilt)
            topics = ", ".join(each.topic for each in self.rewritten)
            words = f"To write {topics} again{f' and rebuild {nodes}' if nodes else ''}"
            return f"{words}: stop the streams of {topics}, then headrace apply."
        if self.rebuilt:
            return f"To rebuild {', '.join(each.node for each in self.rebuilt)}: headrace apply."
        if self.renamed:
            return f"To rename {', '.join(each.node for each in self.renamed)}: headrace apply."
        return "Nothing is to be applied."

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON document."""
        return {
            "topics": [each.to_json() for each in self.topics],
            "nodes": [each.to_json() for each in self.nodes],
            "undescribed": list(self.undescribed),
            "refused": list(self.refused),
            "untaken": [vars(each) for each in self.untaken],
        }


def in_bytes(size: int) -> str:
    """A size as people read it."""
    if size < 1_000:
        return f"{size} bytes"
    value, unit = float(size), "bytes"
    for name in ("kB", "MB", "GB", "TB"):
        if value < 1_000:
            break
        value, unit = value / 1_000, name
    return f"{value:.1f} {unit}"


def in_minutes(seconds: float) -> str:
    """A time as people read it, never less than a minute."""
    minutes = max(1, round(seconds / 60))
    if minutes < 120:
        return "1 minute" if minutes == 1 else f"{minutes} minutes"
    return f"{minutes / 60:.1f} hours"
