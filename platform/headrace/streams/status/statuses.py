"""Statuses of a runtime's queries: that of a log, and that of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.description.limits import is_suppressed, limited, policy_of
from headrace.lifecycle.live_limits import limits_shown
from headrace.streams.status.stream_status import StreamStatus, measured, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.description import Node
    from headrace.nodes.progress import Progress
    from headrace.streams.loops.log_stream import LogStream
    from headrace.streams.loops.node_stream import NodeStream


def log_status(log: LogStream, now_ms: int) -> StreamStatus:
    """How a log fares. In: now_ms  by the runtime's clock."""
    state = log.sequencer.state if log.sequencer is not None else None
    lag, trouble = measured(log.lag_records) if log.state == "running" else (None, None)
    behind_ms = now_ms - state.ingested_at_ms if state is not None and lag else 0
    return status_of(
        log,
        trouble,
        rows_total=log.records,
        lag_records=lag,
        lag_seconds=None if lag is None else behind_ms / 1000,
        stream_time_ms=None if state is None else state.lowest_stream_ms(),
        batches=0 if state is None else state.batch,
        fates=_fates(log),
        readers=log.reader.numbers(),
        input_rows_per_second=None if lag is None else log.input_rows_per_second(lag),
    )


def node_status(stream: NodeStream, trouble_of_all: Exception | None) -> StreamStatus:
    """How a node fares. In: trouble_of_all  what keeps all nodes of the runtime from beginning."""
    progress = stream.runner.progress if stream.runner is not None else None
    running = stream.state in ("running", "paused")
    lag, trouble = measured(stream.lag_ms) if running else (None, None)
    waiting, _ = measured(stream.lag_records) if lag else (lag, None)
    trouble = trouble or stream.remark or trouble_of_all
    state_bytes, _ = measured(stream.state_bytes) if running else (None, None)
    return status_of(
        stream,
        trouble,
        rows_total=stream.records,
        lag_records=waiting,
        lag_seconds=None if lag is None else lag / 1000,
        stream_time_ms=None if progress is None else progress.closed_ms,
        batches=0 if progress is None else progress.batch,
        fates={} if progress is None else progress.totals(),
        read_ms=None if progress is None else min(progress.upto_ms.values(), default=None),
        state_bytes=state_bytes,
        state_bytes_read=None if stream.runner is None else stream.runner.reads.last_bytes,
        reads={} if stream.runner is None else stream.runner.reads.numbers(),
        buffer=stream.buffer.numbers(),
        quotas={} if stream.runner is None else stream.runner.quotas.numbers(),
        waits=() if progress is None else tuple(measured(stream.waits)[0] or ()),
        limits={} if progress is None else _limits(stream.node, progress),
        throttle_seconds=0.0
        if stream.runner is None
        else stream.runner.node.update_source.throttle_ms / 1000,
    )


def _limits(node: Node, progress: Progress) -> Mapping[str, float]:
    return limits_shown(limited(policy_of(node), progress.limits)) if is_suppressed(node) else {}


def _fates(log: LogStream) -> dict[str, int]:
    """Since the start; replays only where a guard refuses any."""
    guarded = {"replay": log.replays} if log.topic.replay_guard is not None else {}
    taken = log.records - log.dead_letters - log.replays
    return {"record": taken, "dead_letter": log.dead_letters, **guarded}
