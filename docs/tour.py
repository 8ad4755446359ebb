"""`make tour`: walk through the UI of a running demo as docs/tour.md tells it, and take its pictures anew.

Needs a demo (`make demo`, its stream running) and Debian's `chromium`, or another one by $CHROMIUM. Every step waits for
what its picture has to show. The last one terminates the stream.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from headrace.local.demo import GRAPH, SENSOR

IMAGES = Path(__file__).with_name("images")
DESKTOP, PHONE = (1280, 760), (390, 844)
PATIENCE_MS = 600_000
TICK_MS = 25_000  # two looks of the sensor
MENU = 240  # its width
SETTLE_MS = 3_000  # of the UI's own animations, after what was waited for is there
BYTES_MAX = 150_000
DAY = re.compile(r"^\d{4}-\d\d-\d\d$")
RUNS = "{ runsOrError(limit: 20) { ... on Runs { results { id endTime tags { key } } } } }"


class Tour:
    """A browser on one demo."""

    def __init__(self, browser: Browser, port: int) -> None:
        """Nothing is opened yet."""
        self._browser, self._ui, self._report = (
            browser,
            f"http://127.0.0.1:{port}",
            f"http://127.0.0.1:{port + 1}",
        )

    @contextmanager
    def _page(self, address: str, size: tuple[int, int] = DESKTOP) -> Iterator[Page]:
        viewport: ViewportSize = {"width": size[0], "height": size[1]}
        context = self._browser.new_context(viewport=viewport, timezone_id="UTC", locale="en-GB")
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(address if address.startswith("http") else self._ui + address)
        yield page
        context.close()

    def graph(self) -> None:
        """The group's assets: logs, running queries, tables."""
        with self._page(GRAPH, (1600, 1030)) as page:
            page.get_by_text("Materialized").first.wait_for()
            _take(page, "graph", left=MENU, bottom=880)

    def sensor(self) -> None:
        """The sensor, with the tick that started the stream."""
        with self._page(SENSOR) as page:
            page.get_by_text("runs requested").first.wait_for()
            _take(page, "sensor")

    def stream(self) -> None:
        """The running query's figures, plotted."""
        with self._page("/assets/stream/reading_counts_stream?view=overview", (1280, 1060)) as page:
            _plot(page)
            _take(page, "stream", left=MENU, top=370)

    def log(self) -> None:
        """The log's figures, plotted; its columns stand above them."""
        with self._page("/assets/log/readings?view=overview", (1280, 820)) as page:
            _plot(page)
            page.get_by_role("button", name="Plots").evaluate("button => button.scrollIntoView()")
            _take(page, "log")

    def checks(self) -> None:
        """All checks of the table, executed unless they were."""
        with self._page("/assets/reading_counts?view=checks") as page:
            page.get_by_text(re.compile("Not Evaluated|Succeeded")).first.wait_for()
            if page.get_by_text("Not Evaluated").count():
                page.get_by_text("Execute all").click()
            page.get_by_text(re.compile("^Recomputed from the log")).wait_for()
            _take(page, "checks", bottom=688)

    def backfill(self) -> None:
        """Two days, chosen in the dialog; then what the run said."""
        with self._page("/assets/reading_counts?view=partitions") as page:
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
            run = self._ended(page, "dagster/backfill")
        with self._page(f"/runs/{run}?levels=info", (1280, 1140)) as page:
            page.get_by_text(re.compile("^(Equal|Different)")).wait_for()
            _take(page, "backfill", left=MENU, top=430)

    def stop(self) -> None:
        """The stream's run terminated in the UI, and what the sensor says to that."""
        with self._page("/runs") as page:
            run = self._ended(page, "headrace/stream", ended=False)
            page.goto(f"{self._ui}/runs/{run}")
            page.get_by_role("button", name="Terminate").click()
            page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
            self._ended(page, "headrace/stream")
            page.wait_for_timeout(TICK_MS)
        self.stopped()

    def stopped(self) -> None:
        """What the sensor says after that."""
        with self._page(SENSOR) as page:
            ticks = page.get_by_text("0 runs requested")
            ticks.nth(
                2
            ).click()  # the newest: above the list it stands once, then come its status and its result
            page.get_by_text("was stopped by a person").wait_for()
            _take(page, "stopped", bottom=240)

    def _ended(self, page: Page, tag: str, *, ended: bool = True) -> str:
        """The newest run with a tag, when it has ended."""
        while True:
            said = page.request.post(f"{self._ui}/graphql", data={"query": RUNS}).json()
            runs = [
                run
                for run in said["data"]["runsOrError"]["results"]
                if tag in [t["key"] for t in run["tags"]]
            ]
            if runs and (not ended or runs[0]["endTime"]):
                return str(runs[0]["id"])
            page.wait_for_timeout(1_000)

    def report(self) -> None:
        """The report's page of that table, on a desktop and on a phone."""
        for name, size in (("report", DESKTOP), ("phone", PHONE)):
            with self._page(f"{self._report}/node-reading_counts.html", size) as page:
                page.get_by_text("Where every record went").wait_for()
                _take(page, name)


def _plot(page: Page) -> None:
    """Show the plots of an asset's observations."""
    page.get_by_text("rows_per_second").first.wait_for()
    page.get_by_role("button", name="Plots").click()
    page.locator("canvas").nth(1).wait_for()


def _take(page: Page, name: str, *, left: int = 0, top: int = 0, bottom: int | None = None) -> None:
    """A picture of what the window shows, or of a part of it."""
    page.wait_for_timeout(SETTLE_MS)
    path, window = IMAGES / f"{name}.png", page.viewport_size or {"width": 0, "height": 0}
    height = (bottom or window["height"]) - top
    page.screenshot(path=path, clip={"x": left, "y": top, "width": window["width"] - left, "height": height})
    kept = path.stat().st_size
    print(f"{name}: {kept / 1000:.0f} kB" + (" TOO LARGE" if kept > BYTES_MAX else ""))


STEPS: dict[str, Callable[[Tour], None]] = {
    name: getattr(Tour, name)
    for name in ("graph", "sensor", "stream", "log", "checks", "report", "backfill", "stop")
}


def main(
    steps: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(STEPS)}; default all.")] = None,
    port: Annotated[int, typer.Option(help="Port of the demo's UI.")] = 3000,
) -> None:
    """Take the pictures."""
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tour = Tour(browser, port)
        for name in steps or STEPS:
            STEPS[name](tour)
        browser.close()


if __name__ == "__main__":
    typer.run(main)
