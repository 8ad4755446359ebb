"""`headrace dev`: a project on this machine while it is written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.console.telling import console
from headrace.errors import TerminalError


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
    """Run a broker, a schema registry, traffic, the stream and the Dagster UI, in Headrace's checkout, until Ctrl-C."""
    from headrace.local.demos.demo import run_demo

    _require_checkout()
    run_demo(port=port, rate=rate, fresh=fresh, cluster=cluster, console=console())


def demo_once(
    records: Annotated[int, typer.Option(help="Readings to produce; other topics get their share.")] = 20_000,
) -> None:
    """Run the demo once without the UI, in Headrace's checkout: stream, backfill, check, and print tables and proof."""
    from headrace.local.demos.demo_once import run_demo_once

    _require_checkout()
    sys.exit(0 if run_demo_once(records=records, console=console()) else 1)


def _require_checkout() -> None:
    """Refuse a demo where its pipelines, its traffic and Dagster's settings are not: they are no part of the package."""
    from headrace.spark.jars import project_root

    if not (project_root() / "deploy" / "local" / "dagster.yaml").is_file():
        raise TerminalError(
            "The demo runs in a checkout of Headrace alone: the package does not have its pipelines.",
            hint="In a project of `headrace new` run `make demo` or `headrace dev`.",
        )
