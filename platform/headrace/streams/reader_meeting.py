"""Readers and writers of logs meet in the lake: each run says what it reads, and looks who reads what it writes."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import structlog

from headrace.description import written_by
from headrace.lake.format import require_format
from headrace.lake.notices import recent_names
from headrace.writing.leases.readers import Asked, asked_by, asked_in, asked_through, read_by_name, register
from headrace.writing.topic_descriptions import others_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.description import Node
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.streams.loops.log_stream import LogStream
    from headrace.streams.loops.node_stream import NodeStream

logger = structlog.get_logger(__name__)
MEET_EVERY_SECONDS = 5.0  # between looks at who reads what is written here
# Maintenance removes the registration of a node whose tables are still those of a description that does not read the log.
REGISTER_EVERY_SECONDS = 300.0


class ReaderMeeting:
    """Registers the nodes of one run as readers, and lets its logs and nodes serve those of others."""

    def __init__(
        self,
        lake: Lake,
        clock: Clock,
        nodes: Sequence[Node],
        logs: Sequence[LogStream],
        streams: Sequence[NodeStream],
    ) -> None:
        """In: nodes of the pipeline; `logs`, `streams`: those that the run hosts."""
        self._lake, self._clock, self._nodes = lake, clock, nodes
        self._logs, self._streams = logs, streams
        self._hosted = {stream.name for stream in streams}
        self._due_at = self._register_at = 0.0

    def keep(self) -> None:
        """Do it if it is time. Never raises: what fails is tried again."""
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + MEET_EVERY_SECONDS
        if time.monotonic() >= self._register_at and _tried(self._register):
            self._register_at = time.monotonic() + REGISTER_EVERY_SECONDS
        of_nodes: dict[str, Asked] = {}
        if _tried(partial(self._look, of_nodes)):
            for log in self._logs:
                _tried(partial(self._serve, log, of_nodes))

    def _register(self) -> None:
        require_format(self._lake.root)  # before anything is written
        for topic in {topic.name: topic for node in self._nodes for topic in node.topics}.values():
            if written_by(topic) is None:
                asked = asked_by(topic, self._nodes)
                for reader in sorted(self._hosted.intersection(asked.readers)):
                    register(self._lake, topic, reader, asked)

    def _look(self, of_nodes: dict[str, Asked]) -> None:
        """See who reads the nodes of this run, and fill `of_nodes`; and whether those that these read are the same."""
        by_name = read_by_name(self._lake)
        for stream in self._streams:
            if stream.name in by_name:
                of_nodes[stream.name] = asked_in(self._lake, f"{stream.name}@", recent_names)
                is_read = bool(of_nodes[stream.name].readers)
                _tried(partial(stream.look_at_readers, is_read_by_name=is_read))
            _tried(stream.look_at_generations)

    def _serve(self, log: LogStream, of_nodes: Mapping[str, Asked]) -> None:
        """Serve who reads a log, also nodes of this run: a change of theirs that is applied now may ask for more."""
        own = {node.required_name for node in self._nodes}
        through = asked_through(log.topic, self._nodes, of_nodes) if of_nodes else Asked()
        log.serve(asked_in(self._lake, log.name, recent_names) | through)
        log.is_shared = bool(others_reading(self._lake, log.name, own, self._clock, recent_names))


def _tried(work: Callable[[], object]) -> bool:
    """Whether it could be done; what fails keeps nothing else from being done."""
    try:
        work()
    except Exception as error:
        logger.warning("readers not looked up, will be tried again", error=str(error))
        return False
    return True
