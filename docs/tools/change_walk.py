"""The step of `make tour` that changes the demo's grace, reads the plan, applies it, and goes back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from docs.tools.walk import MENU, of_job, tagged, take

if TYPE_CHECKING:
    from docs.tools.walk import Walk

SOURCE = Path(__file__).parents[2] / "assets" / "readings.py"
BEFORE, AFTER = 'grace="2 minutes"', 'grace="5 minutes"'
JOBS = "/locations/__repository__@headrace/jobs"


def change(walk: Walk, sensor: str) -> None:
    """Change the grace in the code, plan, apply, and start the stream with the new code; then go back in the same way.

    In: sensor  path of the page of the sensor that keeps the stream running
    """
    with _other_grace():
        reload_code(walk)
        with walk.page(f"/runs/{launched(walk, 'plan_changes')}?levels=info", (1280, 900)) as page:
            page.get_by_text(re.compile("grace: 2 minutes -> 5 minutes")).first.wait_for()
            take(page, "plan", left=MENU, top=320, bottom=660)
        run = launched(walk, "apply_changes")
        with walk.page(f"/runs/{run}?levels=info", (1280, 1140)) as page:
            page.get_by_text(re.compile("rows became")).first.wait_for()
            take(page, "apply", left=MENU, top=430, bottom=900)
        restart_stream(walk, sensor)
        back = launched(walk, "roll_back_changes")
        with walk.page(f"/runs/{back}?levels=info", (1280, 900)) as page:
            page.get_by_text("the former tables are back").first.wait_for()
            take(page, "back", left=MENU, top=320, bottom=660)
    reload_code(walk)
    restart_stream(walk, sensor)


@contextmanager
def _other_grace() -> Iterator[None]:
    text = SOURCE.read_text()
    if BEFORE not in text:
        raise LookupError(f"{SOURCE.name} has no {BEFORE} to change.")
    SOURCE.write_text(text.replace(BEFORE, AFTER))
    try:
        yield
    finally:
        SOURCE.write_text(text)


def reload_code(walk: Walk) -> None:
    """Let the code location read the code again, as one does in the UI after a change."""
    with walk.page("/locations") as page:
        page.locator("button", has_text=re.compile("^Reload$")).first.click()
        page.get_by_text("Code location reloaded").first.wait_for()


def launched(walk: Walk, job: str) -> str:
    """Launch a job in the UI's launchpad. Out: its run, when it has ended."""
    with walk.page(f"{JOBS}/{job}/playground") as page:
        known = len(walk.runs(page, of_job(job)))
        page.get_by_role("button", name="Launch run").click()
        while len(walk.runs(page, of_job(job))) == known:
            page.wait_for_timeout(1_000)
        return walk.ended(page, of_job(job))


def terminate_stream(walk: Walk) -> None:
    """Terminate the stream's run, and wait until it has ended."""
    with walk.page("/runs") as page:
        run = walk.ended(page, tagged("headrace/stream"), ended=False)
        page.goto(f"{walk.ui}/runs/{run}")
        page.get_by_role("button", name="Terminate").click()
        page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
        walk.ended(page, tagged("headrace/stream"))


def restart_stream(walk: Walk, sensor: str) -> None:
    """Terminate the stream's run, switch its sensor off and on, and wait for the next run."""
    terminate_stream(walk)
    with walk.page(sensor) as page:
        switch = page.get_by_role("checkbox").first
        for _ in range(2):
            switch.evaluate("box => box.click()")
            page.wait_for_timeout(2_000)
        while walk.runs(page, tagged("headrace/stream"))[0]["endTime"]:
            page.wait_for_timeout(1_000)
