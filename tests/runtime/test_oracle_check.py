"""Some keys of a lake, replayed through the oracle: nodes of every kind are equal, and what was tampered with is found."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace import lake as lakes
from headrace.cli import commands as cli
from headrace.errors import TerminalError
from headrace.lifecycle.oracle_check import KeysVerdict, verify_keys
from headrace.testing import TestDriver
from tests.lake.other_hands import alter, bring_back, delete

if TYPE_CHECKING:
    from headrace.description import Node

pytestmark = pytest.mark.fast

SECOND = 1_000
ALL = 1_000  # keys: more than there are
READINGS = hr.Topic(
    "readings", key="sensor STRING", value="station STRING, value DOUBLE", idle_timeout="5 seconds"
)
STATIONS = hr.Topic("stations", key="station STRING", value="city STRING, height INT")
GROUPED = READINGS.where("value <> 3").group_by()
TOTALS: dict[str, Any] = {"n": hr.count(), "total": hr.sum("value"), "newest": hr.last("value")}
PLACES = STATIONS.table()
LATEST, HIGH = READINGS.table(), "coalesce(height, 0) > 2 AS high"
FINAL = GROUPED.window(hr.tumbling("10 seconds"), grace="2 seconds").aggregate(**TOTALS)
NODES: list[Node] = [
    FINAL.suppress(hr.until_window_closes()).named("final"),
    READINGS.group_by("station")
    .window(hr.hopping("10 seconds", "4 seconds"), grace="1 second")
    .aggregate(**TOTALS)
    .named("hopping"),
    GROUPED.window(hr.sliding("4 seconds"), grace="1 second").aggregate(n=hr.count()).named("sliding"),
    GROUPED.window(hr.session("2 seconds"), grace=0).aggregate(**TOTALS).named("sessions"),
    READINGS.group_by("station").aggregate(**TOTALS).named("totals"),
    READINGS.group_by("station")
    .batch(max_records=3, max_wait="8 seconds", collect=["value"])
    .named("batches"),
    GROUPED.aggregate(**TOTALS).suppress(hr.until_time_limit("4 seconds")).named("limited"),
    LATEST.suppress(hr.until_time_limit("60 seconds", max_records=3, when_full="emit_early")).named("early"),
    LATEST.where("value > 2").named("latest"),
    LATEST.join(PLACES, on="station", how="left").named("joined"),
    LATEST.join(PLACES, on="station", select=("left.value AS value", HIGH)).named("selected"),
    LATEST.join(PLACES, on="station").group_by("city").aggregate(n=hr.count()).named("cities"),
    READINGS.group_by("station")
    .aggregate(**TOTALS)
    .join(PLACES, on="station", how="left")
    .named("of_stations"),
    READINGS.lookup(PLACES, on="station", complete_first=False).named("found"),
    READINGS.lookup(PLACES, on="station", as_of="event", history="20 seconds", complete_first=False).named(
        "valid"
    ),
]
NAMES = [node.required_name for node in NODES]
BY_NAME = dict(zip(NAMES, NODES, strict=True))
REVISED = ("totals", "latest", "joined", "selected", "cities", "of_stations")


@pytest.fixture(scope="module")
def driver() -> Iterator[TestDriver]:
    """Nodes of every kind after a random log: late and equal times, ticks, tombstones, dead letters, a drain, limits."""
    driver, random = TestDriver(NODES), Random(5)
    for cut in range(6):
        for _ in range(20):
            at = cut * 8 * SECOND + random.randrange(-20, 10) * 500
            value: Any = random.choice(
                [None, b"{", *[{"station": f"s{n % 4}", "value": n / 2} for n in range(9)]]
            )
            driver.pipe(
                "readings",
                key=random.choice([*"abcdefg", None]),
                value=value,
                timestamp_ms=1_700_000_000_000 + at,
                partition=random.randrange(2),
            )
            if random.random() < 0.3:
                place = {"city": random.choice("xyz"), "height": random.randrange(5)}
                driver.pipe(
                    "stations",
                    key=f"s{random.randrange(5)}",
                    value=place if random.random() < 0.8 else None,
                    timestamp_ms=1_700_000_000_000 + at,
                )
        driver.advance_wall_clock(random.choice(["1 second", "9 seconds"]))
        if cut == 2:
            driver.drain()
            driver.set_limits("limited", time_limit="2 seconds")
        driver.cut()
        if cut == 3:
            for name in REVISED:
                driver._runners[name].maintain()
    yield driver
    driver.close()


def checked(driver: TestDriver, name: str, keys: int = ALL, seed: int = 0) -> KeysVerdict:
    return verify_keys(driver._session, driver._lake, BY_NAME[name], keys, seed)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_stream_has_written_is_what_the_oracle_finds(driver: TestDriver, name: str) -> None:
    found = checked(driver, name)
    assert found.equal, found.first_differences
    assert found.rows_equal == len(driver.rows(name)) > 0
    assert found.keys > 1


def test_a_number_and_a_seed_choose_the_keys(driver: TestDriver) -> None:
    some = [checked(driver, "final", keys=2, seed=seed) for seed in range(4)]
    assert {found.keys for found in some} == {2}
    assert all(found.equal for found in some)
    assert len({found.rows_equal for found in some}) > 1
    assert some[0] == checked(driver, "final", keys=2, seed=0)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("final", "n", "n + 1"),
        ("hopping", "total", "total + 0.000001"),
        ("sessions", "newest", "NULL"),
        ("batches", "closed_by", "'wait '"),
        ("limited", "n", "0"),
        ("early", "value", "7"),
        ("found", "city", "'z'"),
        ("valid", "__sequence", "__sequence + 1"),
        ("totals", "total", "0"),
        ("latest", "value", "-1"),
        ("joined", "city", "'z'"),
        ("selected", "high", "NOT coalesce(high, false)"),
        ("cities", "n", "n - 1"),
    ],
)
def test_a_row_that_was_altered_is_named(driver: TestDriver, name: str, column: str, value: str) -> None:
    with Tampered(driver, name) as table:
        alter(table, {column: value})
        found = checked(driver, name)
        assert not found.equal
        assert {line.partition(":")[0] for line in found.first_differences} == {"oracle", "table"}


def test_rows_that_are_gone_and_rows_of_other_keys_are_found(driver: TestDriver) -> None:
    rows = len(driver.rows("final"))
    with Tampered(driver, "final") as table:
        delete(table, "sensor = 'a'")
        found = checked(driver, "final")
        assert found.rows_differing == rows - found.rows_equal > 0
        assert all(line.startswith("oracle: sensor=a, window_start=") for line in found.first_differences)
    with Tampered(driver, "final") as table:
        alter(table, {"sensor": "'nobody'"}, "sensor = 'a'")
        assert any("table: sensor=nobody" in line for line in checked(driver, "final").first_differences)


def test_the_command_ends_with_1_when_a_row_differs(
    driver: TestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda name: NODES)
    monkeypatch.setattr(
        "headrace.cli.console.deployment.session", lambda lake: pytest.fail("Spark was started")
    )
    asked = ["verify", "final", "--oracle", "--keys", "3", "--lake", driver._lake.root]
    equal = CliRunner().invoke(cli.app, asked)
    assert (equal.exit_code, equal.output.split("  ")[:2]) == (0, ["final", "3 keys checked"]), equal.output
    with Tampered(driver, "final") as table:
        alter(table, {"n": "n + 1"})
        different = CliRunner().invoke(cli.app, asked)
    assert different.exit_code == 1
    assert "rows differ" in different.output
    assert "    oracle: sensor=" in different.output
    refused = CliRunner().invoke(cli.app, [*asked, "--day", "2026-01-01"])
    assert refused.exit_code == 2


def test_a_node_that_has_not_run_is_refused(driver: TestDriver) -> None:
    with pytest.raises(TerminalError, match="has not run yet"):
        verify_keys(driver._session, driver._lake, FINAL.named("never"), ALL)


class Tampered:
    """A node's table, to be damaged; afterwards it is as before."""

    def __init__(self, driver: TestDriver, name: str) -> None:
        self.driver, self.uri = driver, driver._lake.table(name)
        if name in REVISED:  # what is shown of these lies beside the table until it is merged
            driver._runners[name].maintain()

    def __enter__(self) -> str:
        lakes.forget(self.uri)
        self.version = lakes.open_table(self.uri).version
        return self.uri

    def __exit__(self, *error: object) -> None:
        bring_back(self.uri, self.version)
        lakes.forget(self.uri)
