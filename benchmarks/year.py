"""A year in an hour: 100,000 commits on a compressed clock, with all that people do to a lake.

`python -m benchmarks.year`. Every day rows older than a month are cut off the log of readings, and the tables are
maintained. Every week a key of another topic, accounts, is erased: a log whose rows were cut off refuses that. Every month
a description changes and is applied. Sequencer, nodes, commits and upkeep are those of a stream. They run in this process,
and commits need no JVM. Cuts, erasures and applies need Spark.

The machine's clock is replaced: a day of the year passes in some seconds, for records and for retention of files. At the
end each table is compared with its log, and the totals with what plain Python has counted. Memory, files, requests and
times are printed by month, and drawn into `--picture`. The exit code is 1 if a table is wrong, or if the mean of a figure in
the last quarter of the year is above that of the quarter before by more than a quarter. The bytes of the lake may grow:
final windows stay, and so does the log of accounts.

Requests are the files below the lake that Python opens, lists, renames or deletes; those of Arrow and delta-rs are not seen.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import headrace as hr
from benchmarks.processes import jvm_of, resident_mib
from benchmarks.year_picture import drawn
from headrace import lake as lakes
from headrace.changing.apply_changes import ApplyChanges
from headrace.lake.storage import local_path
from headrace.lifecycle.maintenance import Maintenance
from headrace.log.site import Site
from headrace.nodes.bases import ReplacedRowsError
from headrace.testing import TestDriver
from headrace.testing import driver as driving
from headrace.writing.scheduling import Turns
from headrace.writing.table_upkeep import TableUpkeep

if TYPE_CHECKING:
    from headrace.description import Node

DAY_MS = 86_400_000
KEPT_DAYS, WEEK, MONTH = 30, 7, 30
SENSORS, ACCOUNTS_MAX = 50, 500
UPKEEP_EVERY = 50  # commits between two looks at the tables, as a stream looks every few seconds
REOPENED_MAX = 1_000
GROWS_MAX = 1.25  # of the last quarter over the one before
OF_LAKE = "MiB of the lake"  # may grow
CALLS = {"open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.link"}

ACCOUNTS = hr.Topic("accounts", key="id STRING", value="id STRING, balance BIGINT", idle_timeout=None)
READINGS = hr.Topic(
    "readings", key="sensor_id STRING", value="sensor_id STRING, value BIGINT", idle_timeout=None
)


def nodes(month: int) -> list[Node]:
    """The pipeline as it is described in a month: the name of a total changes, which rebuilds its node."""
    hourly = (
        READINGS.group_by("sensor_id")
        .window(hr.tumbling("1 hour"), grace="10 minutes")
        .aggregate(n=hr.count(), total=hr.sum("value"))
        .suppress(hr.until_window_closes())
        .named("hourly")
    )
    totals = READINGS.group_by("sensor_id").aggregate(**{f"n_{month}": hr.count(), "total": hr.sum("value")})
    return [hourly, totals.named("totals"), ACCOUNTS.table().named("balances")]


class YearClock:
    """Stands in place of the machine's clock. The year ends now."""

    def __init__(self, days: float) -> None:
        self.ms = time.time_ns() // 1_000_000 - round(days * DAY_MS)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Let the process see this time; durations stay the machine's."""
        machine = time.time, time.time_ns
        time.time, time.time_ns = lambda: self.ms / 1000, lambda: self.ms * 1_000_000
        try:
            yield
        finally:
            time.time, time.time_ns = machine


