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
from headrace.cli.console.options import read_settings
from headrace.cli.console.telling import for_programs, report, show
from headrace.local.servers import lifeline
from headrace.settings import StreamSettings
from headrace.settings.streams import TRIGGER_LEAST_MS, TRIGGER_MOST_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.observe.metrics import MetricsEndpoint
    from headrace.streams.status.stream_status import StreamStatus
    from headrace.streams.stream_runtime import StreamRuntime
    from headrace.streams.trigger import FollowedTrigger

EVERY_SECONDS = 2.0
CAUGHT_UP_WITHIN_SECONDS = 24 * 3600.0


def run_streams(
    only: Annotated[
        list[str] | None,
        typer.Option(help="A query, as log/readings or stream/reading_counts_stream; all by default."),
    ] = None,
    until_caught_up: Annotated[bool, typer.Option(help="End when every record of Kafka is folded.")] = False,
    stream: Annotated[
        str, typer.Option(help="Name of this run, for headrace set-trigger and HEADRACE_STREAM_OVERRIDES.")
    ] = "streams",
    trigger_ms: Annotated[
        int | None,
        typer.Option(
            min=TRIGGER_LEAST_MS,
            max=TRIGGER_MOST_MS,
            help="Shortest time between two micro-batches, unless headrace set-trigger has set another.",
            show_default="HEADRACE_STREAM_TRIGGER_MS, or 1000",
        ),
    ] = None,
    standby: Annotated[
        bool | None,
        typer.Option(
            help="Wait for streams that another process writes, and take over when it ends.",
            show_default="HEADRACE_STREAM_STANDBY, or not",
        ),
    ] = None,
    deployment: Deployment = USUAL,
) -> None:
    """Run the streams of a pipeline without Dagster, until Ctrl-C. They finish their micro-batches before they end."""
    from headrace.observe.metrics import MetricsEndpoint
    from headrace.streams.trigger import FollowedTrigger

    given = {"trigger_ms": trigger_ms, "standby": standby}
    asked = {name: value for name, value in given.items() if value is not None}
    settings = read_settings(StreamSettings).of(stream).model_copy(update=asked)
    trigger = FollowedTrigger(deployment.lake, stream, settings.trigger_ms, warn=report)
    report("starting Spark and the streams; Ctrl-C ends them")
    runtime = open_runtime(deployment, only, trigger.now_ms(), settings.standby)
    lifeline.hear_signals()
    try:
        if until_caught_up:
            statuses = runtime.run_until_caught_up(CAUGHT_UP_WITHIN_SECONDS)
            show(table_of(statuses), *map(_facts, statuses))
        else:
            with MetricsEndpoint() as metrics:
                _show(runtime, trigger, metrics)
    except KeyboardInterrupt:
        report("stopping: the streams finish their micro-batches first")
    finally:
        runtime.drain(settings.drain_timeout_seconds)


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


def _show(runtime: StreamRuntime, trigger: FollowedTrigger, metrics: MetricsEndpoint) -> None:
    def polled() -> list[StreamStatus]:
        runtime.set_trigger(trigger.now_ms())
        statuses = runtime.poll()
        metrics.see(statuses)
        return statuses

    while for_programs() and not runtime.jvm_ended:
        for each in polled():
            report(each, _facts(each))
        time.sleep(EVERY_SECONDS)
    with Live(console=Console(), auto_refresh=False) as live:
        while not runtime.jvm_ended:  # `drain` raises when it has
            live.update(table_of(polled()), refresh=True)
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
