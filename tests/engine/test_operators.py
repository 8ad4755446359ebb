"""Every kind of node has an operator, which can be pickled and whose tables the lake can hold."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace as hr
from headrace import lake
from headrace.description.feeds import feeds_of
from headrace.engine.folding.operators import NodeOperator, operator_of
from headrace.engine.folding.output_tables import output_tables
from headrace.engine.state_layout import StateLayout
from headrace.errors import TerminalError
from headrace.fold import relations, windows
from headrace.operators.batches import fold as batches
from headrace.operators.lookups import fold as lookups
from headrace.operators.processors import fold as processors
from headrace.operators.sessions import fold as sessions
from headrace.operators.stream_joins import fold as stream_joins
from headrace.operators.tables import fold as tables
from headrace.operators.time_limits import fold as time_limits
from headrace.operators.totals import fold as totals
from headrace.operators.windows import sliding
from tests.laws.kernel.processor_subjects import Silence

pytestmark = pytest.mark.fast

COLUMNS = pa.schema([("id", pa.string()), ("ref", pa.string()), ("n", pa.int64())])
ONE = hr.Topic("one", key="id STRING", value="ref STRING, n BIGINT")
TWO = hr.Topic("two", key="id STRING", value="ref STRING, n BIGINT")
TABLE = TWO.select("id", "n AS other").table()
GROUPED = ONE.group_by("id")
COUNTS = GROUPED.aggregate(n=hr.count(), total=hr.sum("n"))
TUMBLING = GROUPED.window(hr.tumbling("2 minutes"), grace="1 minute").aggregate(n=hr.count())
LIMIT = hr.until_time_limit("1 minute")
EARLY = hr.until_time_limit("1 minute", max_records=3, when_full="emit_early")
LAST = hr.value_store("last", "value BIGINT")
NODES: list[tuple[Any, type, bool]] = [
    (TUMBLING, windows.Windows, False),
    (TUMBLING.suppress(hr.until_window_closes(max_records=9, when_full="shut_down")), windows.Windows, False),
    (TUMBLING, relations.Relations, True),
    (GROUPED.window(hr.hopping("2 minutes", advance="1 minute"), grace=0).aggregate(n=hr.avg("n")), windows.Windows, False),
    (GROUPED.window(hr.sliding("2 minutes"), grace=0).aggregate(n=hr.max("n")), sliding.SlidingWindows, False),
    (GROUPED.window(hr.session("2 minutes"), grace=0).aggregate(n=hr.count()), sessions.Sessions, False),
    (GROUPED.window(hr.session("2 minutes"), grace="1 minute").aggregate(n=hr.last("n")), sessions.Sessions, False),
    (GROUPED.window(hr.session("2 minutes"), grace=0).aggregate(n=hr.count()).changes(), sessions.SessionChanges, False),
    (GROUPED.window(hr.sliding("2 minutes"), grace=0).aggregate(n=hr.count()).changes(), sliding.SlidingChanges, False),
    (COUNTS, totals.Totals, False),
    (COUNTS, totals.Totals, True),
    (ONE.table(), tables.Tables, False),
    (ONE.merge(TWO).table("timestamp").where("n > 0"), tables.Tables, True),
    (ONE.table().join(TABLE, on="ref"), relations.Relations, True),
    (COUNTS.join(TABLE, on="id", how="left"), relations.Relations, False),
    (ONE.table().group_by("ref").aggregate(n=hr.count()), relations.Relations, True),
    (GROUPED.batch(collect=["n"], max_records=3), batches.BatchedSink, False),
    (ONE.lookup(TABLE, on="ref", complete_first=False), lookups.LookupInLog, False),
    (ONE.lookup(TABLE, on="ref", complete_first=True), lookups.LookupInLog, False),
    (ONE.lookup(TABLE, on="ref", as_of="event", complete_first=True), lookups.LookupInTime, False),
    (ONE.lookup(TABLE.where("other > 0"), on="ref", as_of="event", complete_first=False), lookups.LookupInTime, False),
    (ONE.join(TWO.select("id", "n AS other"), on="id", within=0, grace=0, how="outer"), stream_joins.StreamJoins, False),
    (ONE.group_by("ref").process(Silence, output="what STRING", stores=[LAST], stream_wait=9_000, wall_wait=9_000, order="log"), processors.Processors, False),
    (ONE.merge(TWO).process(Silence, output="what STRING", stores=[LAST], stream_wait=9_000, wall_wait=9_000), processors.Processors, False),
    (COUNTS.suppress(LIMIT), time_limits.TimeLimit, False),
    (TUMBLING.suppress(EARLY), time_limits.TimeLimit, False),
    (ONE.table().suppress(LIMIT), time_limits.TimeLimit, False),
]  # fmt: skip


def made(node: Any, changes: bool) -> NodeOperator:
    other = pa.schema([("id", pa.string()), ("other", pa.int64())])
    columns = {
        name: other if feed.topics == ("two",) else COLUMNS
        for name, feed in feeds_of(node.named("it")).items()
    }
    return operator_of(node.named("it"), columns, changes=changes)


@pytest.mark.parametrize(("node", "kind", "changes"), NODES)
def test_a_node_has_an_operator_whose_tables_the_lake_can_hold(
    tmp_path: Path, node: Any, kind: type, changes: bool
) -> None:
    operator = made(node, changes)
    assert isinstance(operator.kernel, kind)
    assert len(pickle.loads(pickle.dumps(operator.steps))) == len(operator.steps)
    assert operator.layout.tables
    lake.create(str(tmp_path / "state"), operator.layout.schema)
    stored = output_tables(operator)
    assert {*stored} | {*operator.kept} == ({"results", "changes"} if changes else {"results"})
    columns = operator.kept["results"].schema if operator.revises else stored["results"]
    assert {*operator.node.columns} <= {*columns.names}
    for name, schema in stored.items():
        lake.create(str(tmp_path / name), schema)
    assert operator.revises == (node.day_column is None or kind is relations.Relations)


def test_a_table_that_gains_a_sink_goes_on_from_the_state_that_it_has() -> None:
    revised = [node for node, _, _ in NODES if node.day_column is None]
    assert len(revised) > 5
    for node in revised:
        assert made(node, True).layout.schema == made(node, False).layout.schema


def test_conditions_of_a_table_are_computed_for_its_feed() -> None:
    node = ONE.lookup(TABLE.where("other > 0"), on="ref", complete_first=False).named("it")
    feeds = feeds_of(node)
    assert {name: (feed.topics, feed.conditions) for name, feed in feeds.items()} == {
        "records": (("one",), ()),
        "versions": (("two",), ("other > 0",)),
    }


def test_two_steps_do_not_share_a_state_table() -> None:
    (step,) = made(COUNTS, False).steps
    with pytest.raises(TerminalError, match="totals"):
        StateLayout.of([step, step])