class YearDriver(TestDriver):
    """A test driver whose nodes change, and whose tables have upkeep as in a stream."""

    __test__ = False

    def __init__(self, described: list[Node]) -> None:
        super().__init__(described)
        self.reopened = 0
        self.counted: dict[str, tuple[int, ...]] = {}

    @property
    def tables(self) -> list[str]:
        """URIs of the logs, of the results and of the states."""
        logs = [self.lake.log(name) for name in self._topics]
        return [*logs, *(of(name) for of in (self.lake.table, self.lake.state) for name in self._nodes)]

    def keep_up(self) -> None:
        """Write the checkpoints that are due, clean histories, and put small files into larger ones.

        `_at_end` packs the states of current results, and folds them.
        """
        if not hasattr(self, "_upkeep"):
            self._upkeep = TableUpkeep(
                lambda: self.tables,
                Turns(1),
                logs=lambda: [self.lake.log(name) for name in self._topics],
                appended=lambda: [self.lake.table("hourly")],
            )
        self._upkeep._keep_all()
        self._runners["hourly"].pack(whole=True)

    def commits(self) -> int:
        """How many commits all tables have had."""
        return sum(lakes.open_table(uri).version for uri in self.tables)

    def maintain(self) -> None:
        """Maintain all tables, as the daily job does."""
        for _ in Maintenance(self.spark, self.lake, [*self._nodes.values()]).run():
            pass
        self._reopen_runners()

    def become(self, described: list[Node]) -> None:
        """Apply a changed description."""
        ApplyChanges(Site(self.spark, self.lake), described).run()
        self._nodes = {node.required_name: node for node in described}
        self._reopen_runners()

    def _at_end(self, name: str) -> bool:
        """Run a node to the end. An erasure or an apply has replaced its rows: it is opened again, as by a stream."""
        try:
            return super()._at_end(name)
        except ReplacedRowsError:
            self.reopened += 1
            if self.reopened > REOPENED_MAX:
                raise
            return False

    def send(self, sensor: str, value: int, at_ms: int) -> None:
        """Send a record, and count it in plain Python, too."""
        self.pipe("readings", key=sensor, value={"sensor_id": sensor, "value": value}, timestamp_ms=at_ms)
        n, total = self.counted.get(sensor, (0, 0))
        self.counted[sensor] = (n + 1, total + value)

    def wrong_tables(self) -> list[str]:
        """The tables that differ from their logs, and totals if they are not what plain Python has counted."""
        wrong = [name for name in self._nodes if self.rows(name) != self.backfill(name)]
        totals = {
            row["sensor_id"]: tuple(row[each] for each in row if each != "sensor_id")
            for row in self.rows("totals")
        }
        return wrong + (["totals, by plain Python"] if totals != self.counted else [])

    def pass_ms(self, clock: YearClock, ms: int) -> None:
        """Let time pass."""
        clock.ms += ms
        self.advance_wall_clock(f"{ms} ms")


@dataclass
class Figures:
    """The figures of each day, by name."""

    days: dict[str, list[float]] = field(default_factory=dict)
    calls: int = 0

    def add(self, name: str, value: float) -> None:
        """Add the figure of a day."""
        self.days.setdefault(name, []).append(value)

    def timed(self, name: str, work: Callable[[], Any]) -> None:
        """Do some work, and add its seconds."""
        began = time.monotonic()
        work()
        self.add(name, time.monotonic() - began)

    def count_below(self, root: Path) -> None:
        """Count the files of the lake that this process opens, lists or removes, from now on."""
        below = str(root)

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in CALLS and arguments and str(arguments[0]).startswith(below):
                self.calls += 1

        sys.addaudithook(hook)


