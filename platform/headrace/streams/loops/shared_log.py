"""A log that several pipelines read: one of their runs writes it, for the nodes of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import TransientError
from headrace.log.decisions.topic_identity import known_topic_id, require_known_topic
from headrace.streams.loops.supervised_loop import SupervisedLoop

if TYPE_CHECKING:
    from headrace.log.sequencer import Sequencer
    from headrace.writing.leases.lease import Lease, LeaseTakenError
    from headrace.writing.leases.readers import Asked


class SharedLog(SupervisedLoop):
    """The loop of a log that other pipelines may read, and write, too.

    asked      what its readers ask of it, in this pipeline and elsewhere
    is_shared  whether nodes of other pipelines read it
    """

    def __init__(self, asked: Asked) -> None:
        """In: asked  by the nodes of this pipeline."""
        super().__init__()
        self._own = self.asked = asked
        self.is_shared = False
        self._is_known = False  # that it was read from the topic which Kafka has
        self.sequencer: Sequencer | None = None
        self._lease: Lease | None = None

    @property
    def writes(self) -> bool:
        """Whether this process writes the log now."""
        return self._lease is not None and self.sequencer is not None

    @property
    def is_written_elsewhere(self) -> bool:
        """Whether a run of another pipeline writes the log, which is as well."""
        return self.state == "waiting" and self._waits_for is None and self.is_shared

    def require_known(self, path: str, topic_id: str | None) -> None:
        """Before anything is written, refuse a log that was read from another topic of this name; the sequencer asks again.

        In:     path  of the log; topic_id  Kafka's; None: the broker has none
        Raises: TerminalError
        """
        if not self._is_known:
            require_known_topic(self.name, known_topic_id(path, self.name), topic_id)
            self._is_known = True

    def look_every_ms(self, tick_every_ms: int) -> int:
        """How often to look at the clock: more often if a reader may be waiting for it, or for a promise."""
        waits = self.asked.wall_waits or self.asked.ordered
        return min(max(self.trigger_ms // 4, 50), tick_every_ms) if waits else tick_every_ms

    def _wait_for_lease(self, refused: LeaseTakenError) -> None:
        """One run of all pipelines that read the log writes it; the others wait for its end as long as it takes."""
        super()._wait_for_lease(refused)
        if self.is_shared and refused.holder is not None:
            self.error = TransientError(
                f"Log '{self.name}' is written by {refused.holder.process}, which reads it for another pipeline. "
                "This run reads the log, and writes it as soon as that one has ended."
            )

    def serve(self, others: Asked) -> None:
        """Tick and promise also for readers in other pipelines: for what they ask now."""
        self.asked = self._own | others
        if self.sequencer is not None:
            self.sequencer.wait_longer(self.asked.longest_wait_ms, self.asked.wall_waits)
