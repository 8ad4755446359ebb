"""Lives through what people do to a lake: they retain, erase, rename, apply, roll back, recompute, redrive and repair."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from shutil import copytree
from typing import TYPE_CHECKING, Any

import pytest

from headrace.changing import apply_changes
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.roll_back import roll_back
from headrace.errors import HeadraceError, TerminalError
from headrace.lake import forget, open_table
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.corrections import Correction
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.log_repair.repair import Repair
from headrace.lifecycle.retention import Retention
from headrace.log.site import Site
from headrace.testing.driver import SimulatedCrashError
from headrace.writing.delivery.redeliver import can_be_put_right, redeliver
from tests.lake.lost_commits import overwrite, versions
from tests.lake.searching import files_with
from tests.laws.tables import ms
from tests.lives.broker import CUT, NOWHERE, ToBroker, blanked, is_of_key
from tests.lives.descriptions import content, described, name_of
from tests.lives.drawing import ERASABLE
from tests.lives.live import LivesDriver
from tests.lives.processes import Once, here_and_there
from tests.lives.story import (
    Change,
    Erase,
    GoBack,
    Grow,
    Life,
    Mend,
    Recompute,
    Redeliver,
    Redrive,
    Rename,
    Retain,
    Sent,
    Step,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from tests.lives.stores import LivesStore

CHANGES_NO_ROW = ("retain", "recompute", "redeliver", "redrive")
REFUSALS = (  # of acts that a document says cannot be; nothing is changed then
    "its log cannot be cut at",
    "its log was cut, and the opening balance",
    "There is nothing to go back to",
    "You cannot go back to the tables before",
    "The plan refuses",
    "cannot go on from the tables of",
    "it is the key of the sinks' rows",
    "have read less than the old tables",
    "they cannot be delivered again by day",
)


@dataclass
class Description:
    """What people describe: the choices of each node, and how often it was renamed."""

    made: list[Any]
    renamed: dict[int, int] = field(default_factory=dict)
    dated: bool = False

    def nodes(self) -> list[Node]:
        """The nodes of the description."""
        return described(self.made, self.renamed, dated=self.dated)


class LifecycleDriver(LivesDriver):
    """A driver with a session of Spark, for what people do to a lake."""

    __test__ = False

    def __init__(self, life: Life, spark: SparkSession) -> None:
        """Begin as `LivesDriver` does."""
        self.description = Description([*life.nodes], dated=life.dated)
        self.before_change: tuple[int, int] | None = None  # a node's number and its choices
        # Over a rename with which readers were rebuilt nobody goes back: another rename undoes it.
        self.goes_back = True
        self.acts: list[str] = []
        super().__init__(life, spark)

    def live(self) -> None:
        """Live through all steps; tasks of Spark fold some of the increments."""
        with here_and_there():
            super().live()

    def _decided(self, step: Step) -> None:
        match step:
            case Retain():
                self._of_topic(step.topic, "retain", partial(self._retain, step))
            case Erase():
                self._of_topic(step.topic, "erase", partial(self._erase, step))
            case Redrive():
                self._of_topic(step.topic, "redrive", partial(self._redrive, step))
            case Mend():
                self._of_topic(step.topic, "mend", partial(self._mend, step))
            case Rename():
                times = self.description.renamed
                once_more = {**times, step.node: times.get(step.node, 0) + 1}
                self.goes_back &= not self._changes_rules(step, replace(self.description, renamed=once_more))
            case Change():
                self._change(step)
            case GoBack() if self.goes_back:
                self._act("rollback", self._go_back)
            case Recompute():
                self._of_node(step.node, "recompute", self._recompute)
            case Redeliver():
                self._of_node(step.node, "redeliver", self._redeliver)
            case Grow():
                self._grow()
            case _:
                super()._decided(step)

    def _grow(self) -> None:
        """A node cannot read one whose log was cut before anybody read it: then the pipeline stays as it is."""
        number = len(self._names)
        try:
            self._become(min(number + 1, len(self.whole)))
        except TerminalError as error:
            if "rows of its logs were cut off" not in str(error):
                raise
            self._become(number)

    def _of_topic(self, name: str, what: str, work: Callable[[], None]) -> None:
        if name in self._brokers and name in self._topics:
            self._act(what, work)

    def _of_node(self, place: int, what: str, work: Callable[[str], None]) -> None:
        for name in self._names[place : place + 1]:
            self._act(what, partial(work, name))

    def _act(self, what: str, work: Callable[[], None]) -> bool:
        """Do what a person asks for; then all processes start again. Out: False if it was refused"""
        before = self._rows() if what in CHANGES_NO_ROW else {}
        with self.undisturbed():
            try:
                work()
                done = True
            except HeadraceError as error:
                if not any(text in str(error) for text in REFUSALS):
                    raise
                done = False
            forget()
            self._become(len(self._names))
        after = self._rows() if before else {}
        changed = [name for name, rows in before.items() if rows != after[name]]
        assert not changed, f"{what} changes rows of {changed}"
        self.acts.append(what if done else f"({what})")
        return done

    def _rows(self) -> dict[str, Any]:
        """The rows of the nodes that have run."""
        return {name: self.rows(name) for name in self._names}

    # Logs.

    def _retain(self, step: Retain) -> None:
        topic, broker, log = self._topics[step.topic], self._brokers[step.topic], self._lake.log(step.topic)
        work = Retention(self.spark, self._lake, [*self._nodes.values()], topic, clock=self._clock)
        there, cuts = self._places(step.topic), self.cut_logs.setdefault(step.topic, [])
        copy = f"{self._lake.root}-before-{len(self.acts)}"  # outside of the lake
        copytree(log.removeprefix("file:"), copy.removeprefix("file:"))
        before_ms = self._clock.now_ms() - step.ms
        at_ms = work.run(before_ms).at_ms
        forget()
        if at_ms is not None:
            left = [ms(row["ingested_at"]) for row in self.log(step.topic) if row["offset"] is not None]
            assert at_ms < min([before_ms, *left]), f"cut at {at_ms} before {before_ms}: {left[:3]}"
            cuts.append((at_ms, copy))
            broker.cut |= (there - self._places(step.topic)) | {(CUT, at_ms)}

    def _places(self, topic: str) -> set[tuple[int, int]]:
        """The records in a log."""
        return {(row["partition"], row["offset"]) for row in self.log(topic) if row["offset"] is not None}

    def _erase(self, step: Erase) -> None:
        before, nodes, topic = self._in_sinks(), [*self._nodes.values()], self._topics[step.topic]
        log = self.log(step.topic)
        done = [*Erasure(self.spark, self._lake, nodes, topic, step.key, clock=self._clock).run()]
        forget()
        of_key = [is_of_key(row, step.key) for row in log]
        wanted = [blanked(row) if goes else row for row, goes in zip(log, of_key, strict=True)]
        assert self.log(step.topic) == wanted, "an erasure blanks the rows of its key, and no others"
        assert done[0].rows == sum(of_key), f"an erasure tells of {done[0].rows} rows, not of {sum(of_key)}"
        if step.key == ERASABLE and not any(
            self._has_key(other) for other in self._brokers if other != step.topic
        ):
            left = files_with(self, step.key)
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
        topic, log = self._topics[step.topic], self._lake.log(step.topic)
        commits = versions(log, f"log/{step.topic}")
        if len(commits) <= step.back or open_table(log).version != commits[-1]:
            return
        if commits[-1] - commits[-1 - step.back] != step.back:
            return
        overwrite(log, commits[-1 - step.back])
        [*Repair(self.spark, self._lake, [*self._nodes.values()], topic, NOWHERE, clock=self._clock).run()]

    def _change(self, step: Change) -> None:
        if step.node >= len(self._names):
            return
        made, before = [*self.description.made], self.description.made[step.node].number
        made[step.node] = replace(made[step.node], number=step.number)
        if self._changes_rules(step, replace(self.description, made=made)):
            self.before_change, self.goes_back = (step.node, before), True

    def _changes_rules(self, step: Change | Rename, after: Description) -> bool:
        """Whether a description is applied, and nodes were rebuilt by it."""
        number = len(self._names)
        rules = [node.fingerprint() for node in self.whole[:number]]
        return self._apply(step, after) and rules != [node.fingerprint() for node in self.whole[:number]]

    def _apply(self, step: Change | Rename, after: Description) -> bool:
        before, number = self.description, len(self._names)
        if step.node >= number:
            return False
        rows = self._in_sinks()
        self._describe(after)
        crash = Once(step.dies)

        def work() -> None:
            while True:
                nodes = self._with_sinks(number)
                act = ApplyChanges(Site(self.spark, self._lake, self._clock, crash), nodes, kafka=NOWHERE)
                try:
                    act.run()
                except SimulatedCrashError:
                    forget()
                    continue
                break
            self._become(number)
            self._put_right(rows)

        done = False
        with self.undisturbed(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(apply_changes, "CATCH_UP_SECONDS", 0)  # no log goes on meanwhile
            try:
                work()
                done = True
            except HeadraceError as error:
                if not any(text in str(error) for text in REFUSALS):
                    raise
                self._describe(before)
            forget()
            self._become(number)
        self.acts.append(type(step).__name__ if done else f"({type(step).__name__})")
        return done

    def _describe(self, description: Description) -> None:
        """Describe the pipeline so. What belongs to a node goes along with it."""
        before = self._all_names()
        self.description, self.whole = description, description.nodes()
        after = dict(zip(before, self._all_names(), strict=True))
        self.stores = {after[name]: store for name, store in self.stores.items()}
        self.unread = {after.get(name, name): cut for name, cut in self.unread.items()}
        self.resting = {after[name] for name in self.resting}
        for node in self.whole:
            if node.required_name in self.stores:
                self.stores[node.required_name].columns = node.columns

    def _all_names(self) -> list[str]:
        """The name of each node, whether it is there yet or not."""
        return [name_of(place, self.description.renamed.get(place, 0)) for place in range(len(self.whole))]

    def _go_back(self) -> None:
        before = self._in_sinks()
        roll_back(self.spark, self._lake, self._clock)
        assert self.before_change is not None
        (place, number), made = self.before_change, [*self.description.made]
        self.before_change = None
        made[place] = replace(made[place], number=number)
        number_of_nodes = len(self._names)
        self._describe(replace(self.description, made=made))
        forget()
        self._become(number_of_nodes)
        self._put_right(before)

    def _recompute(self, name: str) -> None:
        verdicts = Backfill(self.spark, self._lake, self._nodes[name]).run()
        wrong = [verdict for verdict in verdicts if not verdict.equal]
        assert not wrong, f"a backfill of {name} found {wrong[0].first_differences}"

    def _redeliver(self, name: str) -> None:
        node = self._nodes[name]
        if node.sinks and open_table(self._lake.state(name)).version:
            redeliver(self.spark, self._lake, node)

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
