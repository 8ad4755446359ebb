"""Lives through what people do to a lake: they retain, erase, rename, apply, roll back, recompute, redrive and repair."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from headrace.changing import apply_changes
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.roll_back import roll_back
from headrace.errors import HeadraceError, TerminalError
from headrace.lake import forget
from headrace.lifecycle.backfill import Backfill
from headrace.log.site import Site
from headrace.testing.driver import SimulatedCrashError
from headrace.writing.delivery.redeliver import can_be_put_right
from tests.lives.broker import NOWHERE
from tests.lives.descriptions import described, name_of
from tests.lives.log_acts import REFUSALS, LogActs
from tests.lives.processes import Once, here_and_there
from tests.lives.story import (
    Change,
    Erase,
    GoBack,
    Grow,
    Life,
    Mend,
    Pack,
    Recompute,
    Redeliver,
    Redrive,
    Rename,
    Retain,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headrace.description import Node


@dataclass
class Description:
    """What people describe: the choices of each node, and how often it was renamed."""

    made: list[Any]
    renamed: dict[int, int] = field(default_factory=dict)
    dated: bool = False

    def nodes(self) -> list[Node]:
        """The nodes of the description."""
        return described(self.made, self.renamed, dated=self.dated)


class LifecycleDriver(LogActs):
    """A driver with a session of Spark, for what people do to a lake."""

    __test__ = False

    def __init__(self, life: Life, spark: SparkSession) -> None:
        """Begin as `LivesDriver` does."""
        self.description = Description([*life.nodes], dated=life.dated)
        self.before_change: tuple[int, int] | None = None  # a node's number and its choices
        # Over a rename with which readers were rebuilt nobody goes back: another rename undoes it.
        self.goes_back = True
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
            case Pack():
                self._of_topic(step.topic, "pack", partial(self._pack, step.topic))
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

        def work(dies: Once) -> None:
            nodes, site = self._with_sinks(number), Site(self.spark, self._lake, self._clock, dies)
            ApplyChanges(site, nodes, kafka=NOWHERE).run()

        done = left = False
        with self.undisturbed(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(apply_changes, "CATCH_UP_SECONDS", 0)  # no log goes on meanwhile
            try:
                left = isinstance(step, Change) and step.leaves and self._leaves(step, work, before, after)
                if not left:
                    self._insists(step.dies, work)
                    self._become(number)
                    self._put_right(rows)
                    done = True
            except HeadraceError as error:
                if not any(text in str(error) for text in REFUSALS):
                    raise
                self._describe(before)
            forget()
            self._become(number)
        name = type(step).__name__
        self.acts.append(name if done else f"left {name}" if left else f"({name})")
        return done

    def _leaves(
        self, step: Change, work: Callable[[Once], None], before: Description, after: Description
    ) -> bool:
        """A change is broken off, and described as before. Out: False if that is too late"""
        try:
            work(Once(step.dies))
        except SimulatedCrashError:
            forget()
            self._describe(before)
            try:
                self._become(len(self._names))
            except TerminalError:
                self._describe(after)
                return False
            return True
        return False

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
        # Rows of the change that lie beyond the tables go once these have caught up.
        for store in self.stores.values():
            store.put_off |= can_be_put_right(store)

    def _recompute(self, name: str) -> None:
        verdicts = Backfill(self.spark, self._lake, self._nodes[name]).run()
        wrong = [verdict for verdict in verdicts if not verdict.equal]
        assert not wrong, f"a backfill of {name} found {wrong[0].first_differences}"
