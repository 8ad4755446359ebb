"""Halt several logs, so that a node that reads them in one order can read each to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.log.sequencer import Sequencer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headrace.streams.loops.log_stream import LogStream


def halt_together(logs: Sequence[LogStream], closing: Collection[str]) -> None:
    """Halt all logs, and record the last rows of each; the caller drains them.

    In: closing  the topics whose logs record that open batches close here
    """
    for log in logs:
        log.halt()
        if log.name in closing:
            log.record_last(Sequencer.drain)
    settled_ms = max((log.settled_ms() for log in logs if log.asked.ordered), default=0)
    for log in logs:
        if log.asked.ordered:
            log.record_last(lambda sequencer: sequencer.promise(settled_ms))
