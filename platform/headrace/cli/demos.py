"""`headrace demo` and `headrace demo-once`: everything on this machine."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli.telling import console


def demo(
    port: Annotated[int, typer.Option(help="Port of the Dagster UI.")] = 3000,
    rate: Annotated[float, typer.Option(help="Live records per second.")] = 200.0,
    fresh: Annotated[bool, typer.Option(help="Forget what an earlier demo left.")] = False,
    cluster: Annotated[
        bool, typer.Option(help="With a Spark cluster, the lake on S3, and Dagster's records in PostgreSQL.")
    ] = False,
) -> None:
    """Run a broker, a schema registry, traffic, the stream and the Dagster UI on this machine until Ctrl-C."""
    from headrace.local.demo import run_demo

    run_demo(port=port, rate=rate, fresh=fresh, cluster=cluster, console=console())


def demo_once(
    records: Annotated[int, typer.Option(help="Readings to produce; other topics get their share.")] = 20_000,
) -> None:
    """Run the demo once without the UI: produce, stream, backfill, check, and print the tables and the proof."""
    from headrace.local.demo_once import run_demo_once

    sys.exit(0 if run_demo_once(records=records, console=console()) else 1)
