"""A change is applied, undone and applied again while a stream runs: no record is lost or doubled, in tables or in sinks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.changing import apply_changes
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.roll_back import roll_back
from headrace.lake import notices, small_files
from headrace.lifecycle.backfill import verify
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.rebuilds.meeting_point import standing
from headrace.lifecycle.retention import Retention
from headrace.log.site import Site
from headrace.nodes.node_tables import frontier_ms
from headrace.spark.kafka import KafkaSettings
from headrace.streams.loops import supervised, swappable_loop
from headrace.streams.stream_runtime import StreamRuntime
from headrace.writing.leases import handover, lease_waits
from tests.changing.living import Living
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from headrace.description import Node
    from headrace.description.sink import Delivery
    from headrace.streams.status.stream_status import StreamStatus

pytestmark = pytest.mark.spark

OTHER_VERSION = "the code of this run describes another version"
READINGS = hr.Topic("readings", key="sensor STRING", value="value DOUBLE", idle_timeout=None)


class Seen:
    """A sink that remembers what it was given, and of which log commit."""

    name = "seen"

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        self.rows += [tuple(row) for row in rows.select("__sequence", *delivery.columns).collect()]


def pipeline(sinks: tuple[Seen, Seen], **more: Any) -> list[Node]:
    """Final windows, what reads them, and totals that never change."""
    windows = READINGS.group_by("sensor").window(hr.tumbling("1 minute"), grace="0 s")
    finals: Any = windows.aggregate(n=hr.count(), **more).suppress(hr.until_window_closes()).named("finals")
    return [
        finals.to(sinks[0]),
        finals.where("n < 9").named("quiet").to(sinks[1]),
        READINGS.group_by("sensor").aggregate(n=hr.count()).named("totals"),
    ]


class Running:
    """A stream run over a lake to whose log the test appends, and its newest statuses by node."""

    def __init__(self, living: Living, nodes: list[Node]) -> None:
        only = [f"stream/{node.required_name}_stream" for node in nodes]
        kafka = KafkaSettings(bootstrap_servers="localhost:1")
        self.runtime = StreamRuntime(
            living.spark, living.lake, nodes, kafka=kafka, clock=living.clock, only=only, trigger_ms=20
        )
        self._living = living
        self.status: dict[str, StreamStatus] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._ends.wait(0.05):
            self.status = {status.name: status for status in self.runtime.poll()}

    def until(self, done: Callable[[dict[str, StreamStatus]], bool]) -> None:
        until(lambda: self.status, lambda status: status and done(status))

    def read_all(self, *names: str) -> None:
        """Wait until some nodes have folded all that the log holds now."""
        target = {"readings": frontier_ms(self._living.lake, READINGS)}
        streams = [each for each in self.runtime._streams if each.name in names]
        self.until(lambda _: all(each.has_folded(target) for each in streams))

    def end(self) -> None:
        self._ends.set()
        self._thread.join()
        self.runtime.drain()


def all_run(status: dict[str, StreamStatus]) -> bool:
    """No node waits: a status may be older than what was folded since."""
    return {each.state for each in status.values()} == {"running"}


@contextmanager
def running(living: Living, nodes: list[Node]) -> Iterator[Running]:
    run = Running(living, nodes)
    try:
        yield run
    finally:
        run.end()


@pytest.fixture
def living(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Living:
    monkeypatch.setattr(notices, "LOCAL_SECONDS", 0.05)
    monkeypatch.setattr(supervised, "LEASE_RETRY_SECONDS", 0.1)
    monkeypatch.setattr(swappable_loop, "DESCRIPTION_READ_EVERY_SECONDS", 0.1)
    monkeypatch.setattr(handover, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(lease_waits, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(apply_changes, "LOOK_SECONDS", 0.1)
    return Living(spark, tmp_path / "lake", READINGS)


def test_nodes_of_a_running_stream_are_swapped_undone_and_swapped_again(living: Living) -> None:
    sinks, minute = (Seen(), Seen()), 0
    before, after = pipeline(sinks), pipeline(sinks, total=hr.sum("value"))
    changed = ("finals", "quiet")

    def feed(_: object = None) -> None:
        """A log commit that closes the windows of the one before."""
        nonlocal minute
        minute += 1
        living.commit((minute, "a", minute), (minute, "b", 1), (minute, "b", 2))

    def waits(status: dict[str, StreamStatus]) -> bool:
        told = [status[name] for name in changed]
        return all(s.state == "waiting" and OTHER_VERSION in str(s.error) for s in told)

    feed()
    feed()
    with running(living, before) as run:
        run.read_all(*changed, "totals")
        # More records follow each stage of the act, and the stream folds them.
        ApplyChanges(Site(living.spark, living.lake, living.clock), after).run(on_stage=feed)
        swapped = {node.required_name: standing(living.lake, node) for node in after}
        feed()
        run.until(waits)
        for name in changed:
            assert run.status[name].failures == 0
        run.read_all("totals")
        run.until(lambda status: status["totals"].state == "running")
        assert {n.required_name: standing(living.lake, n) for n in after[:2]} == {
            name: swapped[name] for name in changed
        }, "nobody folds them with the old code"

    with running(living, after) as run:
        run.read_all(*changed, "totals")
        assert living.tables(after) == living.tables_anew(after)
        for sink, name in zip(sinks, changed, strict=True):
            through = swapped[name]
            assert through is not None
            (through_ms,) = through.values()
            assert {len(row) == 6 for row in sink.rows if row[0] <= through_ms} == {False}
            assert {len(row) == 6 for row in sink.rows if row[0] > through_ms} == {True}
            assert len(sink.rows) == len({row[1:4] for row in sink.rows}) == 2 * (minute - 1), (
                "each window was given once: by the one version, or by the other"
            )

        roll_back(living.spark, living.lake, living.clock)
        run.until(waits)
        feed()
        living.fold(before[:2])  # as a run with the code before does
        assert living.tables(before[:2]) == living.tables_anew(before[:2])
        ApplyChanges(Site(living.spark, living.lake, living.clock), after).run(on_stage=feed)
        run.read_all(*changed, "totals")  # its code is the right one again
        run.until(all_run)
    assert living.tables(after) == living.tables_anew(after)


def test_a_node_of_a_running_stream_is_renamed_and_its_sink_gets_each_window_once(living: Living) -> None:
    sink, minute = Seen(), 0
    before: list[Any] = [pipeline((sink, Seen()))[0]]
    after: list[Any] = [before[0].named("closed", renamed_from="finals")]

    def feed() -> None:
        nonlocal minute
        minute += 1
        living.commit((minute, "a", minute), (minute, "b", 1))

    feed()
    feed()
    with running(living, before) as old:
        old.read_all("finals")
        with running(living, after) as new:
            new.until(lambda status: "once headrace apply has copied them" in str(status["closed"].error))
            feed()
            ApplyChanges(Site(living.spark, living.lake, living.clock), after).run()
            feed()
            new.read_all("closed")
            old.until(lambda status: "has renamed it to 'closed'" in str(status["finals"].error))
            assert (old.status["finals"].state, old.status["finals"].failures) == ("waiting", 0)
    assert living.tables(after) == living.tables_anew(after)
    assert len(sink.rows) == len({row[1:4] for row in sink.rows}) == len(living.tables(after)["closed"]) > 4


def test_a_key_is_erased_and_rows_are_cut_off_while_a_stream_runs(living: Living) -> None:
    sinks, minute = (Seen(), Seen()), 0
    nodes = pipeline(sinks)
    names = [node.required_name for node in nodes]

    def feed() -> None:
        nonlocal minute
        minute += 1
        living.commit((minute, "a", minute), (minute, "b", 1), (minute, "b", 2))

    feed()
    feed()
    with running(living, nodes) as run:
        run.read_all(*names)
        given = len(sinks[0].rows)
        for _ in Erasure(living.spark, living.lake, nodes, READINGS, "a", clock=living.clock).run():
            feed()  # records of the key that come later are new ones
        feed()
        run.read_all(*names)
        run.until(all_run)
        tables = living.tables(nodes)
        assert tables == living.tables_anew(nodes)
        assert len([row for row in tables["finals"] if "'a'" in row]) == minute - 3, (
            "two of its windows are gone"
        )
        assert len(sinks[0].rows) == len({row[1:4] for row in sinks[0].rows}) > given, "nothing came twice"
        assert not small_files.exists(living.lake.erasing("readings"))

        cut = Retention(living.spark, living.lake, nodes, READINGS, clock=living.clock).run(
            living.clock.now_ms() - 1_500
        )
        assert cut.rows
        assert sorted(cut.balances) == ["finals", "totals"]
        feed()
        run.read_all(*names)
        run.until(all_run)
        assert {*tables["finals"]} < {*living.tables(nodes)["finals"]}
    for node in nodes:
        assert all(day.equal for day in verify(living.spark, living.lake, node))
