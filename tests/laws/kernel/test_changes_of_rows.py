"""The law of `changes()`: a record where a row changes, and only there; its event time is not before its cause's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Node, TableChanges
from headrace.description.table_changes import KEY_DELETED, grows
from headrace.oracle.values import identity
from tests.laws.kernel.families import FAMILIES
from tests.laws.kernel.harness import run
from tests.laws.kernel.logs import World
from tests.laws.kernel.plans import ONE_GO
from tests.laws.kernel.reading import Reading
from tests.laws.kernel.subjects import T, U
from tests.laws.kernel.test_every_operator import SETTINGS
from tests.laws.kernel.timelines import timeline

pytestmark = pytest.mark.fast

EXAMPLES = 24
GROWING = [
    family
    for family in FAMILIES
    if any(isinstance(subject.node, TableChanges) for subject in family.subjects)
]


def changes_of(node: Node, world: World, computed: Any = None) -> list[dict[str, Any]]:
    """The changes of a table over a whole log."""
    reading = Reading(node, world, changes=True, computed=computed)
    compute = reading.computed.for_kernel if reading.computed else None
    rows = run(reading.operator.steps, reading, ONE_GO, compute=compute).rows()
    return sorted(rows, key=lambda row: row["__sequence"])


@pytest.mark.parametrize("family", GROWING, ids=[family.name.replace(" ", "_") for family in GROWING])
def test_two_changes_of_a_key_in_a_row_differ(family: Any) -> None:
    subjects = [subject for subject in family.subjects if isinstance(subject.node, TableChanges)]

    @settings(SETTINGS, max_examples=EXAMPLES)
    @given(st.data())
    def law(data: st.DataObject) -> None:
        subject = data.draw(st.sampled_from(subjects))
        world = data.draw(family.worlds)
        rows = changes_of(subject.node, world, subject.computed)
        own = [name for name in subject.node.columns if name not in subject.node.key]
        times = {
            (row["__topic"], row["__partition"], row["__offset"]): row["__event_ms"]
            for row in world.everything.to_pylist()
            if row["__event_ms"] is not None
        }
        last: dict[Any, Any] = {}
        for row in rows:
            key = row["__key"]
            worth = None if row[KEY_DELETED] else identity(row[name] for name in own)
            assert last.get(key) != worth, (row, last.get(key))
            last[key] = worth
            place = row["__topic"], row["__partition"], row["__offset"]
            if place in times and not grows(subject.node.changed):
                assert row["__timestamp"] >= times[place]

    law()


def test_a_pair_that_loses_its_right_row_changes_at_the_time_of_that_loss() -> None:
    right = U.select("key", "value AS other").table().where("other > 0")
    joined = T.table().join(right, on="key", how="left").changes().named("joined")
    topics = {"t": {1: [("a", 5, 1)]}, "u": {2: [("a", 7, 2)], 9: [("a", -1, 9)], 10: [("a", -2, 10)]}}
    rows = changes_of(joined, timeline(pa.int64(), topics))
    assert [(row["other"], row["__timestamp"]) for row in rows] == [(None, 1_000), (7, 2_000), (None, 9_000)]


@pytest.mark.parametrize("how", ["left", "outer"])
@pytest.mark.parametrize("aggregate", [hr.count(), hr.max("value")], ids=["sum", "pick"])
def test_a_group_that_a_row_enters_is_dated_by_the_loss_that_moved_it(how: str, aggregate: Any) -> None:
    right = U.select("key", "value AS other").table().where("other > 0")
    joined = T.table().join(right, on="key", how=how)
    node = joined.group_by("other").aggregate(of_rows=aggregate).changes().named("grouped")
    topics = {"t": {1: [("a", 5, 1)]}, "u": {2: [("a", 7, 2)], 9: [("a", -1, 9)]}}
    rows = changes_of(node, timeline(pa.int64(), topics))
    at = {(row["other"], row[KEY_DELETED]): row["__timestamp"] for row in rows[-2:]}
    assert at == {(7, True): 9_000, (None, False): 9_000}


def test_a_record_that_alters_no_aggregate_changes_nothing() -> None:
    most = T.group_by("key").aggregate(most=hr.max("value")).changes().named("most")
    topics = {"t": {1: [("a", 5, 1)], 2: [("a", 3, 2)], 3: [("a", 5, 3)], 4: [("a", 6, 4)]}}
    rows = changes_of(most, timeline(pa.int64(), topics))
    assert [(row["most"], row["__timestamp"]) for row in rows] == [(5, 1_000), (6, 4_000)]


def test_a_session_that_grows_is_gone_at_the_time_of_the_session_that_holds_its_records() -> None:
    window = T.group_by("key").window(hr.session("5 seconds"), grace="9 seconds")
    sessions = window.aggregate(most=hr.max("value")).changes().named("sessions")
    topics = {"t": {1: [("a", 5, 1)], 2: [("a", 3, 4)]}}
    rows = changes_of(sessions, timeline(pa.int64(), topics))
    gone = [row["__timestamp"] for row in rows if row[KEY_DELETED]]
    assert gone == [4_000]
