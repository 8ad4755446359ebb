"""The log of a node whose time limit a person raises: its stream time waits, too, so no row of it comes late. No Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import types as T

import headrace as hr
from headrace import lake as lakes
from headrace.description import output_name
from headrace.description.node_output import NodeOutput
from headrace.description.table_changes import KEY_DELETED
from headrace.fold.contract import CLOCK
from headrace.lake import kinds
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.log.commit_row import CommitRow
from headrace.log.decision_rows import Decision, LogFolder, write_decisions
from headrace.log.decisions.limits import limits_entry
from headrace.log.sequencer import Sequencer
from headrace.nodes.progress import Progress
from headrace.nodes.standing.reader_commits import along, read_commits
from headrace.operators.contract import SEQUENCE, TIMESTAMP
from headrace.sequence.log_columns import CONTROL, log_schema
from headrace.sequence.log_state import LogState, PartitionState
from headrace.sequence.set_limits import SetLimit
from headrace.spark.one_task import arrow_schema
from headrace.writing.node_logs.node_log import NodeLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.description import Column
    from headrace.description.suppressed import Suppressed

pytestmark = pytest.mark.fast

NO_SPARK = cast("Any", None)
VISITS = hr.Topic("visits", key="id STRING", value="pages INT")
CALM = VISITS.table().suppress(hr.until_time_limit("5 seconds")).named("calm")
EARLY = hr.until_time_limit("5 seconds", max_records=3, when_full="emit_early")
BOUNDED = VISITS.table().suppress(EARLY).named("calm")
PAGES = hr.Topic("pages", key="pages INT", value="title STRING")
TITLED = VISITS.lookup(PAGES.table(), on="pages", complete_first=True).named("titled")
RESULTS = pa.schema(
    [
        ("id", pa.string()),
        ("pages", pa.int32()),
        (KEY_DELETED, pa.bool_()),
        (SEQUENCE, pa.int64()),
        (TIMESTAMP, pa.int64()),
        (CLOCK, pa.int64()),
    ]
)
# Of each log commit its time and the stream time after it, in seconds; and which limits are set there.
COMMITS = ((10, 100), (20, 100), (30, 130), (40, 170), (50, 200))
LIMITS = {20: {"limit_ms": 60_000}, 40: {"limit_ms": 3_000}}
OTHER_BOUND = LIMITS | {10: {"max_bytes": 9_000}, 20: {"max_records": None, "limit_ms": 60_000}}
EXPECTED = [(10, 95), (20, 95), (30, 95), (40, 110), (50, 140)]
SET_AT = 20  # from here on stream time may be a minute behind

TYPES = {"STRING": T.StringType(), "INT": T.IntegerType(), "BOOLEAN": T.BooleanType()}


@pytest.fixture(autouse=True)
def types_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's parser of types needs its JVM."""

    def struct_of(columns: Sequence[Column]) -> T.StructType:
        return T.StructType([T.StructField(column.name, TYPES[column.type]) for column in columns])

    monkeypatch.setattr("headrace.sequence.log_columns.struct_of", struct_of)


