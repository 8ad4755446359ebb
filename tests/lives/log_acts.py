"""Acts on logs: a cut, an erasure, a redrive, and the repair of a lost commit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from shutil import copytree
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import HeadraceError
from headrace.lake import forget, open_table, small_files
from headrace.lake.paths import Lake
from headrace.lake.storage import local_path
from headrace.lifecycle.corrections import Correction
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.log_repair.repair import Repair
from headrace.lifecycle.retention import Retention
from headrace.nodes.node_tables import read_progress
from headrace.nodes.standing.planned import planned_after
from headrace.nodes.standing.state_commits import last_state_commit
from headrace.testing.driver import SimulatedCrashError
from headrace.writing.delivery.redeliver import can_be_put_right, redeliver
from headrace.writing.node_logs.node_log import node_log
from tests.lake.lost_commits import overwrite, versions
from tests.lake.searching import files_with
from tests.laws.tables import ms
from tests.lives.at_rest import rows_of
from tests.lives.broker import CUT, NOWHERE, ToBroker, blanked, is_of_key
from tests.lives.descriptions import content
from tests.lives.live import LivesDriver
from tests.lives.processes import Once
from tests.lives.story import Erase, Life, Mend, Redrive, Retain, Sent, Step
from tests.lives.themes import ERASABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Topic
    from tests.lives.stores import LivesStore

T = TypeVar("T")
CHANGES_NO_ROW = ("retain", "recompute", "redeliver", "redrive", "pack")
REFUSALS = (  # of acts that a document says cannot be; nothing is changed then
    "its log cannot be cut at",
    "its log was cut, and the opening balance",
    "There is nothing to go back to",
    "You cannot go back to the tables before",
    "The plan refuses",
    "cannot go on from the tables of",
    "it is the key of the sinks' rows",
    "its rows have another identity now",
    "have read less than the old tables",
    "they cannot be delivered again",
)


class LogActs(LivesDriver):
    """A driver with a session of Spark, in which people act on logs."""

    __test__ = False

    def __init__(self, life: Life, spark: SparkSession) -> None:
        """Begin as `LivesDriver` does."""
        self.acts: list[str] = []
        self.lost: dict[str, tuple[Mend, dict[LivesStore, Counter[str]]]] = {}  # what is to be repaired yet
        super().__init__(life, spark)

    def happens(self, step: Step) -> None:
        """Let one step happen. A lost commit is repaired before it, unless people act on what is lost."""
        if not isinstance(step, Retain | Erase):
            self._repair_all()
        super().happens(step)

    def _of_topic(self, name: str, what: str, work: Callable[[], None]) -> None:
        if name in self._brokers and name in self._topics:
            self._act(what, work)

    def _of_node(self, place: int, what: str, work: Callable[[str], None]) -> None:
        for name in self._names[place : place + 1]:
            self._act(what, partial(work, name))

    def _act(self, what: str, work: Callable[[], None]) -> bool:
        """Do what a person asks for; then all processes start again. Out: False if it was refused"""
        before = self._settled_rows() if what in CHANGES_NO_ROW else {}
        with self.undisturbed():
            try:
                work()
                done = True
            except HeadraceError as error:
                allowed = (*REFUSALS, "its log has lost") if self.lost else REFUSALS
                if not any(text in str(error) for text in allowed):
                    raise
                done = False
            forget()
            self._become(len(self._names))
        after = self._rows() if before else {}
        changed = [name for name, rows in before.items() if rows != after[name]]
        assert not changed, f"{what} changes rows of {changed}"
        self.acts.append(what if done else f"({what})")
        return done

    def _settled_rows(self) -> dict[str, Any]:
        """The rows of the nodes without a micro-batch that was broken off: an act may complete it."""
        planned = {
            name
            for name, node in self._nodes.items()
            if planned_after(self._lake, name, last_state_commit(self._lake, name), appended=node.has_days)
        }
        return {name: rows for name, rows in self._rows().items() if name not in planned}

    def _rows(self) -> dict[str, Any]:
        """The rows of the nodes that have run."""
        return {name: self.rows(name) for name in self._names}

    def _retain(self, step: Retain) -> None:
        topic, broker = self._topics[step.topic], self._brokers[step.topic]
        work = Retention(self.spark, self._lake, [*self._nodes.values()], topic, clock=self._clock)
        there, cuts = self._places(step.topic), self.cut_logs.setdefault(step.topic, [])
        whole = Lake(f"{self._lake.root}-before-{len(self.acts)}")  # outside of the lake
        copytree(self._lake.root.removeprefix("file:"), whole.root.removeprefix("file:"))
        before_ms = self._clock.now_ms() - step.ms
        at_ms = self._insists(step.dies, lambda dies: work.run(before_ms, on_stage=dies)).at_ms
        forget()
        self._become(len(self._names))
        self._require_same_logs(whole)
        if at_ms is not None:
            left = [ms(row["ingested_at"]) for row in self.log(step.topic) if row["offset"] is not None]
            assert at_ms < min([before_ms, *left]), f"cut at {at_ms} before {before_ms}: {left[:3]}"
            cuts.append((at_ms, whole.log(step.topic)))
            broker.cut |= (there - self._places(step.topic)) | {(CUT, at_ms)}

    def _insists(self, dies: int | None, work: Callable[[Once], T]) -> T:
        """Give a command until it has ended. In: dies  at which step it dies, once"""
        crash = Once(dies)
        while True:
            try:
                return work(crash)
            except SimulatedCrashError:
                forget()

    def _require_same_logs(self, whole: Lake) -> None:
        """A cut changes no log of a node. In: whole  the lake before the cut; there the logs are written now"""
        for name, node in self._nodes.items():
            log = node_log(whole, node, is_read=False)
            if log is not None and small_files.names(whole.state(name)):
                log.follow(read_progress(whole, node))
                rows, before = (rows_of(lake.log(log.topic.name)) for lake in (self._lake, whole))
                assert rows == before, f"a cut changes the log of {name}: {rows[:3]} in place of {before[:3]}"

    def _places(self, topic: str) -> set[tuple[int, int]]:
        """The records in a log."""
        return {(row["partition"], row["offset"]) for row in self.log(topic) if row["offset"] is not None}

    def _erase(self, step: Erase) -> None:
        before, nodes, topic = self._in_sinks(), [*self._nodes.values()], self._topics[step.topic]
        log = self.log(step.topic)
        work = Erasure(self.spark, self._lake, nodes, topic, step.key, clock=self._clock)
        done = self._insists(step.dies, lambda dies: [*work.run(on_stage=dies)])
        forget()
        of_key = [is_of_key(row, step.key) for row in log]
        wanted = [blanked(row) if goes else row for row, goes in zip(log, of_key, strict=True)]
        assert self.log(step.topic) == wanted, "an erasure blanks the rows of its key, and no others"
        assert step.dies is not None or done[0].rows == sum(of_key), (
            f"an erasure tells of {done[0].rows} rows, not of {sum(of_key)}"
        )
        if step.key == ERASABLE and not any(
            self._has_key(other) for other in self._brokers if other != step.topic
        ):
            pending = {f"/{each.of}/" for each in done if each.note.startswith("pending")}  # names given up
            left = [file for file in files_with(self, step.key) if not any(of in file for of in pending)]
            assert not left, f"an erased key stands in {left[:3]}"
        self._become(len(self._names))
        self._put_right(before)

    def _has_key(self, topic: str) -> bool:
        """Whether a record of the topic has the key that no other text holds."""
        return any(row[0] == ERASABLE.encode() for row in self._brokers[topic]._rows)

    def _redrive(self, step: Redrive) -> None:
        topic, broker = self._topics[step.topic], self._brokers[step.topic]
        work = ToBroker(self.spark, self._lake, topic, broker)
        corrections = None
        if step.value is not None and step.topic == "t":
            letters = [row for row in self.log(step.topic) if row["kind"] == "dead_letter"]
            sent = content(Sent("t", 0, None, 0, step.value), dated=self.life.dated)
            corrected = Correction({"value": json.dumps(sent).encode()})
            corrections = {(row["partition"], row["offset"]): corrected for row in letters}
        work.run(corrections=corrections)

    def _mend(self, step: Mend) -> None:
        """Commits since the log was last rewritten: of these none is in a checkpoint's or a rewritten file."""
        log, before = self._lake.log(step.topic), self._in_sinks()
        if step.unseen:  # by nodes, which have not read it yet
            self.sequence([step.topic], 1 + step.back, settles=True)
        commits = versions(log, f"log/{step.topic}")
        if len(commits) <= step.back or open_table(log).version != commits[-1]:
            return
        if commits[-1] - commits[-1 - step.back] != step.back:
            return
        overwrite(log, commits[-1 - step.back])
        if step.unseen:
            self._become(len(self._names))
            self.fold(self._nodes)
        self.lost[step.topic] = step, before
        if not step.later:
            self._repair_all()

    def _repair_all(self) -> None:
        """Repair the logs that have lost commits."""
        for name, (step, before) in self.lost.items():
            with self.undisturbed():
                self._insists(step.dies, partial(self._repair, self._topics[name]))
                if step.unseen or step.later:
                    forget()
                    self._become(len(self._names))
                if step.unseen:
                    self._put_right(before)
        self.lost.clear()

    def _repair(self, topic: Topic, dies: Once) -> None:
        work = Repair(self.spark, self._lake, [*self._nodes.values()], topic, NOWHERE, clock=self._clock)
        work.on_stage = dies
        for done in work.run():
            dies(str(done))

    def _redeliver(self, name: str) -> None:
        node = self._nodes[name]
        if not node.sinks:
            return
        has_run = last_state_commit(self._lake, name) is not None
        self.stores[name].put_off = not has_run
        if has_run:
            redeliver(self.spark, self._lake, node)

    def _pack(self, topic: str) -> None:
        """By a session of Spark as it is without settings: it writes times in another way."""
        stranger = self.spark.newSession()
        stranger.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
        stranger.sql(f"OPTIMIZE delta.`{local_path(self._lake.log(topic))}`")

    def rest(self) -> None:
        """Come to rest, and put right what could not be before."""
        self._repair_all()
        super().rest()
        for name in [name for name, store in self.stores.items() if store.put_off and name in self._nodes]:
            self._redeliver(name)

    def _in_sinks(self) -> dict[LivesStore, Counter[str]]:
        """The rows of the nodes, by each sink that only takes rows."""
        return {
            store: store.of_table(self.rows(name))
            for name, store in self.stores.items()
            if name in self._nodes and not can_be_put_right(store)
        }

    def _put_right(self, before: dict[LivesStore, Counter[str]]) -> None:
        """Rows of before have changed: sinks that can be corrected are. The others keep what they have."""
        for name, store in self.stores.items():
            store.corrected = True
            if name in self._nodes and can_be_put_right(store):
                self._redeliver(name)
        for store, rows in self._in_sinks().items():
            store.not_told += rows - before.get(store, Counter())
