"""Waits, empty tables and last errors, told from the commits of a lake: no Spark, and no rows."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import headrace as hr
from headrace import lake as lakes
from headrace.cli.status import shown_of
from headrace.description import with_unnamed
from headrace.lake import NewFile, kinds
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock, SystemClock
from headrace.nodes.progress import Progress
from headrace.nodes.standing.emptiness import why_empty
from headrace.nodes.standing.lake_facts import LakeFacts
from headrace.nodes.standing.waits import COMPLETE, PROGRESS, STREAM_TIME, WALL_TIME, Wait, waits_of
from headrace.observe.standing import standings
from headrace.orchestration.alerting.no_results import Silence, silent_tables
from headrace.orchestration.events.progress import figures
from headrace.quality.checks import remarks_on
from headrace.sequence.log_state import LogState, PartitionState
from headrace.streams.pausing import pause
from headrace.streams.status.last_errors import LastErrors
from headrace.streams.status.stream_status import StreamStatus, in_words
from tests.changing.held import hold

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.description import Node

pytestmark = pytest.mark.fast

NOON = 1_700_049_600_000  # 2023-11-15 12:00:00
VIEWS = hr.Topic("views", key="id STRING", value="user STRING, page STRING", idle_timeout="5 minutes")
CLICKS = hr.Topic("clicks", key="id STRING", value="user STRING, page STRING", idle_timeout=None)
USERS = hr.Topic("users", key="user STRING", value="country STRING")
BOTH = VIEWS.merge(CLICKS)


def counted(stream: Any) -> Any:
    windows = stream.group_by("page").window(hr.tumbling("1 hour"), grace="1 minute").aggregate(n=hr.count())
    return windows.suppress(hr.until_window_closes()).named("counts")


def lake_of(path: Path, node: Node, progress: Progress | None = None, **logs: LogState) -> Lake:
    """A lake in which logs and the node stand so far; a log that is not named has no commit."""
    lake = Lake(f"file:{path}")
    for topic, state in logs.items():
        table = lakes.create(lake.log(topic), pa.schema([("n", pa.int64())]), kinds.log(()))
        record = {"writer": f"log/{topic}", "after": state.to_json()}
        lakes.TableWriter(table, lakes.APPENDER).append([], record)
    if progress is not None:
        hold(lake, *with_unnamed([node]), progress=progress)
    return lake


def log_at(*minutes: float | None, at_ms: int = NOON, **more: Any) -> LogState:
    """A log whose partitions stand so many minutes after noon (None: no event time), each read at its own minute."""
    states = {
        number: PartitionState(10, None, NOON, NOON)
        if minute is None
        else PartitionState(10, NOON + round(minute * 60_000), NOON, NOON + number)
        for number, minute in enumerate(minutes)
    }
    return LogState(1, at_ms, NOON, states, **more)


def progress_at(
    upto_ms: int = NOON, records: dict[str, int] | None = None, **minutes: list[float]
) -> Progress:
    stream = {t: {str(p): NOON + round(m * 60_000) for p, m in enumerate(of)} for t, of in minutes.items()}
    return Progress(
        1, dict.fromkeys(minutes, upto_ms), stream, records={"views": {"0": records or {"kept": 5}}}
    )


def the_wait(lake: Lake, node: Node, of: str = STREAM_TIME) -> Wait:
    (found,) = (wait for wait in waits_of(node, LakeFacts(lake)) if wait.of == of)
    return found


def test_the_partition_that_stands_lowest_holds_the_windows_open(tmp_path: Path) -> None:
    node = counted(BOTH)
    lake = lake_of(
        tmp_path, node, progress_at(views=[20, 3], clicks=[15]), views=log_at(20, 3), clicks=log_at(15)
    )
    wait = the_wait(lake, node)
    assert (wait.topic, wait.partition, wait.stands_ms, wait.since_ms) == (
        "views",
        1,
        NOON + 180_000,
        NOON + 1,
    )
    assert wait.in_words == (
        "Stream time is held by partition 1 of views: it stands at 2023-11-15 12:03:00, with no record since "
        "2023-11-15 12:00:00. A record with a later event time moves it, or 5 minutes without a record, while its stream "
        "runs. Rows leave up to 1 hour 1 minute of stream time after their record."
    )


def test_the_waits_of_windows_behind_windows_add_up(tmp_path: Path) -> None:
    first = counted(VIEWS)
    again = (
        first.as_stream()
        .group_by("page")
        .window(hr.tumbling("1 hour"), grace="0 seconds")
        .aggregate(n=hr.sum("n"))
    )
    node = again.suppress(hr.until_window_closes()).named("all_counts")
    lake = lake_of(tmp_path, node, views=log_at(20))
    hold(lake, first, node, progress=progress_at(views=[20]))
    assert the_wait(lake, node).moves.endswith(
        "Rows leave up to 2 hours 1 minute of stream time after their record."
    )


def test_an_idle_topic_holds_nothing_back(tmp_path: Path) -> None:
    node = counted(BOTH)
    logs = {"views": log_at(20, 3), "clicks": log_at(1)}
    for idle, holder in ((("clicks",), "views"), ((), "clicks"), (("views", "clicks"), "views")):
        progress = replace(progress_at(views=[20, 3], clicks=[1]), idle=idle)
        lake = lake_of(tmp_path / "-".join(("lake", *idle)), node, progress, **logs)
        assert the_wait(lake, node).topic == holder


def test_a_topic_without_a_record_holds_them_and_what_moves_it_follows_from_its_description(
    tmp_path: Path,
) -> None:
    node = counted(BOTH)
    lake = lake_of(tmp_path, node, progress_at(views=[20, 3]), views=log_at(20, 3))
    wait = the_wait(lake, node)
    assert (wait.topic, wait.partition, wait.stands_ms) == ("clicks", None, None)
    assert "waits for topic clicks, which has no record with an event time yet." in wait.in_words
    assert "The first record moves it, and nothing else (idle_timeout=None)." in wait.in_words


def test_a_node_behind_a_step_without_a_name_is_held_by_a_partition_of_kafka_and_never_by_a_reference_table(
    tmp_path: Path,
) -> None:
    node = counted(VIEWS.lookup(USERS.table(), on="user", complete_first=True))
    progress = progress_at(views=[20, 3], users=[-9_000])
    ends = log_at(-9_000, first_ends={0: 12})
    lake = lake_of(tmp_path, node, progress, views=log_at(20, 3), users=ends)
    first, *others = waits_of(node, LakeFacts(lake))
    assert (first.of, first.topic, first.partition) == (STREAM_TIME, "views", 1)
    assert [(wait.of, wait.topic, wait.partition) for wait in others] == [(COMPLETE, "users", 0)]
    assert "Its log has 10 of 12 offsets" in others[0].in_words


def test_a_node_and_its_step_without_a_name_wait_once_and_as_long_as_both_together(tmp_path: Path) -> None:
    sessions = (
        VIEWS.group_by()
        .window(hr.session("30 minutes"), grace="5 minutes")
        .aggregate(n=hr.count(), page=hr.first("page"))
    )
    node = counted(sessions.suppress(hr.until_window_closes()).as_stream())
    lake = lake_of(tmp_path, node, progress_at(views=[20, 3]), views=log_at(20, 3))
    wait = the_wait(lake, node)
    assert (wait.topic, wait.partition) == ("views", 1)
    assert wait.moves.endswith("Rows leave up to 1 hour 36 minutes of stream time after their record.")

    batches = VIEWS.group_by("page").batch(max_records=5, max_wait="1 minute", collect=["user"])
    later = (
        batches.group_by("page")
        .batch(max_records=5, max_wait="2 minutes", collect=["batch_id"])
        .named("later")
    )
    wait = the_wait(lake_of(tmp_path / "batches", later, views=log_at(20)), later, WALL_TIME)
    assert wait.moves.startswith("It ends at most 3 minutes after a record's commit")


def test_a_log_that_is_not_settled_holds_progress(tmp_path: Path) -> None:
    node = counted(BOTH)
    lake = lake_of(
        tmp_path,
        node,
        progress_at(NOON, views=[20], clicks=[15]),
        views=log_at(20, at_ms=NOON + 60_000),
        clicks=log_at(15, at_ms=NOON),
    )
    wait = the_wait(lake, node, PROGRESS)
    assert (wait.topic, wait.stands_ms) == ("clicks", NOON)
    assert (
        "Progress is held by the log of topic clicks, which is settled through 2023-11-15 12:00:00."
        in str(wait)
    )


def why(path: Path, progress: Progress | None, **logs: LogState) -> str:
    node = counted(VIEWS.where("page <> ''"))
    return why_empty(node, LakeFacts(lake_of(path, node, progress, **logs)))


def test_an_empty_table_says_why(tmp_path: Path) -> None:
    told = [
        why(tmp_path / "1", None),
        why(tmp_path / "2", None, views=LogState(1, NOON, None, {0: PartitionState(0)})),
        why(tmp_path / "3", progress_at(records={"filtered": 240}, views=[3]), views=log_at(3)),
        why(
            tmp_path / "4", progress_at(records={"dead_letter": 200, "late": 40}, views=[3]), views=log_at(3)
        ),
        why(tmp_path / "5", progress_at(records={"kept": 7, "late": 1}, views=[20, 3]), views=log_at(20, 3)),
    ]
    assert told[:4] == [
        "The log of topic 'views' is not begun: start its stream.",
        "Kafka has delivered no record of topic 'views' yet.",
        "None of 240 records is left: 240 are filtered by its steps (headrace records counts filtered).",
        "None of 240 records is left: 200 are dead letters (headrace dead-letters stream/counts_stream), "
        "40 are late (headrace records counts late).",
    ]
    assert told[4].startswith("7 records count. Stream time is held by partition 1 of views")
    assert told[4].endswith("Besides, 1 is late (headrace records counts late).")


def test_an_empty_table_behind_a_step_without_a_name_says_what_the_step_made_of_the_records(
    tmp_path: Path,
) -> None:
    node = counted(VIEWS.lookup(USERS.table(), on="user"))
    progress = progress_at(records={"dead_letter": 9}, views=[3], users=[0])
    step, _ = with_unnamed([node])
    lake = lake_of(tmp_path, step, progress, views=log_at(3), users=log_at(0))
    assert (
        why_empty(node, LakeFacts(lake))
        == (
            "Its step without a name has given no row. None of 9 records is left: "
            "9 are dead letters (headrace dead-letters stream/counts_stream)."  # before: stream/unnamed_… and twelve digits
        )
    )


def test_status_shows_errors_empty_tables_waits_and_the_commands_behind_counts(tmp_path: Path) -> None:
    node = counted(VIEWS)
    progress = progress_at(records={"dead_letter": 2}, views=[3])
    lake = lake_of(tmp_path, node, progress, views=log_at(3))
    LastErrors(lake, ManualClock(NOON)).follow([status("failed", "field 'id' has nulls", 1)])
    shown = io.StringIO()
    Console(file=shown, width=300).print(shown_of(standings(lake, [node], SystemClock())))
    assert "stopped, failed" in shown.getvalue()
    assert (
        "stream/counts_stream failed at 2023-11-15 12:00:00 and has not committed since: field 'id' has nulls"
        in shown.getvalue()
    )
    assert (
        "stream/counts_stream has no rows: None of 2 records is left: 2 are dead letters (headrace dead-letters stream/counts_stream)."
        in shown.getvalue()
    )
    assert "stream/counts_stream: Stream time is held by partition 0 of views" in shown.getvalue()


def status(state: str, error: str | None, batches: int) -> StreamStatus:
    return StreamStatus("stream", "counts", state, error, 0, 0, 0.0, None, None, None, batches, {})


def test_the_counts_on_an_assets_page_have_the_commands_that_show_the_records() -> None:
    fates = {"late": 2, "dead_letter": 1, "filtered": 0}
    shown = figures(replace(status("running", None, 4), fates=fates), 0.0)[
        "records_shown_by"
    ]  # before: counts alone
    assert shown == "headrace records counts late\nheadrace dead-letters stream/counts_stream"
    log = replace(status("running", None, 4), kind="log", name="views", fates={"dead_letter": 1, "replay": 3})
    assert figures(log, 0.0)["records_shown_by"] == "headrace dead-letters log/views"
    assert "records_shown_by" not in figures(status("running", None, 4), 0.0)


def test_a_node_that_has_committed_since_is_not_said_to_fail_before_its_run_looks_again(
    tmp_path: Path,
) -> None:
    node = counted(VIEWS)
    lake = lake_of(tmp_path, node, progress_at(views=[20]), views=log_at(20))
    LastErrors(lake, ManualClock(NOON)).follow([status("failed", "broken", 0)])
    (_, found) = standings(lake, [node], SystemClock())
    assert found.commits == 1
    assert found.last_error is None  # before: "failed and has not committed since: broken", beside 1 commit
    assert not any("broken" in each for each in remarks_on(node, LakeFacts(lake)))


def test_an_error_that_nobody_raised_on_purpose_has_its_kind_and_the_node() -> None:
    error = ValueError("field 'id' has nulls")
    error.add_note("Node 'counts' folded its logs: One row per page.")
    assert (
        in_words(error)
        == "ValueError: field 'id' has nulls\nNode 'counts' folded its logs: One row per page."
    )


def test_a_table_without_a_result_is_told_once_with_the_partition_that_holds_it(tmp_path: Path) -> None:
    node = counted(VIEWS)
    lake = lake_of(tmp_path, node, progress_at(views=[20, 3]), views=log_at(20, 3))
    clock = ManualClock(NOON)

    def look(known: dict[str, Silence]) -> tuple[list[str], dict[str, Silence]]:
        return silent_tables(lake, (node,), 900_000, known, clock.now_ms)

    lines, known = look({})
    clock.set(NOON + 899_999)
    assert (lines, look(known)[0]) == ([], [])
    clock.set(NOON + 900_000)
    (line,), known = look(known)
    assert line.startswith(
        "counts has had no result for 15 minutes. Its stream does not run. Stream time is held by partition 1 of views: it "
        "stands at 2023-11-15 12:03:00"
    )
    assert look(known)[0] == []
    pq.write_table(pa.table({"n": [1]}), f"{tmp_path}/tables/counts/part-1.parquet")
    results = lakes.TableWriter(lakes.open_table(lake.table("counts")), lakes.APPENDER)
    results.append([NewFile("part-1.parquet", 100, '{"numRecords": 1}')], {"writer": "node/counts"})
    lines, known = look(known)
    assert lines == ["counts has results again."]
    pause(lake, "counts")
    clock.set(NOON + 9_000_000)
    assert look(known)[0] == [], "a person lets it rest"
