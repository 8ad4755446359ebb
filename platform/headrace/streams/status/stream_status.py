"""How one query of a stream run fares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from headrace.errors import HeadraceError
from headrace.nodes.descriptions.asset_names import asset_name
from headrace.nodes.standing.waits import COMPLETE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.nodes.standing.waits import Wait
    from headrace.streams.loops.supervised import Supervised


M = TypeVar("M")


@dataclass(frozen=True)
class StreamStatus:
    """One query as of a poll.

    kind, name      `log` and a topic's name, or `stream` and a node's
    state           running, paused (a person lets the node rest), waiting (for a lease that another process holds, for a
                    node of another pipeline, for somebody to whom the node was handed over, for code that describes its
                    tables, or, for a moment, with a seed that it reads on), restarting (waits out a back-off), failed (a
                    person must act), stopped, ended (with Spark's JVM; what could have changed since is not known)
    rows_total      records handled since the runtime started; `rows_per_second` over the last half minute
    lag_records     records that wait: in Kafka for a log, in its logs for a node (counted every 10 s); None: not known
    lag_seconds     how far behind in commit time; None: not known
    stream_time_ms  the lowest stream time of the non-empty partitions
    batches         commits since the beginning
    fates           records by fate since the beginning (for a log: record, dead_letter, replay since the start)
    read_ms         for a node the lowest commit time through which its logs are folded; None: nothing yet
    batch_seconds   how long the last trigger with records took; None: none had any
    state_bytes     of a node's state tables, once a minute; None: not known, or a log
    state_bytes_read  of these the last micro-batch read so many; None: there was none since the start, or a log
    reads           of a node how near its state is (see `writing.state_figures`)
    input_rows_per_second  of a log what came into the topic, over the last half minute; None: not known, or a node
    throttle_seconds  how long a node may wait on purpose
    buffer          of a node with a time limit what waits in it, under Kafka Streams' names (see `streams.status.buffered`)
    readers         of a log what Kafka's client and Spark's tasks have read (see `streams.topic_reader`)
    limits          of a suppressed node those in force as of its progress
    quotas          of a node whose sinks have quotas how long it waits for them (see `writing.delivery.sink_quotas`)
    mirror          of a table that is mirrored how far its mirror is behind (see `streams.mirroring`)
    trigger_seconds the shortest time between two micro-batches
    tried_again     False once only a person can start it again
    last_error      why it failed, here or in an earlier run, if it has not committed since
    waits           what a node's rows wait for, looked up every ten seconds (see `nodes.standing.waits`)
    """

    kind: str
    name: str
    state: str
    error: str | None
    failures: int
    rows_total: int
    rows_per_second: float
    lag_records: int | None
    lag_seconds: float | None
    stream_time_ms: int | None
    batches: int
    fates: Mapping[str, int]
    read_ms: int | None = None
    batch_seconds: float | None = None
    state_bytes: int | None = None
    state_bytes_read: int | None = None
    input_rows_per_second: float | None = None
    reads: Mapping[str, int] = field(default_factory=dict)
    throttle_seconds: float = 0.0
    buffer: Mapping[str, float] = field(default_factory=dict)
    readers: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    quotas: Mapping[str, float] = field(default_factory=dict)
    mirror: Mapping[str, float] = field(default_factory=dict)
    trigger_seconds: float | None = None
    tried_again: bool = True
    waits: tuple[Wait, ...] = ()
    last_error: str | None = None

    @property
    def asset(self) -> str:
        """`log/<topic>` or `stream/<node>_stream`."""
        return asset_name(self.kind, self.name)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The topics of a table for which the node's records wait (`complete_first`)."""
        return tuple(str(wait.topic) for wait in self.waits if wait.of == COMPLETE)

    def with_step(self, step: StreamStatus) -> StreamStatus:
        """The status of a node that reads a step without a name: what is wrong with the step is told as its own."""
        lags = [lag for lag in (self.lag_seconds, step.lag_seconds) if lag is not None]
        late = replace(self, lag_seconds=max(lags, default=None))
        if step.error is None:
            return late
        return replace(
            late,
            state=step.state,
            error=f"A step that it reads: {step.error}",
            failures=max(self.failures, step.failures),
            tried_again=self.tried_again and step.tried_again,
        )

    def as_of_the_end(self) -> StreamStatus:
        """The status of a query that has ended with the JVM: what is committed stays true, what was measured is unknown."""
        if self.state != "ended":
            return self
        return replace(
            self,
            rows_per_second=0.0,
            input_rows_per_second=None,
            lag_records=None,
            lag_seconds=None,
            stream_time_ms=None,
            batch_seconds=None,
            state_bytes=None,
            state_bytes_read=None,
            reads={},
            buffer={},
            waits=(),
        )


def status_of(query: Supervised, trouble: Exception | None, **numbers: object) -> StreamStatus:
    """How a query fares. In: trouble  why something could not be measured; numbers: what was."""
    error = query.error or trouble
    return StreamStatus(
        kind=query.kind,
        name=query.name,
        state=query.state,
        error=None if error is None else in_words(error),
        failures=query.failures,
        rows_per_second=query.rows_per_second(),
        batch_seconds=query.batch_seconds,
        trigger_seconds=query.trigger_ms / 1000,
        tried_again=not query.finished,
        **numbers,  # type: ignore[arg-type]
    )


def in_words(error: BaseException) -> str:
    """An error as people read it; of one that Headrace did not raise its kind, and what it was raised at, too."""
    if isinstance(error, HeadraceError):
        return str(error)
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])


def measured(measure: Callable[[], M | None]) -> tuple[M | None, Exception | None]:
    """The measure, or why there is none: Spark keeps trying for minutes before it reports a broker that is away."""
    try:
        return measure(), None
    except Exception as error:
        return None, error
