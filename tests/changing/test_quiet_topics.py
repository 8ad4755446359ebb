"""A change that makes a node read a silent topic is applied, whoever writes the topic's log."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.changing.apply_changes import ApplyChanges
from headrace.changing.settle_logs import settle_logs
from headrace.lifecycle.rebuilds.rebuild import Rebuild
from headrace.log.sequencer import Sequencer
from headrace.log.site import Site
from headrace.nodes.node_tables import settled_ms
from headrace.spark.on_demand import SparkOnDemand
from headrace.streams.reader_meeting import ReaderMeeting
from headrace.testing.piped import PipedTopic
from headrace.writing.leases.lease import take_lease
from headrace.writing.leases.readers import asked_in
from tests.changing.living import START_MS, Living

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

READINGS, MANUAL = (
    hr.Topic(name, key="sensor STRING", value="value DOUBLE", idle_timeout=None)
    for name in ("readings", "manual")
)


def totals(stream: Any) -> Any:
    return stream.group_by("sensor").aggregate(n=hr.count()).named("totals")


NOTED = MANUAL.where("value > 0").named("noted")
BEFORE, AFTER = [totals(READINGS), NOTED], [totals(READINGS.merge(MANUAL)), NOTED]
BY_NODE = [totals(READINGS.merge(NOTED.as_stream())), NOTED]


def living_in(spark: SparkSession, folder: Path) -> Living:
    """Readings go on after the only record of the other topic."""
    living = Living(spark, folder / "lake", READINGS)
    manual = Sequencer(spark, MANUAL, living.lake.log("manual"), living.clock)
    piped = PipedTopic(MANUAL, manual.state.next_offsets)
    piped.add("a", json.dumps({"value": 1}), START_MS, 0, {})
    manual.append(piped.take_here())
    for minute in (1, 2, 3):
        living.commit((minute, "a", 1.0), (minute, "b", 1.0))
    living.fold(BEFORE)
    return living


@pytest.mark.spark
@pytest.mark.parametrize("after", [AFTER, BY_NODE], ids=["its log", "a node that reads its log"])
def test_a_change_to_a_silent_topic_is_applied_while_nobody_writes_its_log(
    spark: SparkSession, tmp_path: Path, after: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    living = living_in(spark, tmp_path)
    monkeypatch.setattr("headrace.changing.apply_changes.CATCH_UP_SECONDS", 0)
    ApplyChanges(Site(living.spark, living.lake, living.clock), after).run()
    found = living.tables(after)
    assert found == living.tables_anew(after)
    assert ["'a'" in row and "n=4" in row for row in found["totals"]] == [True, False]


@pytest.mark.fast
def test_a_log_that_a_stream_writes_is_asked_for_a_promise(tmp_path: Path) -> None:
    living = living_in(SparkOnDemand.session(lambda: pytest.fail("Spark starts")), tmp_path)
    site = Site(living.spark, living.lake, living.clock)
    through_ms = settled_ms(living.lake, READINGS)
    rebuild = Rebuild(site, AFTER[0])
    assert rebuild.meets_at_ms == through_ms
    lease = take_lease(living.spark, living.lake.lease("log/manual"), "Log 'manual'", living.clock)
    try:
        settle_logs(site, AFTER[0], AFTER, through_ms)
    finally:
        lease.release()
    assert settled_ms(living.lake, MANUAL) < through_ms, "the stream alone may promise"
    asked = asked_in(living.lake, "manual")
    assert (asked.readers, asked.ordered) == (("totals",), True)

    served: list[Any] = []
    log: Any = SimpleNamespace(name="manual", topic=MANUAL, serve=served.append, is_shared=False)
    ReaderMeeting(living.lake, living.clock, BEFORE, [log], []).keep()
    assert [each.ordered for each in served] == [True], "though the code of the run reads it alone"

    while rebuild.advance():
        pass
    assert rebuild.is_behind, "the log of the silent topic holds it"
    settle_logs(site, AFTER[0], AFTER, through_ms)  # the stream has ended
    assert settled_ms(living.lake, MANUAL) == through_ms
    while rebuild.advance():
        pass
    assert not rebuild.is_behind
    rebuild.close()
