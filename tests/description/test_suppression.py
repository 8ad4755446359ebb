"""Policies of suppression, their bounds, and what they fit."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from headrace.description import (
    GroupedStream,
    Suppressed,
    Table,
    TableChanges,
    WindowedAggregate,
    is_unnamed,
    with_unnamed,
    written_by,
)
from headrace.description.limits import limits_asked, limits_of, suppressed_at, with_limits
from headrace.description.table_changes import KEY_DELETED
from headrace.description.windows import WindowKind
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor_id STRING", value="value DOUBLE, site STRING")
SITES = hr.Topic("sites", key="site STRING", value="city STRING")
TOTALS = READINGS.group_by().aggregate(n=hr.count())
WINDOWS = READINGS.group_by().window(hr.tumbling("1 minute"), grace="0 s").aggregate(n=hr.count())
LIMIT = hr.until_time_limit("5 minutes")


def test_a_suppressed_node_has_the_columns_of_what_it_suppresses_and_waits_for_its_limit() -> None:
    for node in (TOTALS, WINDOWS, READINGS.table()):
        suppressed = node.named("kept", owners=("team:us",)).suppress(LIMIT)
        mark = (KEY_DELETED,) if isinstance(node, Table) else ()
        assert suppressed.columns == (*node.columns, *mark)
        assert (suppressed.name, suppressed.owners, suppressed.updated.name) == ("kept", ("team:us",), None)
        assert (suppressed.longest_wait_ms, suppressed.day_column) == (300_000, "__emitted_at")
    assert TOTALS.suppress(LIMIT).in_words == (
        "One row per sensor_id and wait: its latest value, 5 minutes of stream time after its first change."
    )


def test_only_what_alters_rows_alters_the_fingerprint() -> None:
    def fingerprint(**bound: object) -> str:
        return TOTALS.suppress(hr.until_time_limit("5 minutes", **bound)).fingerprint()  # type: ignore[arg-type]

    plain = fingerprint()
    assert plain == fingerprint(max_records=5, when_full="shut_down")
    early = fingerprint(max_records=5, when_full="emit_early")
    assert len({plain, early, fingerprint(max_records=6, when_full="emit_early"), TOTALS.fingerprint()}) == 4
    assert plain != TOTALS.suppress(hr.until_time_limit("6 minutes")).fingerprint()
    closing = WINDOWS.suppress(hr.until_window_closes())
    bounded = hr.until_window_closes(max_records=5, when_full="shut_down")
    assert closing.fingerprint() == WINDOWS.suppress(bounded).fingerprint()


def test_a_bound_that_says_nothing_is_refused() -> None:
    with refused("max_records: 0 (int) is not a number from 1"):
        hr.until_time_limit("1 s", max_records=0)
    with refused("max_bytes: True (bool)"):
        hr.until_window_closes(max_bytes=True)
    with refused("when_full: 'burst' does not exist", "spill, emit_early, shut_down"):
        hr.until_time_limit("1 s", max_records=1, when_full="burst")
    with refused("when_full: 'emit_early' needs a bound", "max_records=…"):
        hr.until_time_limit("1 s", when_full="emit_early")
    with refused(
        "max_records, max_bytes: with when_full='spill' a bound alters nothing", "when_full='shut_down'"
    ):
        hr.until_time_limit("1 s", max_records=1)
    with refused(
        "max_records, max_bytes: with when_full='spill' a bound alters nothing", "leave the bound out"
    ):
        hr.until_window_closes(max_bytes=1, when_full="spill")
    with refused("until_time_limit: '-1 s' is negative"):
        hr.until_time_limit("-1 s")


def test_what_could_break_final_only_is_refused() -> None:
    with refused(
        "until_window_closes: 'emit_early' would emit windows that are not final", "hr.until_time_limit"
    ):
        hr.until_window_closes(max_records=5, when_full="emit_early")


def test_a_policy_that_does_not_fit_is_refused() -> None:
    with refused("suppress: hr.until_window_closes() is for windows", "hr.until_time_limit"):
        TOTALS.suppress(hr.until_window_closes())  # type: ignore[arg-type]
    with refused("suppress: this aggregate is suppressed already"):
        WINDOWS.suppress(hr.until_window_closes()).suppress(LIMIT)
    with refused("suppress: hr.until_window_closes() is for windows", "hr.until_time_limit"):
        READINGS.table().join(SITES.table(), on="site").suppress(hr.until_window_closes())  # type: ignore[arg-type]


def test_a_table_whose_keys_lie_in_several_partitions_is_followed_by_its_changes() -> None:
    more = hr.Topic("more", key="sensor_id STRING", value="value DOUBLE, site STRING")
    by_site = READINGS.group_by("site")
    windows = by_site.window(hr.tumbling("1 minute"), grace="0 s").aggregate(n=hr.count())
    tables: tuple[Any, ...] = (
        by_site.aggregate(n=hr.count()),
        windows,
        READINGS.merge(more).table(),
        READINGS.with_column("sensor_id", "site").group_by().aggregate(n=hr.count()),
        READINGS.select("upper(sensor_id) AS sensor_id", "value")
        .with_column("sensor_id", "CAST(sensor_id AS STRING)")
        .table(),
        READINGS.table("timestamp"),
        READINGS.table().join(SITES.table(), on="site"),
        READINGS.table().group_by("site").aggregate(n=hr.count()),
        READINGS.table().where("value > 1").select("site"),
    )
    for table in tables:
        made = table.named("kept").suppress(LIMIT)
        mark = (KEY_DELETED,) if isinstance(made.updated, Table) else ()
        assert (made.name, made.columns, made.key) == ("kept", (*table.columns, *mark), table.key)
        (topic,) = made.topics
        step = written_by(topic)
        assert isinstance(step, TableChanges)
        assert is_unnamed(step.required_name)
        assert step.topics == table.topics
        assert step.fingerprint() == table.changes().fingerprint() != table.fingerprint()
    assert [len(each.suppress(LIMIT).topics) for each in (TOTALS, WINDOWS)] == [1, 1]
    itself = (TOTALS, WINDOWS, READINGS.select("sensor_id", "value AS v").table())
    assert [written_by(each.suppress(LIMIT).topics[0]) for each in itself] == [None, None, None]


def test_followed_by_changes_a_throttled_table_stays_throttled_and_types_have_to_be_known() -> None:
    joined = READINGS.table().join(SITES.table(), on="site").throttle("1 minute")
    assert joined.suppress(LIMIT).updated.throttle_ms == 60_000
    with refused("changes: a throttled table", "Leave out .throttle(…)"):
        joined.changes()
    typed = READINGS.table().with_column("twice", "value * 2").suppress(LIMIT)
    assert {c.name: c.type for c in typed.result_columns}["twice"] == "DOUBLE"
    above = READINGS.table().with_column("twice", "zip_with(array(value), array(value), (a, b) -> a + b)[0]")
    with refused("only Spark knows the type of 'twice'", ".with_column('twice', 'CAST("):
        above.suppress(LIMIT)


def test_a_suppression_itself_takes_no_regrouped_keys() -> None:
    what = "suppress: until_time_limit: "
    with refused(
        what, "grouped by site, but topic 'readings' is keyed by sensor_id", ".key_by('site') before"
    ):
        Suppressed(READINGS.group_by("site").aggregate(n=hr.count()), LIMIT)
    with refused("order_by='timestamp' has no updates in the log's order", "topic.table()"):
        Suppressed(READINGS.table("timestamp"), LIMIT)


@pytest.mark.parametrize(
    "window", [hr.session("1 minute"), hr.sliding("1 minute")], ids=["session", "sliding"]
)
def test_a_bound_of_windows_that_records_make_alters_no_row(window: WindowKind) -> None:
    counts = READINGS.group_by().window(window, grace="0 s").aggregate(n=hr.count())
    bounded = counts.suppress(hr.until_window_closes(max_records=5, when_full="shut_down")).named("n")
    assert bounded.fingerprint() == counts.suppress(hr.until_window_closes()).named("n").fingerprint()
    raised = limits_of(with_limits(bounded.suppression, {"max_records": 9}))  # type: ignore[arg-type]
    assert raised["max_records"] == 9


@pytest.mark.parametrize(
    "window", [hr.session("1 minute"), hr.sliding("1 minute")], ids=["session", "sliding"]
)
def test_windows_that_records_make_wait_by_their_changes(window: WindowKind) -> None:
    counts = READINGS.group_by().window(window, grace="0 s").aggregate(n=hr.count())
    limited = counts.suppress(LIMIT)
    assert limited.columns == (*counts.columns, KEY_DELETED)
    (changes,) = map(written_by, limited.topics)
    assert isinstance(changes, TableChanges)
    assert changes.changed == counts
    assert limited.updated.key == counts.key
    with refused("is made by its records, and waits by its changes", ".suppress(hr.until_time_limit(…))"):
        Suppressed(counts, LIMIT)
    with refused("changes: ", "windows that records make are no table to be joined"):
        counts.suppress(hr.until_window_closes()).changes()


def test_sliding_windows_of_other_groups_than_the_record_key_wait_too() -> None:
    counts = READINGS.group_by("site").window(hr.sliding("1 minute"), grace="0 s").aggregate(n=hr.count())
    assert counts.suppress(LIMIT).by == ("site", "window_start")


def test_windows_of_the_wall_clock_take_a_limit_by_either_clock_where_a_partition_has_whole_groups() -> None:
    for clock in ("stream", "wall"):
        limited = by_wall(READINGS.group_by()).suppress(hr.until_time_limit("1 minute", clock=clock))
        assert (limited.clock, limited.columns[:2]) == (clock, ("sensor_id", "window_start"))
    with refused("suppress: until_time_limit: ", "grouped by site, but topic 'readings' is keyed by"):
        by_wall(READINGS.group_by("site")).suppress(LIMIT)


def by_wall(grouped: GroupedStream) -> WindowedAggregate:
    return grouped.window(hr.tumbling("1 minute"), clock="wall").aggregate(n=hr.count())


def test_of_a_node_the_limits_are_meant_of_the_suppressed_step_that_it_reads() -> None:
    calm = TOTALS.suppress(LIMIT)
    above = calm.where("n > 1").named("above")
    (step, _) = with_unnamed([above])
    assert suppressed_at(above) == step
    assert suppressed_at(calm.named("calm")).required_name == "calm"
    with refused("Node 'totals' is not suppressed: it has no limits"):
        suppressed_at(TOTALS.named("totals"))
    sooner = READINGS.group_by().aggregate(n=hr.count()).suppress(hr.until_time_limit("1 s"))
    both = calm.where("n > 1").merge(sooner.as_stream())
    with refused("reads several suppressed steps without a name", "Name the one that is meant"):
        suppressed_at(both.named("both"))


def test_limits_that_are_asked_for_make_another_policy_or_are_refused() -> None:
    early = hr.until_time_limit("5 minutes", max_records=5, when_full="emit_early")
    shorter = with_limits(early, limits_asked("10 seconds", max_records=0, max_bytes=90))
    assert shorter == hr.until_time_limit("10 seconds", max_bytes=90, when_full="emit_early")
    closes = hr.until_window_closes(max_records=5, when_full="shut_down")
    assert limits_of(with_limits(closes, limits_asked(max_bytes=7))) == {"max_records": 5, "max_bytes": 7}
    with refused("limit_ms: this suppression has only max_records, max_bytes."):
        with_limits(closes, limits_asked("1 minute"))
    with refused("with when_full='spill' a bound alters nothing", "shut_down"):
        with_limits(LIMIT, limits_asked(max_records=4))