@pytest.mark.parametrize(
    ("calm", "limits"), [(CALM, LIMITS), (BOUNDED, OTHER_BOUND)], ids=["no bound", "another bound"]
)
@pytest.mark.parametrize("cuts", [[50], [10, 20, 30, 40, 50], [20, 40, 50]])
def test_its_stream_time_stays_behind_by_the_longest_limit(
    tmp_path: Path, cuts: list[int], calm: Suppressed, limits: dict[int, dict[str, int | None]]
) -> None:
    """A row that waits for 60 seconds has an older event time than 5 seconds ago; one that waited is told by no other limit.

    A log that was written from commit to commit did not know the bound of commit 10. So it took the row that removes the
    described one for one that no policy can have, and was not further behind.
    """
    passed = calm.select("id", "pages").named("passed")
    lake, schema = Lake(f"file:{tmp_path}"), arrow_schema(log_schema(VISITS))
    uri = lake.log("visits")
    log = lakes.TableWriter(lakes.create(uri, schema, kinds.log(())), lakes.APPENDER)
    for node in (calm, passed):
        lakes.create(lake.table(node.required_name), RESULTS, kinds.RESULTS)
    state = LogState()
    for at_ms, seconds in COMMITS:
        partitions = {0: PartitionState(0, stream_ms=seconds * 1_000)}
        state = replace(state, ingested_at_ms=at_ms, batch=state.batch + 1, partitions=partitions)
        said = [CommitRow(state, {}).to_json()]
        said += [limits_entry("calm", limits[at_ms], "")] if at_ms in limits else []
        rows = [Decision(0, seconds * 1_000, each) for each in said]
        log.append(
            [write_decisions(LogFolder(uri, schema), "visits", CONTROL, at_ms, rows)],
            {"writer": "log/visits"},
        )
    for upto_ms in cuts:  # each by a process of its own
        NodeLog(lake, calm).follow(Progress(batch=1, upto_ms={"visits": upto_ms}))
        NodeLog(lake, passed).follow(Progress(batch=1, upto_ms={output_name(calm): upto_ms}))
    for node in (passed, calm):
        told = read_commits(NodeOutput.of(node), lake.log(output_name(node)), 0, 50)
        assert [(each.at_ms, (each.stream_ms or 0) // 1_000) for each in told.commits] == EXPECTED
        # Before, ticks told it: 35 s at commit 30, and a row of the limit came late in the log of `passed`.
        behind = [(each.at_ms, each.behind_ms) for each in along(told.seen(clocks=True).commits)]
        assert behind == [(at_ms, 60_000 if at_ms >= SET_AT else 0) for at_ms, *_ in COMMITS]
    clocked = told.seen(clocks=True).commits
    assert [(each.at_ms, (each.stream_ms or 0) // 1_000) for each in clocked] == [*COMMITS], (
        "the clock is the stream time before the wait is subtracted"
    )
    assert [at_ms for at_ms, _ in sorted(told.limits)] == sorted(limits)


@pytest.mark.parametrize("cuts", [[40], [10, 20, 30, 40], [20, 40]])
def test_before_a_table_is_complete_that_has_to_be_so_first_there_is_no_stream_time(
    tmp_path: Path, cuts: list[int]
) -> None:
    """What waited for the table is of any age, and is late for no reader."""
    lake = Lake(f"file:{tmp_path}")
    lakes.create(lake.table("titled"), RESULTS.append(pa.field("title", pa.string())), kinds.RESULTS)
    for topic in (VISITS, PAGES):
        uri, schema, state = lake.log(topic.name), arrow_schema(log_schema(topic)), LogState()
        log = lakes.TableWriter(lakes.create(uri, schema, kinds.log(())), lakes.APPENDER)
        for at_ms in (10, 20, 30, 40):
            partitions = {0: PartitionState(0, stream_ms=at_ms * 1_000)}
            state = replace(state, ingested_at_ms=at_ms, batch=state.batch + 1, partitions=partitions)
            said = [CommitRow(state, {}).to_json()]
            said += ['{"action": "complete"}'] if topic is PAGES and at_ms == 30 else []
            rows = [Decision(0, at_ms * 1_000, each) for each in said]
            record = {"writer": f"log/{topic.name}"}
            log.append([write_decisions(LogFolder(uri, schema), topic.name, CONTROL, at_ms, rows)], record)
    for upto_ms in cuts:
        upto = {"visits": upto_ms, "pages": upto_ms}
        NodeLog(lake, TITLED).follow(Progress(batch=1, upto_ms=upto))
    told = read_commits(NodeOutput.of(TITLED), lake.log(output_name(TITLED)), 0, 40)
    known = [(each.at_ms, each.stream_ms) for each in told.commits]
    assert known == [(10, None), (20, None), (30, 30_000), (40, 40_000)]
    assert [(each.at_ms, each.stream_ms) for each in told.seen(clocks=True).commits] == known


def test_in_silence_ticks_go_on_until_its_readers_have_waited_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit was raised to a minute, and a reader's windows wait for 10 seconds beyond it."""
    monkeypatch.setattr("headrace.log.sequencer.RecordWriter", lambda *_, **__: None)  # no record comes
    sequencer = Sequencer(
        NO_SPARK, VISITS, f"file:{tmp_path}/visits", ManualClock(10**9), longest_wait_ms=15_000
    )
    for moved_on_ms, is_due in ((69_999, True), (75_000, False)):
        partition = PartitionState(1, stream_ms=100_000 + moved_on_ms)
        sequencer.state = LogState(1, 1, 100_000, {0: partition}, {"calm": (SetLimit(60_000),)})
        assert sequencer.ticks_due() is is_due