def main(
    commits: Annotated[
        int, typer.Option(help="Of the readings; all tables together have six times as many.")
    ] = 17_400,
    days: Annotated[int, typer.Option(help="Over so many days.")] = 365,
    records: Annotated[int, typer.Option(help="In each commit.")] = 20,
    minutes: Annotated[float, typer.Option(help="The year ends with the day that passes this.")] = 600.0,
    picture: Annotated[str, typer.Option(help="Draw the figures into this file, as SVG.")] = "",
) -> None:
    """Live through a year, and print what it took."""
    console, clock, figures = Console(width=120), YearClock(days), Figures()
    driving.UNFOLDED_MAX = UPKEEP_EVERY  # of tests few, so that they read a base and changes beside it
    began = time.monotonic()
    with clock.in_force():
        driver = YearDriver(nodes(0))
        figures.count_below(local_path(driver.lake.root))
        try:
            for day in range(1, days + 1):
                before, after = (commits * each // days for each in (day - 1, day))
                _live_a_day(driver, clock, figures, day, range(before, after), records)
                if day % MONTH == 0 or day == days:
                    _say(console, figures, day, time.monotonic() - began)
                    _draw(picture, figures, driver.commits(), day)
                if time.monotonic() - began > minutes * 60:
                    break
            wrong, in_all = driver.wrong_tables(), driver.commits()
        finally:
            driver.close()
    grown = _print(console, figures)
    console.print(f"{in_all:,} commits to all tables")
    console.print(f"nodes were opened again {driver.reopened:,} times, for their rows had been replaced")
    console.print(f"wrong: {', '.join(wrong)}" if wrong else "each table is right")
    sys.exit(1 if wrong or grown else 0)


def _live_a_day(
    driver: YearDriver, clock: YearClock, figures: Figures, day: int, commits: range, records: int
) -> None:
    """Live a day. In: commits  their numbers, counted over the year."""
    drawn, seconds, before = random.Random(day), [], figures.calls
    for commit in commits:
        driver.pass_ms(clock, DAY_MS // len(commits))
        for _ in range(records):
            sensor, late = f"sensor-{drawn.randrange(SENSORS):02d}", drawn.randrange(300_000)
            driver.send(sensor, drawn.randrange(1_000), clock.ms - late)
        account = f"account-{drawn.randrange(ACCOUNTS_MAX):03d}"
        balance = {"id": account, "balance": drawn.randrange(1_000)}
        driver.pipe("accounts", key=account, value=balance, timestamp_ms=clock.ms)
        began = time.perf_counter()
        driver.cut()
        seconds.append(time.perf_counter() - began)
        if commit % UPKEEP_EVERY == UPKEEP_EVERY - 1:
            driver.keep_up()
    figures.add("ms of a commit, mean", 1000 * fmean(seconds))
    figures.add("ms of a commit, 99 of 100", 1000 * sorted(seconds)[len(seconds) * 99 // 100])
    figures.add("requests of a commit", (figures.calls - before) / len(commits))
    _change(driver, clock, figures, day)
    _age(local_path(driver.lake.root), clock.ms)
    files = [each for each in local_path(driver.lake.root).rglob("*") if each.is_file()]
    figures.add("files of the lake", len(files))
    figures.add(OF_LAKE, sum(each.stat().st_size for each in files) / 2**20)
    figures.add("MiB of Python", resident_mib(Path("/proc/self")))
    if day > KEPT_DAYS:  # Spark has begun
        figures.add("MiB of the JVM", resident_mib(jvm_of(driver.spark)))


def _change(driver: YearDriver, clock: YearClock, figures: Figures, day: int) -> None:
    if day > KEPT_DAYS:
        figures.timed("s of a cut", lambda: driver.retain("readings", clock.ms - KEPT_DAYS * DAY_MS))
    if day % WEEK == 0:
        account = f"account-{day // WEEK:03d}"
        figures.timed("s of an erasure", lambda: driver.erase("accounts", account))
    if day % MONTH == 0:
        figures.timed("s of an apply", lambda: driver.become(nodes(day // MONTH)))
    figures.timed("s of maintenance", driver.maintain)


def _age(root: Path, now_ms: int) -> None:
    """Give the day's files the time of the year: those that look at a file's age see it."""
    for path in root.rglob("*"):
        if path.stat().st_mtime > now_ms / 1000 and path.is_file():
            os.utime(path, (now_ms / 1000, now_ms / 1000))


def _draw(picture: str, figures: Figures, commits: int, days: int) -> None:
    if picture:
        Path(picture).write_text(drawn(figures.days, commits, days).svg(), encoding="utf-8")


def _say(console: Console, figures: Figures, day: int, seconds: float) -> None:
    newest = ", ".join(f"{name} {values[-1]:,.1f}" for name, values in figures.days.items())
    console.print(f"day {day}, {seconds:,.0f} s: {newest}", soft_wrap=True)


def _print(console: Console, figures: Figures) -> list[str]:
    """The figures by quarter.

    Out: those that grow
    """
    shown, grown = Table(title="Means by quarter of the year"), []
    for column in ("", "first", "second", "third", "last"):
        shown.add_column(column, justify="right" if column else "left")
    for name, values in figures.days.items():
        if len(values) >= 4:
            quarters = [fmean(values[len(values) * n // 4 : len(values) * (n + 1) // 4]) for n in range(4)]
            shown.add_row(name, *(f"{each:,.1f}" for each in quarters))
            grown += [name] if quarters[3] > GROWS_MAX * quarters[2] and name != OF_LAKE else []
    console.print(shown)
    console.print(f"grows: {', '.join(grown)}" if grown else "nothing grows")
    return grown


if __name__ == "__main__":
    typer.run(main)
