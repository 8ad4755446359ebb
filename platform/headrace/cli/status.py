"""`headrace status`: where each log and node stands, as a table that stays current."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from headrace.cli.options import DEFAULTS, Pipeline, Root
from headrace.cli.telling import for_programs, show
from headrace.errors import TerminalError
from headrace.settings import load_pipeline
from headrace.settings.pipeline import default_lake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.observe.standing import Standing

EVERY_SECONDS = 2.0


def show_status(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show it again every two seconds.")] = False,
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Show how far each log and node is, by its last commit. It starts no Spark and no stream."""
    from headrace.lake.format import is_known
    from headrace.lake.paths import Lake
    from headrace.log.clock import SystemClock
    from headrace.observe.standing import standings

    nodes, root, clock = load_pipeline(pipeline), Lake(lake), SystemClock()
    if not is_known(root.root) and lake != default_lake():
        raise TerminalError(
            f"There is no lake at {root.root}.",
            hint="Name the one that a stream writes, by --lake or HEADRACE_LAKE; a demo prints its own as it starts.",
        )
    while for_programs() or not follow:
        found = standings(root, nodes, clock)
        show(table_of(found), *found)
        if not follow:
            return
        time.sleep(EVERY_SECONDS)
    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            live.update(table_of(standings(root, nodes, clock)), refresh=True)
            time.sleep(EVERY_SECONDS)


def table_of(found: Sequence[Standing]) -> Table:
    """The standings as a table for people."""
    shown = Table("asset", "state", "commits", "read through", "stream time", "behind", "records", box=None)
    for each in found:
        counts = ", ".join(
            f"{number:,} {fate.replace('_', ' ')}" for fate, number in (each.records or {}).items()
        )
        shown.add_row(
            each.asset,
            _state(each),
            f"{each.commits:,}",
            _time(each.through_ms),
            _time(each.stream_ms),
            "" if each.behind_ms is None else f"{each.behind_ms / 1000:.1f} s",
            counts,
        )
    return shown


def _state(of: Standing) -> str:
    state = "paused" if of.paused else "running" if of.running else "stopped"
    return f"{state}, waits for {', '.join(of.waits_for)}" if of.waits_for else state


def _time(at_ms: int | None) -> str:
    return "" if at_ms is None else f"{dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC):%Y-%m-%d %H:%M:%S}"
