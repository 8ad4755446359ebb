"""The commits of a node's logs, and how far stream time of the node has come after each.

Law: L follows from the commits of the driving topics, by the one function that folds use (see `fold.reader_time`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import is_of_kafka
from headrace.engine.slices.log_slices import LogSlice, Origin
from headrace.fold.reader_time import lowest_after
from headrace.fold.values.columns import MOMENT, int64
from headrace.log.commit_row import PREFIX, CommitRow
from headrace.sequence.log_columns import BEHIND, BUSY, COMPLETE, IDLE, RECORD, SET_LIMITS, TICK

if TYPE_CHECKING:
    from headrace.description import Node, Topic
    from headrace.lake.paths import Lake
    from headrace.sequence.log_state import LogState


@dataclass(frozen=True)
class LogCommit:
    """One log commit. A field that the commit does not change may be None.

    stream_ms  the lowest stream time of the topic's partitions after it
    event_ms   the highest event time of the topic's records through it
    record_ms  the commit time of the last record through it
    idle       whether the topic is idle after it
    behind_ms  how far stream time is behind the clock, of a node's log in which that has grown; 0: it has not
    """

    at_ms: int
    stream_ms: int | None = None
    event_ms: int | None = None
    record_ms: int | None = None
    idle: bool | None = None
    behind_ms: int = 0


@dataclass(frozen=True)
class LogCommits:
    """Some commits of a log.

    commits      in their order
    limits       the control rows that set limits: commit time and JSON
    complete_ms  the commit with which the topic became complete; None: none of these
    clocked      of a node's log the commits for readers that go by clocks; None: they are `commits`
    """

    commits: Sequence[LogCommit]
    limits: Sequence[tuple[int, str]]
    complete_ms: int | None = None
    clocked: Sequence[LogCommit] | None = None

    def seen(self, *, clocks: bool) -> LogCommits:
        """The same for a reader. In: clocks  whether it goes by clocks, and not by stream time."""
        return self if self.clocked is None or not clocks else replace(self, commits=self.clocked)


@dataclass(frozen=True)
class ReaderTime:
    """Where the topics of a node stand after a commit.

    topics     of each topic what its commits say together
    lowest_ms  L; None: there is none yet
    """

    topics: Mapping[str, LogCommit] = field(default_factory=dict)
    lowest_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As a record has it."""
        return {"topics": {name: asdict(of) for name, of in self.topics.items()}, "lowest_ms": self.lowest_ms}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ReaderTime:
        """The time that `to_json` wrote."""
        topics = {name: LogCommit(**of) for name, of in document["topics"].items()}
        return cls(topics, document["lowest_ms"])

    def moved(self, at_ms: int, commits: Mapping[str, LogCommit], driving: Collection[str]) -> ReaderTime:
        """The same after a commit of some topics."""
        topics = {**self.topics, **{name: self._after(name, of) for name, of in commits.items()}}
        if commits.keys().isdisjoint(driving):
            return ReaderTime(topics, self.lowest_ms)
        known = [topics.get(name, LogCommit(0)) for name in driving]
        times = [(of.stream_ms, bool(of.idle)) for of in known]
        return ReaderTime(topics, lowest_after(self.lowest_ms, at_ms, times))

    def _after(self, name: str, commit: LogCommit) -> LogCommit:
        before = self.topics.get(name)
        return commit if before is None else _joined(before, commit)

    def is_idle(self, driving: Collection[str]) -> bool:
        """Whether all driving topics are idle."""
        return all(name in self.topics and self.topics[name].idle for name in driving)

    def last_event_ms(self, driving: Collection[str]) -> int | None:
        """The highest event time of the driving topics; None: no record has one."""
        known = (self.topics[name].event_ms for name in driving if name in self.topics)
        return max((ms for ms in known if ms is not None), default=None)

    def behind_ms(self, driving: Collection[str]) -> int:
        """How far stream time is behind the clock in the logs of the driving topics in which that has grown; 0: in none."""
        return max((self.topics[name].behind_ms for name in driving if name in self.topics), default=0)

    def last_record_ms(self, driving: Collection[str]) -> int | None:
        """The commit time of the last record of the driving topics; None: there is none."""
        known = (self.topics[name].record_ms for name in driving if name in self.topics)
        return max((ms for ms in known if ms is not None), default=None)


def reader_times(
    before: ReaderTime, read: Mapping[str, LogCommits], driving: Collection[str]
) -> list[tuple[int, ReaderTime]]:
    """Each commit time of some logs, and where the node stands after it."""
    every = sorted((of.at_ms, name, of) for name, log in read.items() for of in log.commits)
    now, found = before, list[tuple[int, ReaderTime]]()
    for at_ms, together in groupby(every, key=lambda one: one[0]):
        now = now.moved(at_ms, {name: of for _, name, of in together}, driving)
        found.append((at_ms, now))
    return found


