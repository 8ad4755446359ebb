"""`headrace run`: the streams of a pipeline in this process, without Dagster."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Column, Table

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.options import DEFAULTS
from headrace.cli.console.telling import for_programs, report, show
from headrace.local.servers import lifeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.streams.status.stream_status import StreamStatus
    from headrace.streams.stream_runtime import StreamRuntime

EVERY_SECONDS = 2.0
CAUGHT_UP_WITHIN_SECONDS = 24 * 3600.0


def run_streams(
    only: Annotated[
        list[str] | None,
        typer.Option(help="A query, as log/readings or stream/reading_counts_stream; all by default."),
    ] = None,
    until_caught_up: Annotated[bool, typer.Option(help="End when every record of Kafka is folded.")] = False,
    trigger_ms: Annotated[
        int, typer.Option(min=1, help="Shortest time between two micro-batches.")
    ] = DEFAULTS.trigger_ms,
    standby: Annotated[
        bool, typer.Option(help="Wait for streams that another process writes, and take over when it ends.")
    ] = DEFAULTS.standby,
    deployment: Deployment = USUAL,
) -> None:
    """Run the streams of a pipeline without Dagster, until Ctrl-C. They finish their micro-batches before they end."""
    report("starting Spark and the streams; Ctrl-C ends them")
    runtime = open_runtime(deployment, only, trigger_ms, standby)
    lifeline.hear_signals()
    try:
        if until_caught_up:
            statuses = runtime.run_until_caught_up(CAUGHT_UP_WITHIN_SECONDS)
            show(table_of(statuses), *map(_facts, statuses))
        else:
            _show(runtime)
    except KeyboardInterrupt:
        report("stopping: the streams finish their micro-batches first")
    finally:
        runtime.drain()


def open_runtime(
    deployment: Deployment, only: Sequence[str] | None, trigger_ms: int, standby: bool
) -> StreamRuntime:
    """The streams, with Spark and Kafka as the environment says."""
    from headrace.spark.kafka import KafkaSettings
    from headrace.streams.stream_runtime import StreamRuntime

    return StreamRuntime(
        deployment.session(),
        deployment.lake,
        deployment.nodes,
        kafka=KafkaSettings(),
        only=only or None,
        trigger_ms=trigger_ms,
        standby=standby,
    )


def _facts(status: StreamStatus) -> dict[str, Any]:
    return {"asset": status.asset, **asdict(status)}


def _show(runtime: StreamRuntime) -> None:
    while for_programs() and not runtime.jvm_ended:
        for each in runtime.poll():
            report(each, _facts(each))
        time.sleep(EVERY_SECONDS)
    with Live(console=Console(), auto_refresh=False) as live:
        while not runtime.jvm_ended:  # `drain` raises when it has
            live.update(table_of(runtime.poll()), refresh=True)
            time.sleep(EVERY_SECONDS)


def table_of(statuses: Sequence[StreamStatus]) -> Table:
    """The queries as a table for people."""
    query = Column("query", no_wrap=True, min_width=max((len(each.asset) for each in statuses), default=0))
    shown = Table(query, "state", "records", "a second", "waiting", "seconds behind", "error", box=None)
    for each in statuses:
        shown.add_row(
            each.asset,
            each.state,
            f"{each.rows_total:,}",
            f"{each.rows_per_second:,.0f}",
            "" if each.lag_records is None else f"{each.lag_records:,}",
            "" if each.lag_seconds is None else f"{each.lag_seconds:.1f}",
            (each.error or "").partition("\n")[0],
        )
    return shown
