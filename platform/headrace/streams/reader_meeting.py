"""Readers and writers of logs meet in the lake: each run says what it reads, and looks who reads what it writes."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import structlog

from headrace.description import output_name, written_by
from headrace.lake.format import require_format
from headrace.lake.notices import recent_names
from headrace.nodes.descriptions.topics import ordered_logs
from headrace.writing.leases.readers import Asked, asked_by, asked_in, asked_through, read_by_name, register
from headrace.writing.topic_descriptions import others_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.description import Node, Topic
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
        self._of_nodes: dict[str, Asked] = {}  # what other pipelines ask of the nodes
        self._due_at = self._register_at = 0.0
        self._let_promise()

    def keep(self) -> None:
        """Do it if it is time. Never raises: what fails is tried again."""
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + MEET_EVERY_SECONDS
        self._register_if_due()  # first: what this process then lists, for a while, has it
        is_known = _tried(self._look)
        self._register_if_due()
        if is_known:
            for log in self._logs:
                _tried(partial(self._serve, log))

    def _register_if_due(self) -> None:
        if time.monotonic() >= self._register_at and _tried(self._register):
            self._register_at = time.monotonic() + REGISTER_EVERY_SECONDS

    def _register(self) -> None:
        """Ask, of what other pipelines write, what these nodes need, and what others need that read these by name."""
        require_format(self._lake.root)  # before anything is written
        for topic in {topic.name: topic for node in self._nodes for topic in node.topics}.values():
            if written_by(topic) is None:
                own = asked_by(topic, self._nodes)
                for reader in sorted(self._hosted.intersection(own.readers)):
                    register(self._lake, topic, reader, own | self._through(topic))

    def _look(self) -> None:
        """See who reads the nodes by name, and what they ask; and whether the nodes that these read are the same."""
        by_name = read_by_name(self._lake)
        read = [node.required_name for node in self._nodes if node.required_name in by_name]
        of_nodes = {name: asked_in(self._lake, f"{name}@", recent_names) for name in read}
        if of_nodes != self._of_nodes:
            self._of_nodes, self._register_at = of_nodes, 0.0  # a log further up has to know at once
            self._let_promise()
        for stream in self._streams:
            if stream.name in of_nodes:
                is_read = bool(of_nodes[stream.name].readers)
                _tried(partial(stream.look_at_readers, is_read_by_name=is_read))
            _tried(stream.look_at_generations)

    def _let_promise(self) -> None:
        """Let the nodes promise whose logs, or what follows from these, are read in one order with others."""
        ordered = ordered_logs(self._nodes, {name for name, asked in self._of_nodes.items() if asked.ordered})
        outputs = {node.required_name: output_name(node) for node in self._nodes}
        for stream in self._streams:
            stream.is_ordered = outputs[stream.name] in ordered

    def _through(self, topic: Topic) -> Asked:
        """The requests of other pipelines to a log: they read nodes that follow from it by name."""
        return asked_through(topic, self._nodes, self._of_nodes) if self._of_nodes else Asked()

    def _serve(self, log: LogStream) -> None:
        """Serve who reads a log, also nodes of this run: a change of theirs that is applied now may ask for more."""
        own = {node.required_name for node in self._nodes}
        log.serve(asked_in(self._lake, log.name, recent_names) | self._through(log.topic))
        log.is_shared = bool(others_reading(self._lake, log.name, own, self._clock, recent_names))


def _tried(work: Callable[[], object]) -> bool:
    """Whether it could be done; what fails keeps nothing else from being done."""
    try:
        work()
    except Exception as error:
        logger.warning("readers not looked up, will be tried again", error=str(error))
        return False
    return True
