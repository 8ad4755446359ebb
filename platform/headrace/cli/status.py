"""`headrace status`: where each log and node stands, as a table that stays current."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.telling import for_programs, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.observe.standing import Standing

EVERY_SECONDS = 2.0


def show_status(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show it again every two seconds.")] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Show how far each log and node is, by its last commit. It starts no Spark and no stream."""
    from headrace.log.clock import SystemClock
    from headrace.observe.standing import standings

    nodes, root, clock = deployment.nodes, deployment.lake, SystemClock()
    deployment.require_lake()
    while for_programs() or not follow:
        found = standings(root, nodes, clock)
        show(shown_of(found), *found)
        if not follow:
            return
        time.sleep(EVERY_SECONDS)
    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            live.update(shown_of(standings(root, nodes, clock)), refresh=True)
            time.sleep(EVERY_SECONDS)


def table_of(standings: Sequence[Standing]) -> Table:
    """The standings as a table for people."""
    from headrace.changing.plan import in_bytes

    asset = Column("asset", no_wrap=True, min_width=max((len(each.asset) for each in standings), default=0))
    others = ("state", "commits", "read through", "stream time", "behind", "records", "state")
    shown = Table(asset, *(Column(name, overflow="fold") for name in others), box=None)
    for each in standings:
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
            "" if each.state_bytes is None else in_bytes(each.state_bytes),
        )
    return shown


def shown_of(standings: Sequence[Standing]) -> Group:
    """The table, and below it what a person asks next: errors, what is waited for, and how to see what was counted."""
    return Group(table_of(standings), *(Text(line) for each in standings for line in remarks_on(each)))


def remarks_on(of: Standing) -> Iterator[str]:
    """Lines about one asset: its last error, why its table is empty, its waits, and the commands behind its counts."""
    from headrace.changing.plan import in_bytes
    from headrace.fold.fates import FATES, KEPT, USED
    from headrace.nodes.standing.emptiness import command_for

    if of.last_error is not None:
        yield f"{of.asset} failed at {_time(of.last_error.at_ms)} and has not committed since: {of.last_error.error}"
    if of.empty is not None:
        yield f"{of.asset} has no rows: {of.empty}"
    if of.reads.get("state_rows_read"):
        near = of.reads["state_rows_near"] / of.reads["state_rows_read"]
        remembered, copied = (in_bytes(of.reads[f"state_{each}_bytes"]) for each in ("remembered", "copied"))
        yield (
            f"{of.asset}: {near:.0%} of the rows that it has read of its state since it was opened were near; "
            f"its process has {remembered} of rows in memory, and {copied} of local copies"
        )
    for wait in of.waits:
        if of.empty is None or wait.in_words not in of.empty:
            yield f"{of.asset}: {wait}"
    counted = [
        (fate, n)
        for fate, n in (of.records or {}).items()
        if fate in FATES and n and fate not in (KEPT, USED)
    ]
    if counted and of.empty is None:
        commands = (f"{n:,} {fate.replace('_', ' ')}: {command_for(of.name, fate)}" for fate, n in counted)
        yield f"{of.asset}: {'; '.join(commands)}"


def _state(of: Standing) -> str:
    state = "paused" if of.paused else "running" if of.running else "stopped"
    if of.last_error is not None and not of.paused:
        state = "failing" if of.running else "stopped, failed"
    return f"{state}, waits for {', '.join(of.incomplete)}" if of.incomplete else state


def _time(at_ms: int | None) -> str:
    return "" if at_ms is None else f"{dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC):%Y-%m-%d %H:%M:%S}"
