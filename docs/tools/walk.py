"""A browser on a running demo: pages, pictures, and what Dagster says of its runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

IMAGES = Path(__file__).parents[1] / "images"
DESKTOP, PHONE = (1280, 760), (390, 844)
PATIENCE_MS = 600_000
MENU = 240  # its width
SETTLE_MS = 3_000  # of the UI's own animations, after what was waited for is there
BYTES_MAX = 150_000
RUNS = "{ runsOrError(limit: 20) { ... on Runs { results { id jobName endTime tags { key } } } } }"


class Walk:
    """A browser on one demo."""

    def __init__(self, browser: Browser, port: int) -> None:
        """Open nothing yet. In: port  of the UI; the report's is the next one."""
        self._browser = browser
        self.ui, self.report = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"

    @contextmanager
    def page(self, address: str, size: tuple[int, int] = DESKTOP) -> Iterator[Page]:
        """Open an address, or a path of the UI. In: size  of the window, in pixels."""
        viewport: ViewportSize = {"width": size[0], "height": size[1]}
        context = self._browser.new_context(viewport=viewport, timezone_id="UTC", locale="en-GB")
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(address if address.startswith("http") else self.ui + address)
        yield page
        context.close()

    def runs(self, page: Page, is_meant: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """The runs that are meant, the newest first."""
        said = page.request.post(f"{self.ui}/graphql", data={"query": RUNS}).json()
        return [run for run in said["data"]["runsOrError"]["results"] if is_meant(run)]

    def ended(self, page: Page, is_meant: Callable[[dict[str, Any]], bool], *, ended: bool = True) -> str:
        """The newest run that is meant, when it has ended, or as soon as there is one."""
        while True:
            runs = self.runs(page, is_meant)
            if runs and (not ended or runs[0]["endTime"]):
                return str(runs[0]["id"])
            page.wait_for_timeout(1_000)


def tagged(tag: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a run has a tag."""
    return lambda run: tag in [each["key"] for each in run["tags"]]


def of_job(name: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a run is of a job."""
    return lambda run: run["jobName"] == name


def take(page: Page, name: str, *, left: int = 0, top: int = 0, bottom: int | None = None) -> None:
    """Take a picture of what the window shows, or of a part of it."""
    page.wait_for_timeout(SETTLE_MS)
    path, window = IMAGES / f"{name}.png", page.viewport_size or {"width": 0, "height": 0}
    height = (bottom or window["height"]) - top
    page.screenshot(path=path, clip={"x": left, "y": top, "width": window["width"] - left, "height": height})
    kept = path.stat().st_size
    print(f"{name}: {kept / 1000:.0f} kB" + (" TOO LARGE" if kept > BYTES_MAX else ""), flush=True)


@contextmanager
def walk(port: int) -> Iterator[Walk]:
    """A browser, closed at the end."""
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield Walk(browser, port)
        browser.close()
