"""`make tour`: walk through the UI of a running demo as docs/tour.md tells it, and take its pictures anew.

Needs a demo (`make demo`, its stream running) and Debian's `chromium`, or another one by $CHROMIUM. Every step waits for
what its picture has to show. The last one terminates the stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from docs.tools import change_walk
from docs.tools.walk import DESKTOP, MENU, PHONE, Walk, tagged, take, walk
from headrace.local.demos.demo import GRAPH, SENSOR

if TYPE_CHECKING:
    from playwright.sync_api import Page

TICK_MS = 25_000  # two looks of the sensor
DAY = re.compile(r"^\d{4}-\d\d-\d\d$")


class Tour:
    """The steps, each with its pictures."""

    def __init__(self, walk: Walk) -> None:
        """Nothing is opened yet."""
        self._walk = walk

    def graph(self) -> None:
        """The group's assets: logs, running queries, tables."""
        with self._walk.page(GRAPH, (1600, 1030)) as page:
            page.get_by_text("Materialized").first.wait_for()
            take(page, "graph", left=MENU, bottom=880)

    def sensor(self) -> None:
        """The sensor, with the tick that started the stream."""
        with self._walk.page(SENSOR) as page:
            page.get_by_text("runs requested").first.wait_for()
            take(page, "sensor")

    def stream(self) -> None:
        """The running query's figures, plotted."""
        with self._walk.page("/assets/stream/reading_counts_stream?view=overview", (1280, 1060)) as page:
            _plot(page)
            take(page, "stream", left=MENU, top=370)

    def log(self) -> None:
        """The log's figures, plotted; its columns stand above them."""
        with self._walk.page("/assets/log/readings?view=overview", (1280, 820)) as page:
            _plot(page)
            page.get_by_role("button", name="Plots").evaluate("button => button.scrollIntoView()")
            take(page, "log")

    def checks(self) -> None:
        """All checks of the table, executed unless they were."""
        with self._walk.page("/assets/reading_counts?view=checks") as page:
            page.get_by_text(re.compile("Not Evaluated|Succeeded")).first.wait_for()
            if page.get_by_text("Not Evaluated").count():
                page.get_by_text("Execute all").click()
            page.get_by_text(re.compile("^Recomputed from the log")).wait_for()
            take(page, "checks", bottom=688)

    def backfill(self) -> None:
        """Two days, chosen in the dialog; then what the run said."""
        with self._walk.page("/assets/reading_counts?view=partitions") as page:
            page.get_by_text(DAY).first.wait_for()
            first, second, *_ = sorted(set(page.get_by_text(DAY).all_inner_texts()))
            page.get_by_role("button", name="Materialize…").first.click()
            dialog = page.get_by_role("dialog")
            chosen = dialog.locator("input[type=text]").first
            chosen.fill(f"[{first}...{second}]")
            chosen.press("Enter")
            chosen.blur()
            dialog.get_by_role("button", name="Launch backfill").click()
            dialog.wait_for(state="detached")
            run = self._walk.ended(page, tagged("dagster/backfill"))
        with self._walk.page(f"/runs/{run}?levels=info", (1280, 1140)) as page:
            page.get_by_text(re.compile("^(Equal|Different)")).wait_for()
            take(page, "backfill", left=MENU, top=430)

    def change(self) -> None:
        """Another grace in the code: the plan, the act, what the stream says after it; then back."""
        change_walk.change(self._walk, SENSOR)

    def stop(self) -> None:
        """The stream's run terminated in the UI, and what the sensor says to that."""
        change_walk.terminate_stream(self._walk)
        with self._walk.page(SENSOR) as page:
            page.wait_for_timeout(TICK_MS)
        self.stopped()

    def stopped(self) -> None:
        """What the sensor says after that."""
        with self._walk.page(SENSOR) as page:
            ticks = page.get_by_text("0 runs requested")
            ticks.nth(
                2
            ).click()  # the newest: above the list it stands once, then come its status and its result
            page.get_by_text("was stopped by a person").wait_for()
            take(page, "stopped", bottom=240)

    def report(self) -> None:
        """The report's page of that table, on a desktop and on a phone."""
        for name, size in (("report", DESKTOP), ("phone", PHONE)):
            with self._walk.page(f"{self._walk.report}/node-reading_counts.html", size) as page:
                page.get_by_text("Where every record went").wait_for()
                take(page, name)


def _plot(page: Page) -> None:
    """Show the plots of an asset's observations."""
    page.get_by_text("rows_per_second").first.wait_for()
    page.get_by_role("button", name="Plots").click()
    page.locator("canvas").nth(1).wait_for()


STEPS: dict[str, Callable[[Tour], None]] = {
    name: getattr(Tour, name)
    for name in ("graph", "sensor", "stream", "log", "checks", "report", "backfill", "change", "stop")
}


def main(
    steps: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(STEPS)}; default all.")] = None,
    port: Annotated[int, typer.Option(help="Port of the demo's UI.")] = 3000,
) -> None:
    """Take the pictures."""
    with walk(port) as opened:
        for name in steps or STEPS:
            STEPS[name](Tour(opened))


if __name__ == "__main__":
    typer.run(main)
