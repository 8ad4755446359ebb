"""A supervised streaming query of Spark. Spark's checkpoint is scratch: a new one at each start, thrown away at the end."""

from __future__ import annotations

import json
import tempfile
from abc import abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.streams.supervised import Supervised
from headrace.writing.lease import LeaseLostError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace.streams.jvm_process import JvmEndedError


class SupervisedQuery(Supervised):
    """Handles each micro-batch of a query of Spark's."""

    def __init__(self) -> None:
        """Closed at first."""
        super().__init__()
        self.query: StreamingQuery | None = None
        self._opening = 0  # how often the query was given up: late triggers of an earlier start do nothing
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @abstractmethod
    def open(self) -> DataStreamWriter:
        """Take the lease, recover, and describe the query to start."""

    @abstractmethod
    def work(self, batch: DataFrame, batch_id: int) -> int:
        """Handle one micro-batch; returns the rows handled."""

    @property
    def running(self) -> bool:
        """Whether Spark runs the query."""
        query = self.query
        return query is not None and query.isActive

    def begin(self) -> None:
        """Open it, and let Spark start the query."""
        self.query = None
        writer = self.open()
        self._scratch = tempfile.TemporaryDirectory(
            prefix=f"headrace-{self.name}-", ignore_cleanup_errors=True
        )
        writer = writer.foreachBatch(partial(self._trigger, opening=self._opening))
        writer = writer.option("checkpointLocation", f"file:{self._scratch.name}")
        self.query = writer.queryName(f"{self.kind}/{self.name}").start()

    def stop(self) -> None:
        """Let Spark stop the query; it waits for the trigger under way."""
        if self.query is not None:
            self.query.stop()

    def end_with_jvm(self, error: JvmEndedError) -> None:
        """Forget the query, too: nobody answers for it."""
        super().end_with_jvm(error)
        self.query = None

    def ends_of(self, batch_id: int) -> dict[str, dict[int, int]]:
        """Where a micro-batch of a Kafka source ends: for each topic the next offset of each partition.

        Spark writes it to its checkpoint before the micro-batch begins: a version, metadata, and one line for each source.
        """
        assert self._scratch is not None
        written = Path(self._scratch.name, "offsets", str(batch_id)).read_text(encoding="utf-8")
        topics = json.loads(written.splitlines()[2])
        return {topic: {int(p): end for p, end in ends.items()} for topic, ends in topics.items()}

    def own_failure(self) -> BaseException | None:
        """Spark's exception, if there is one: its source may fail between two micro-batches."""
        return None if self.query is None else self.query.exception()

    def set_trigger(self, trigger_ms: int) -> None:
        """Begin anew with another time between two micro-batches: a query of Spark keeps the one with which it began.

        While a micro-batch is under way nothing happens.
        """
        if trigger_ms == self.trigger_ms or self.finished or self._busy.locked():
            return
        self.drain()
        self.trigger_ms, self.finished = trigger_ms, False
        self._closing.clear()

    def _trigger(self, batch: DataFrame, batch_id: int, opening: int) -> None:
        """Spark calls this for each micro-batch. An error here ends the query soon; no micro-batch begins meanwhile.

        In:     opening  which start of the query this trigger belongs to
        Raises: LeaseLostError when Spark calls so late that the query has been given up, and perhaps opened again.
        """
        with self._busy:
            if opening != self._opening:
                late = f"{self.kind}/{self.name}: a micro-batch of an earlier query came late; it is dropped."
                raise LeaseLostError(
                    late, hint="Nothing is lost: the query that replaced it reads the same records."
                )
            if self._closing.is_set():
                return  # nothing is lost: the next start reads on from our own last commit
            if self._cause is not None:
                raise self._cause
            self._handle(lambda: self.work(batch, batch_id))

    def _release(self) -> None:
        with self._busy:
            self._opening += 1  # triggers that come from here on are too late
        super()._release()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None