def read_commits(topic: Topic, uri: str, after_ms: int, upto_ms: int) -> LogCommits:
    """The commits of a topic's log after one commit time and through another. In: uri  of the log's table."""
    part = LogSlice.of(uri, after_ms, upto_ms)
    if not is_of_kafka(topic):
        return _of_node(part)
    entries = part.controls()
    commits = [commit_of(CommitRow.from_json(each).after) for _, each in entries if each.startswith(PREFIX)]
    complete = (at_ms for at_ms, each in entries if _action(each) == COMPLETE)
    return LogCommits(commits, _limits(entries), next(complete, None))


def commits_of_topics(lake: Lake, node: Node, after_ms: int, upto_ms: int) -> dict[str, LogCommits]:
    """The same of each topic of a node."""
    return {of.name: read_commits(of, lake.log(of.name), after_ms, upto_ms) for of in node.topics}


def limits_of(read: Mapping[str, LogCommits]) -> list[tuple[int, str]]:
    """The control rows of some logs that set limits, each once: commit time and JSON."""
    return sorted({entry for log in read.values() for entry in log.limits})


def along(commits: Sequence[LogCommit]) -> list[LogCommit]:
    """For each commit of a log all that the commits through it say."""
    return [*accumulate(commits, _joined)]


def commit_of(after: LogState) -> LogCommit:
    """The commit of a topic after which its log stands so."""
    return LogCommit(
        after.ingested_at_ms,
        after.lowest_stream_ms(),
        after.highest_event_ms,
        after.record_at_ms or None,
        after.idle,
    )


def _of_node(part: LogSlice) -> LogCommits:
    """The commits of a node's log, in which a tick says how far stream time is after each commit."""
    moments = dict.fromkeys(["ingested_at", "stream_time", "clock", "timestamp"], MOMENT)
    columns = {**moments, "kind": pa.string(), "control": pa.string()}
    rows = part.read({name: Origin((name,), of) for name, of in columns.items()})
    controls = rows.filter(rows["control"].is_valid())
    entries = [*zip(_ms(controls, "ingested_at"), controls["control"].to_pylist(), strict=True)]
    by_stream, by_clock = (
        _by(rows, entries, *names)
        for names in (("stream_time", "timestamp"), ("clock", "timestamp", "clock"))
    )
    return LogCommits(by_stream, _limits(entries), clocked=by_clock)


def _by(rows: pa.Table, entries: Sequence[tuple[int, str]], moved: str, *times: str) -> list[LogCommit]:
    """The commits of rows. In: the column that ticks move; of records those whose highest is their event time."""
    records, ticks = (rows.filter(pc.equal(rows["kind"], kind)) for kind in (RECORD, TICK))
    commits = {
        at_ms: LogCommit(at_ms)
        for at_ms in np.unique(int64(rows["ingested_at"].cast(pa.int64())) // 1_000).tolist()
    }
    each_ms = zip(*(_moments_ms(records, name) for name in times), strict=True)
    for at_ms, own_ms in zip(_ms(records, "ingested_at"), each_ms, strict=True):
        known = (ms for ms in (commits[at_ms].event_ms, *own_ms) if ms is not None)
        commits[at_ms] = replace(
            commits[at_ms], event_ms=max(known, default=None), record_ms=at_ms, idle=False
        )
    for at_ms, ms in zip(_ms(ticks, "ingested_at"), _moments_ms(ticks, moved), strict=True):
        commits[at_ms] = replace(commits[at_ms], stream_ms=ms)
    for at_ms, entry in entries:
        if (action := _action(entry)) in (IDLE, BUSY):
            commits[at_ms] = replace(commits[at_ms], idle=action == IDLE)
        elif action == BEHIND:
            commits[at_ms] = replace(commits[at_ms], behind_ms=json.loads(entry)["ms"])
    return [commits[at_ms] for at_ms in sorted(commits)]


def _joined(before: LogCommit, after: LogCommit) -> LogCommit:
    """The state after a commit: what it does not say stays."""
    event_ms = max((ms for ms in (before.event_ms, after.event_ms) if ms is not None), default=None)
    return LogCommit(
        after.at_ms,
        before.stream_ms if after.stream_ms is None else after.stream_ms,
        event_ms,
        after.record_ms or before.record_ms,
        before.idle if after.idle is None else after.idle,
        max(before.behind_ms, after.behind_ms),
    )


def _ms(rows: pa.Table, name: str) -> list[int]:
    found: list[int] = (int64(rows[name].cast(pa.int64())) // 1_000).tolist()
    return found


def _moments_ms(rows: pa.Table, name: str) -> list[int | None]:
    known = rows[name].is_valid().to_pylist()
    return [ms if there else None for ms, there in zip(_ms(rows, name), known, strict=True)]


def _limits(controls: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(at_ms, entry) for at_ms, entry in controls if _action(entry) == SET_LIMITS]


def _action(entry: str) -> str | None:
    """The action of a control row; None: it is a commit row."""
    return None if entry.startswith(PREFIX) else str(json.loads(entry)["action"])
