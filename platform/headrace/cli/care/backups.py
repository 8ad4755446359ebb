"""`headrace backup` and `headrace restore`: a copy of a lake, and a lake from a copy."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.long_work import long_work
from headrace.cli.console.options import DEFAULTS, Root
from headrace.cli.console.telling import report


def back_lake_up(
    target: Annotated[str, typer.Argument(help="URI of an empty place, such as s3://backups/2026-11-29.")],
    deployment: Deployment = USUAL,
) -> None:
    """Copy the lake while its streams run. The copy is as after a crash, so a stream that starts on it goes on."""
    from headrace.lifecycle.backup import back_up

    with long_work("backing up", 1) as work:
        work.begin(f"copying '{deployment.lake_root}' to '{target}'")
        done = back_up(deployment.lake, deployment.nodes, target.rstrip("/"), work.reach)
    report(f"Backed up to '{target}': {done}.", vars(done))


def restore_lake(
    source: Annotated[str, typer.Argument(help="URI that `headrace backup` was given.")],
    lake: Root = DEFAULTS.lake,
) -> None:
    """Copy a backup to an empty lake. Start the streams afterwards, and verify; an interrupted one goes on if repeated."""
    from headrace.lake.paths import Lake
    from headrace.lifecycle.backup import restore

    with long_work("restoring", 1) as work:
        work.begin(f"copying '{source}' to '{lake}'")
        done = restore(source.rstrip("/"), Lake(lake), work.reach)
    report(f"Restored to '{lake}': {done}.", vars(done))
