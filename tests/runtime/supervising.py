"""A log's query and a node's loop in the shape that tests of supervision need: no Spark, and work that a test hands in."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

from headrace.streams.supervised import Supervised
from headrace.streams.supervised_loop import SupervisedLoop
from headrace.streams.supervised_query import SupervisedQuery

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LONG = 10.0  # nothing here takes so long


def until(condition: Callable[[], object]) -> None:
    """Wait for something that is bound to come; by the real clock, for a test may set another."""
    for _ in range(round(LONG / 0.002)):
        if condition():
            return
        time.sleep(0.002)
    raise AssertionError("it did not come")


def raise_(error: BaseException) -> Any:
    """Raise it, in a lambda."""
    raise error


def held_up(stream: Stubbed, then: Callable[[], int]) -> threading.Event:
    """Open a stream and begin a micro-batch; it ends as `then` once the event is set."""
    begun, go_on = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        go_on.wait(LONG)
        return then()

    stream.does = work
    stream.keep_running()
    stream.begin_batch()
    assert begun.wait(LONG)
    return go_on


class SparkStub:
    """Stands in for Spark's writer and query: `stop` waits for the trigger under way, as Spark's does."""

    def __init__(self) -> None:
        self.isActive = False
        self.failed: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._handle: Any = None

    def foreachBatch(self, handle: Any) -> SparkStub:  # noqa: N802
        self._handle = handle
        return self

    def option(self, *_: str) -> SparkStub:
        return self

    def queryName(self, _: str) -> SparkStub:  # noqa: N802
        return self

    def start(self) -> SparkStub:
        self.isActive = True
        return self

    def exception(self) -> BaseException | None:
        return self.failed

    def trigger(self) -> threading.Thread:
        """Begin a micro-batch on a thread of Spark's."""

        def run() -> None:
            try:
                self._handle(None, 0)
            except BaseException:
                self.isActive = False

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        return self._thread

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.join(LONG)
            assert not self._thread.is_alive(), (
                "the trigger waits for the drain, and the drain for the trigger"
            )
        self.isActive = False


class Stubbed(Supervised):
    """What both kinds share here."""

    kind, name, trigger_ms = "stream", "tried", 5

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = self.worked = 0
        self.refusals: list[BaseException] = []
        self.does: Callable[[], int] = lambda: 1

    def close(self) -> None:
        self.closed += 1

    @abstractmethod
    def begin_batch(self) -> None:
        """Begin a micro-batch, soon."""

    def batch(self) -> None:
        """Run a micro-batch to its end."""
        worked = self.worked
        self.begin_batch()
        until(lambda: self.worked > worked and not self._busy.locked())

    def _open(self) -> None:
        self.opened += 1
        if self.refusals:
            raise self.refusals.pop(0)

    def _do(self) -> int:
        try:
            return self.does()
        finally:
            self.worked += 1


class Query(Stubbed, SupervisedQuery):
    """As a log is."""

    def __init__(self) -> None:
        super().__init__()
        self.spark = SparkStub()

    def open(self) -> DataStreamWriter:
        self._open()
        self.spark = SparkStub()
        return cast("DataStreamWriter", self.spark)

    def work(self, batch: DataFrame, batch_id: int) -> int:
        return self._do()

    def begin_batch(self) -> None:
        self.spark.trigger()


class Loop(Stubbed, SupervisedLoop):
    """As a node is."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.looks_find: Callable[[], bool] = lambda: False

    def open(self) -> None:
        self._open()

    def due(self) -> bool:
        self.looks += 1
        return self.looks_find()

    def work(self) -> int:
        return self._do()

    def begin_batch(self) -> None:
        self.check_now()


def fail_at_work(stream: Stubbed, error: BaseException) -> None:
    """Run a micro-batch that fails, until what ran has ended."""
    stream.does = lambda: raise_(error)
    stream.begin_batch()
    until(lambda: not stream.running)
