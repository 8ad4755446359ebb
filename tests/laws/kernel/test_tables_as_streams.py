"""The law of tables that go on as streams: what is made of a table's changes is the same, however each step is cut.

The changes of joins, groups and aggregates are logs that nobody sees. A suppression by a time limit follows them, and records
are looked up in them. Each node of a chain is folded as a stream and in one go, and both are held against its oracle.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.description import Node, NodeOutput, with_unnamed
from tests.laws.kernel.chained import logs_of
from tests.laws.kernel.logs import SECOND, World, worlds
from tests.laws.kernel.plans import ONE_GO, Plan, plans
from tests.laws.kernel.subjects import T, small, topic
from tests.laws.kernel.test_compositions import check
from tests.laws.kernel.timelines import Records, timeline

pytestmark = pytest.mark.fast

LOGS = int(os.environ.get("HEADRACE_EXAMPLES", "24"))
W = topic("w")  # its name is beyond those of steps without a name
OTHERS = T.select("key", "value AS other")
EARLY: dict[str, Any] = {"max_records": 1, "when_full": "emit_early"}


def joined(how: str) -> Any:
    """What both topics say of a key."""
    return W.table().join(OTHERS.table(), on="key", how=how)


def tables() -> dict[str, Any]:
    """Tables whose keys' records may lie in several partitions."""
    windows = W.group_by("value").window(hr.hopping(10 * SECOND, 5 * SECOND), grace=3 * SECOND)
    return {
        "inner join": joined("inner"),
        "outer join": joined("outer"),
        "groups of a join": joined("left").group_by("other").aggregate(n=hr.count(), most=hr.max("value")),
        "totals": W.group_by("value").aggregate(n=hr.count(), newest=hr.last("key")),
        "windows": windows.aggregate(n=hr.count()),
        "table of two topics": T.merge(W).table(),
        "table by timestamp": W.table("timestamp"),
        "chosen": W.table().select("value AS chosen"),
    }


def chains() -> dict[str, Node]:
    """What goes on from a table, as one node each; the steps before it have no name."""
    limits = {
        "at once": hr.until_time_limit(0),
        "waiting": hr.until_time_limit(4 * SECOND),
        "early": hr.until_time_limit(9 * SECOND, **EARLY),
        "wall": hr.until_time_limit(3 * SECOND, clock="wall"),
    }
    found: dict[str, Any] = {
        f"{name}, {when}": table.suppress(limit)
        for name, table in tables().items()
        for when, limit in limits.items()
    }
    sessions = W.group_by("key").window(hr.session(2 * SECOND), grace=3 * SECOND).aggregate(n=hr.count())
    found |= {f"sessions, {when}": sessions.suppress(limit) for when, limit in limits.items()}
    sliding = W.group_by("value").window(hr.sliding(2 * SECOND), grace=3 * SECOND).aggregate(n=hr.count())
    found |= {f"sliding windows, {when}": sliding.suppress(limit) for when, limit in limits.items()}
    right = OTHERS.table()
    totals = OTHERS.group_by("key").aggregate(n=hr.count(), total=hr.sum("other"))
    names = right.join(totals, on="key").select("other AS found")
    for as_of in ("log", "event"):
        found |= {
            f"looked up in totals, {as_of}": W.lookup(totals, on="key", as_of=as_of),
            f"looked up in a join, {as_of}": W.lookup(names, on="key", how="inner", as_of=as_of),
            f"looked up in itself, {as_of}": W.lookup(
                W.group_by("key").aggregate(n=hr.count()), on="key", as_of=as_of
            ),
        }
    found["changes as a table"] = joined("left").changes().table()
    found["changes of changes"] = joined("outer").changes().table().group_by("other").aggregate(n=hr.count())
    return {name: node.named("end") for name, node in found.items()}


CHAINS = chains()


@settings(
    deadline=None,
    max_examples=LOGS,
    phases=[Phase.explicit, Phase.generate],
)
@given(st.data(), st.sampled_from([*CHAINS]), worlds(small, pa.int64(), ("t", "w"), controls=("control",)))
@pytest.mark.slow
def test_what_is_made_of_a_table_is_what_its_oracle_makes_in_any_cuts(
    data: st.DataObject, name: str, world: World
) -> None:
    logs = logs_of(world)
    for node in with_unnamed([CHAINS[name]]):
        told = check(node, data.draw(plans()), logs)
        if told is not None:
            logs[NodeOutput.of(node).name] = told


def test_which_row_of_a_key_counts_does_not_depend_on_which_of_them_a_whole_commit_has_made() -> None:
    """The topic's row stands after that of its changes, `highest@…`, though a record of the commit would find it alone."""
    highest = T.group_by("key").aggregate(value=hr.max("value")).changes().named("highest")
    table = (
        T.select("key", "value").merge(highest.select("key", "value")).select("key", "value AS other").table()
    )
    records: dict[str, dict[int, Records]] = {
        "t": {1: [("a", 9, 0)], 2: [("a", 5, 0)]},
        "w": {2: [("a", 0, 0)], 3: [("a", 1, 0)]},
    }
    logs = logs_of(timeline(pa.int64(), records))
    log = check(highest, ONE_GO, logs)
    assert log is not None
    logs[NodeOutput.of(highest).name] = log
    found = check(W.lookup(table, on="key").named("found"), Plan(sizes=(1,)), logs)
    assert found is not None
    assert [row["other"] for row in found.rows.to_pylist() if row["key"] is not None] == [5, 5]
