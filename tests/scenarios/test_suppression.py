"""Suppressed nodes that are full, silent, or tidied up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.conftest import Drive
from tests.rows import columns, state_rows

if TYPE_CHECKING:
    from headrace.description import Node
    from headrace.testing import TestDriver

pytestmark = pytest.mark.fast

VISITS = hr.Topic("visits", key="customer STRING", value="pages INT")
TOTALS = VISITS.group_by().aggregate(pages=hr.sum("pages"))
WINDOWS = VISITS.group_by().window(hr.tumbling("10 s"), grace="0 s").aggregate(pages=hr.sum("pages"))


def full(limit: int) -> list[Node]:
    """A wait of ten seconds and a window of ten, of which so many may be open."""
    waits = hr.until_time_limit("10 seconds", max_records=limit, when_full="shut_down")
    closes = hr.until_window_closes(max_records=limit, when_full="shut_down")
    return [TOTALS.suppress(waits).named("waiting"), WINDOWS.suppress(closes).named("closing")]


def visit(driver: TestDriver, customer: str, second: int, pages: int = 1, partition: int = 0) -> None:
    driver.pipe(
        "visits", key=customer, value={"pages": pages}, timestamp_ms=second * 1_000, partition=partition
    )


def found(driver: TestDriver, name: str) -> list[tuple[str, int]]:
    driver.check(name)
    return sorted(columns(driver.rows(name), "customer", "pages"))


def test_a_full_buffer_shuts_the_stream_down_before_any_commit_and_a_higher_bound_loses_nothing(
    drive: Drive,
) -> None:
    driver = drive(*full(2))
    for customer, partition in [("a", 0), ("b", 0), ("c", 1), ("d", 1), ("a", 0)]:
        visit(driver, customer, 1, partition=partition)  # two in each partition: just within the bound
    driver.cut()
    before = {name: runner.progress for name, runner in driver._runners.items()}
    visit(driver, "e", 2)
    # Waits are counted when "e" comes, windows after the micro-batch.
    for name, what in (("waiting", "suppressed updates"), ("closing", "open windows")):
        with pytest.raises(hr.TerminalError) as error:
            driver.cut([name])
        assert str(error.value).splitlines() == [
            f"Node '{name}': 3 records of {what} would wait in partition 0; max_records is 2.",
            "Nothing of this micro-batch was committed: with a higher bound the stream goes on from here.",
            "Raise max_records (the job set_limits, or headrace set-limits: the stream then goes on by itself) or "
            "leave the bounds and when_full out: the buffer is a table, memory does not bound it.",
        ]
        assert driver._open_runner(driver._nodes[name]).progress == before[name]
        assert found(driver, name) == []
    for node in full(3):
        driver._nodes[node.required_name] = node
        driver._runners[node.required_name] = driver._open_runner(node)
    for partition in (0, 1):
        visit(driver, "z", 30, partition=partition)
    driver.cut()
    assert found(driver, "waiting") == [("a", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]
    assert found(driver, "closing") == [("a", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]
    assert driver._runners["waiting"].progress.buffer["0"] == {
        "records": 1, "bytes": 13, "emitted": 3, "early": 0,
    }  # fmt: skip


def test_a_full_buffer_is_judged_after_each_log_commit_and_by_the_bytes_of_the_last_record(
    drive: Drive,
) -> None:
    by_bytes = hr.until_time_limit("10 seconds", max_bytes=26, when_full="shut_down")
    by_count = hr.until_time_limit("10 seconds", max_records=2, when_full="shut_down")
    names = {"by_bytes": by_bytes, "by_count": by_count}
    driver = drive(*(TOTALS.suppress(policy).named(name) for name, policy in names.items()))
    for customer, second in [("a", 1), ("b", 2), ("a", 3), ("c", 11), ("d", 12), ("c", 13)]:
        visit(driver, customer, second)  # "a" is over when "c" comes, "b" when "d" does: never more than two
    driver.cut()
    assert found(driver, "by_bytes") == found(driver, "by_count") == [("a", 2), ("b", 1)]
    for customer in ("x", "y"):
        visit(driver, customer, 40)  # what waited leaves with the first of them
    driver.cut()
    visit(driver, "x", 41, pages=1_000)  # three bytes more, in the same place
    with pytest.raises(hr.TerminalError, match=r"29 bytes of suppressed updates .* max_bytes is 26"):
        driver.cut(["by_bytes"])
    visit(driver, "later", 80)
    driver.cut(["by_count"])
    assert ("x", 1_001) in found(driver, "by_count")


def test_a_bound_that_is_hit_and_raised_live_lets_the_stream_go_on_until_it_is_hit_again(
    drive: Drive,
) -> None:
    driver = drive(*full(2))
    for customer in ("a", "b", "c"):
        visit(driver, customer, 1)
    for name in ("waiting", "closing"):
        with pytest.raises(hr.TerminalError, match="max_records is 2"):
            driver.cut([name])
        driver.set_limits(name, max_records=3)  # the record that was too much stands before it in the log
    driver.cut()
    for name in ("waiting", "closing"):
        assert driver._runners[name].progress.limits == [{"max_records": 3}]
    visit(driver, "d", 2)
    for name in ("waiting", "closing"):
        with pytest.raises(hr.TerminalError, match="max_records is 3"):
            driver.cut([name])
        driver.set_limits(name, max_bytes=1_000, max_records=0)
    visit(driver, "z", 30)
    driver.cut()
    assert found(driver, "waiting") == found(driver, "closing") == [(name, 1) for name in "abcd"]


def test_limits_that_a_node_cannot_have_are_refused_and_those_in_force_stay(drive: Drive) -> None:
    patient = TOTALS.suppress(hr.until_time_limit("10 seconds")).named("patient")
    early = hr.until_time_limit("10 seconds", max_records=2, when_full="emit_early")
    driver = drive(patient, TOTALS.suppress(early).named("early"), WINDOWS.named("plain"))
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("patient", {"max_records": 5}, "a bound alters nothing"),
        ("patient", {"time_limit": "never"}, "never"),
        ("early", {"max_records": 0}, "needs a bound that can be full"),
        ("early", {"max_bytes": -1}, "not a number from 1"),
        ("early", {}, "No limit is given"),
        ("plain", {"max_records": 1}, "'plain' is not suppressed"),
    ]
    for name, asked, why in refused:
        with pytest.raises(hr.DescriptionError, match=why):
            driver.set_limits(name, **asked)
    assert len(driver.log("visits")) == 0


def test_a_shorter_limit_lets_go_what_is_due_and_a_longer_one_keeps_what_waits(drive: Drive) -> None:
    driver = drive(TOTALS.suppress(hr.until_time_limit("10 seconds")).named("patient"))
    for customer, second in [("a", 1), ("b", 4), ("c", 8)]:
        visit(driver, customer, second)
    driver.cut()
    driver.set_limits(
        "patient", time_limit="4 seconds"
    )  # stream time 8: what came until 4 leaves, at this row
    driver.cut()
    assert found(driver, "patient") == [("a", 1), ("b", 1)]
    driver.set_limits("patient", time_limit="20 seconds")
    visit(driver, "d", 3)  # what came until 4 is over, and stays so
    visit(driver, "e", 27)
    driver.cut()
    assert found(driver, "patient") == [("a", 1), ("b", 1), ("d", 1)]
    visit(driver, "e", 28)
    driver.cut()
    assert found(driver, "patient") == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


def test_tidied_up_the_state_forgets_rows_and_closed_windows_but_no_total(drive: Drive) -> None:
    limit = hr.until_time_limit("5 seconds")
    nodes: dict[str, Any] = {"rows": VISITS.table(), "windows": WINDOWS, "totals": TOTALS}
    driver = drive(*(node.suppress(limit).named(name) for name, node in nodes.items()))
    for customer, second in [("a", 1), ("a", 2), ("b", 21)]:
        visit(driver, customer, second)
    driver.cut()
    for runner in driver._runners.values():
        runner.maintain()
    kept = {name: len(state_rows(driver, name, "entries")) for name in nodes}
    assert kept == {"rows": 1, "windows": 1, "totals": 2}  # "b" waits; the total of "a" is built upon
    visit(driver, "c", 40)
    visit(driver, "a", 41)
    visit(driver, "b", 50)
    driver.cut()
    assert found(driver, "rows") == [("a", 1), ("a", 1), ("b", 1), ("c", 1)]
    assert found(driver, "windows") == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    assert found(driver, "totals") == [("a", 2), ("a", 3), ("b", 1), ("c", 1)]
