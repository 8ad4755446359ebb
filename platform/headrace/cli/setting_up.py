"""`headrace fetch-jars`: what an installed Headrace needs beside its wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.telling import report
from headrace.local.fetch_jars import fetch_jars


def fetch(
    folder: Annotated[
        Path | None, typer.Argument(help="Where to put them. Default: $HEADRACE_JARS, or .headrace/jars.")
    ] = None,
) -> None:
    """Fetch the jars of Spark and of the local Kafka broker, and verify the digest of each."""
    found = fetch_jars(folder)
    report(f"The jars are in {found}.", folder=found)
