"""`headrace dev`: a project on this machine while it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.telling import console


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
    from headrace.local.dev import run_dev

    run_dev(port=port, source=source, ui=ui, console=console())
