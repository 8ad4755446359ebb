"""`headrace dev`: a project on this machine while it is written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.console.telling import console


def develop(
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A file with the settings of a deployment, NAME=value: its topics are read into a private lake, and "
            "every sink prints instead.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the Dagster UI.")] = 3000,
    ui: Annotated[bool, typer.Option(help="Start the Dagster UI.")] = True,
) -> None:
    """Run this project on this machine: a broker and sample traffic where no Kafka is configured, streams, Dagster's UI.

    A saved file is planned, applied, and runs; what changed is printed. Ctrl-C stops everything.
    """
    from headrace.local.development.dev import run_dev

    run_dev(port=port, source=source, ui=ui, console=console())


def demo(
    port: Annotated[int, typer.Option(help="Port of the Dagster UI.")] = 3000,
    rate: Annotated[float, typer.Option(help="Live records per second.")] = 200.0,
    fresh: Annotated[bool, typer.Option(help="Forget what an earlier demo left.")] = False,
    cluster: Annotated[
        bool, typer.Option(help="With a Spark cluster, the lake on S3, and Dagster's records in PostgreSQL.")
    ] = False,
) -> None:
    """Run a broker, a schema registry, traffic, the stream and the Dagster UI on this machine until Ctrl-C."""
    from headrace.local.demos.demo import run_demo

    run_demo(port=port, rate=rate, fresh=fresh, cluster=cluster, console=console())


def demo_once(
    records: Annotated[int, typer.Option(help="Readings to produce; other topics get their share.")] = 20_000,
) -> None:
    """Run the demo once without the UI: produce, stream, backfill, check, and print the tables and the proof."""
    from headrace.local.demos.demo_once import run_demo_once

    sys.exit(0 if run_demo_once(records=records, console=console()) else 1)
