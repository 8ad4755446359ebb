"""Tables kept for a rollback, and half-built ones, when the past of a log changes: a key erased, the log written again, or
repaired. They never stand in a node's place over another log, and hold no key that is erased.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.roll_back import roll_back
from headrace.lake import forget, small_files
from headrace.lifecycle.erasure import Erasure
from headrace.lifecycle.log_repair.repair import Repair
from headrace.lifecycle.log_repair.repair_mark import repair_owed
from headrace.log.site import Site
from headrace.nodes.descriptions.references import among_themselves
from headrace.nodes.descriptions.topics import topics_of
from headrace.settings.kafka import KafkaSettings
from headrace.testing import TestDriver
from headrace.testing.own_sinks import nodes_by_name
from tests.lake.lost_commits import overwrite, versions
from tests.lake.searching import files_with
from tests.rows import columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node

pytestmark = pytest.mark.spark

NOWHERE = KafkaSettings(bootstrap_servers="localhost:1")
KEY = "erased-7f3a"


def topic(name: str, value: str = "v BIGINT", **more: Any) -> hr.Topic:
    return hr.Topic(name, key="k STRING", value=value, idle_timeout=None, **more)


def counts(of: Any, name: str = "totals", **more: Any) -> Any:
    return of.group_by("k").aggregate(n=hr.count(), **more).named(name)


T, U = topic("t"), topic("u")


class Changing(TestDriver):
    """A lake whose pipeline changes while its logs do."""

    def become(self, *nodes: Node) -> None:
        """Let the streams start again with this code."""
        forget()
        described = among_themselves(nodes)
        self._nodes = nodes_by_name(described, reaches_servers=False)
        self._topics |= topics_of(described)
        self._sequencers = {name: self._open_sequencer(of) for name, of in self._topics.items()}
        self._reopen_runners()

    def change(self, *nodes: Node) -> ApplyChanges:
        """An act, planned."""
        forget()
        return ApplyChanges(Site(self.spark, self._lake, self._clock), nodes, kafka=NOWHERE)

    def apply(self, *nodes: Node) -> None:
        """Apply this code, and run with it."""
        self.change(*nodes).run()
        self.become(*nodes)

    def roll_back(self) -> list[str]:
        """Go back to the tables before."""
        forget()
        return roll_back(self.spark, self._lake, self._clock)

    def erase_by(self, nodes: Sequence[Node], of: hr.Topic) -> None:
        """Erase the key from a topic, with this code."""
        forget()
        list(Erasure(self.spark, self._lake, nodes, of, KEY, clock=self._clock).run())

    def repair(self, *nodes: Node) -> list[str]:
        """Repair the log of `t`."""
        forget()
        return [
            each.of for each in Repair(self.spark, self._lake, nodes, T, NOWHERE, clock=self._clock).run()
        ]

    def lose(self, number: int) -> None:
        """Lose a commit of the log of `t`."""
        log = self._lake.log("t")
        overwrite(log, versions(log, "log/t")[number])
        forget()

    def totals(self) -> list[tuple[Any, ...]]:
        """The rows of `totals`, which are those of a fold of its log."""
        self.check("totals")
        return columns(self.rows("totals"), "k", "n")


@pytest.fixture
def opened(spark: SparkSession) -> Iterator[Any]:
    drivers: list[Changing] = []

    def begin(*nodes: Node) -> Changing:
        drivers.append(Changing(nodes, spark, topics=[T, U]))
        return drivers[-1]

    yield begin
    for driver in drivers:
        with closing(driver):
            """It goes."""


def test_a_key_is_erased_from_tables_that_a_change_replaced_and_whose_node_reads_another_topic_now(
    opened: Any,
) -> None:
    """Before, the erasure asked which nodes read the topic now: a rollback brought the key back."""
    others = T.group_by("k").aggregate(m=hr.sum("v")).named("others")
    driver = opened(counts(T), others)
    driver.pipe("t", key=KEY, value={"v": 1})
    driver.pipe("t", key="x", value={"v": 1})
    driver.pipe("u", key="y", value={"v": 1})
    driver.cut()
    driver.apply(counts(U), others)
    driver.cut()
    assert any("/former/totals/" in file for file in files_with(driver, KEY))
    driver.erase_by([counts(U), others], T)
    assert not [file for file in files_with(driver, KEY) if "/former/" in file]
    with pytest.raises(hr.TerminalError, match="cannot go back"):
        driver.roll_back()
    assert driver.totals() == [("y", 1)]


def test_a_key_is_erased_from_what_a_change_has_built_by_code_that_does_not_run_yet(opened: Any) -> None:
    """Before, the erasure asked the code that ran, which reads another topic: the change swapped the key in."""
    others = T.group_by("k").aggregate(m=hr.sum("v")).named("others")
    driver = opened(counts(U), others)
    driver.pipe("t", key=KEY, value={"v": 1})
    driver.pipe("t", key="x", value={"v": 1})
    driver.cut()
    driver.pipe("u", key="y", value={"v": 1})
    driver.cut()
    driver.change(counts(T), others).build()
    assert any("/rebuilds/totals/" in file for file in files_with(driver, KEY))
    driver.erase_by([counts(U), others], T)
    assert not files_with(driver, KEY)
    driver.apply(counts(T), others)
    assert driver.totals() == [("x", 1)]


def test_what_was_built_of_a_log_before_it_was_written_again_begins_anew(opened: Any) -> None:
    """The description is the same: `added` fills rows of the log. Before, the table was empty."""

    def placed(**more: Any) -> Any:
        return counts(topic("t", "v BIGINT, place STRING", **more).where("place IS NOT NULL"))

    driver = opened(counts(T))
    for _ in range(3):
        driver.pipe("t", key="x", value={"v": 1})
        driver.cut()
    driver.change(placed()).build()
    assert placed().fingerprint() == placed(added={"place": "hall"}).fingerprint()
    driver.apply(placed(added={"place": "hall"}))
    assert driver.totals() == [("x", 3)]


@pytest.mark.parametrize("when", ["before the repair", "after it"])
def test_one_does_not_go_back_to_tables_that_have_read_past_a_commit_which_came_back(
    opened: Any, when: str
) -> None:
    """Before, they came back without the rows of that commit, and nobody owed them any more."""
    before, after = counts(T), counts(T, top=hr.max("v"))
    driver = opened(before)
    for value in range(4):
        driver.pipe("t", key="x", value={"v": value})
        driver.cut([])
    driver.lose(-2)
    driver.become(before)
    driver.cut()
    if when == "before the repair":
        driver.apply(after)
        assert "totals" in driver.repair(after)
    else:
        assert "totals" in driver.repair(before)
        driver.apply(after)
    driver.become(after)
    assert driver.totals() == [("x", 4)]
    if when == "after it":
        assert driver.roll_back() == ["totals"]
        driver.become(before)
    else:
        with pytest.raises(hr.TerminalError, match="cannot go back") as refused:
            driver.roll_back()
        assert refused.value.detail == "totals: older rows of the log of t have changed since."
    driver.pipe("t", key="x", value={"v": 9})
    driver.cut()
    assert driver.totals() == [("x", 5)]
    assert repair_owed(driver.lake, "totals") is None


def test_what_has_read_no_log_that_changed_stays(opened: Any) -> None:
    """An erasure from one topic leaves tables alone that were made of another one, replaced or half-built."""
    others = U.group_by("k").aggregate(m=hr.sum("v")).named("others")
    driver = opened(counts(T), others)
    driver.pipe("t", key="x", value={"v": 1})
    driver.pipe("u", key=KEY, value={"v": 1})
    driver.cut()
    top = counts(T, top=hr.max("v"))
    driver.apply(top, others)
    driver.change(counts(T, low=hr.min("v")), others).build()
    driver.erase_by([top, others], U)
    assert small_files.names(driver.lake.rebuilds("totals"))
    assert driver.roll_back() == ["totals"]
    driver.become(counts(T), others)
    assert driver.totals() == [("x", 1)]
