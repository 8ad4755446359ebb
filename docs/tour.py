"""`make tour`: walk through the UI of a running demo as docs/tour.md tells it, and take its pictures anew.

Needs a demo (`make demo`, its stream running) and Debian's `chromium`, or another one by $CHROMIUM. Every step waits for
what its picture has to show. The last one terminates the stream, then switches the sensor off and on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).with_name("images")
LOCATION = "/locations/__repository__@headrace"
DESKTOP, PHONE = (1180, 760), (390, 844)
PATIENCE_MS = 600_000
SETTLE_MS = 3_000  # of the UI's own animations, after what was waited for is there
BYTES_MAX = 150_000


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
        viewport = {"width": size[0], "height": size[1]}
        context = self._browser.new_context(viewport=viewport, timezone_id="UTC", locale="en-GB")
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(address if address.startswith("http") else self._ui + address)
        yield page
        context.close()

    def graph(self) -> None:
        """The group's assets: logs, running queries, tables."""
        with self._page(f"{LOCATION}/asset-groups/demo", (1600, 1030)) as page:
            page.get_by_text("Materialized").first.wait_for()
            _take(page, "graph")

    def sensor(self) -> None:
        """The sensor, with the tick that started the stream."""
        with self._page(f"{LOCATION}/sensors/keep_streams_running") as page:
            page.get_by_text("runs requested").first.wait_for()
            _take(page, "sensor")

    def stream(self) -> None:
        """The running query's figures, plotted."""
        with self._page("/assets/stream/reading_counts?view=overview", (1280, 1060)) as page:
            _plot(page)
            _take(page, "stream")

    def log(self) -> None:
        """The log's figures, plotted; its columns stand above them."""
        with self._page("/assets/log/readings?view=overview", (1280, 820)) as page:
            _plot(page)
            page.get_by_role("button", name="Plots").evaluate("button => button.scrollIntoView()")
            _take(page, "log")

    def checks(self) -> None:
        """All checks of the table, executed."""
        with self._page("/assets/reading_counts?view=checks") as page:
            page.get_by_text("Execute all").click()
            page.get_by_text(re.compile(r"recomputed|equal", re.I)).first.wait_for()
            _take(page, "checks")

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


def _take(page: Page, name: str) -> None:
    page.wait_for_timeout(SETTLE_MS)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{name}: {size / 1000:.0f} kB" + (" TOO LARGE" if size > BYTES_MAX else ""))


STEPS: dict[str, Callable[[Tour], None]] = {
    name: getattr(Tour, name) for name in ("graph", "sensor", "stream", "log", "checks", "report")
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
