"""`headrace mirror`: the Iceberg mirror brought up to date, or checked, without a stream."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.telling import report
from headrace.errors import TerminalError


def mirror_tables(
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare each mirror with its table instead; exit 1 if one differs."),
    ] = False,
    deployment: Deployment = USUAL,
) -> None:
    """Bring the Iceberg mirror of all tables up to date. A stream does it by itself; it may run meanwhile.

    Exits 1 if a table cannot be mirrored; the others are.
    """
    from headrace.lake import exists
    from headrace.mirror.equality import iceberg_equals_delta
    from headrace.mirror.mirrors import Mirrors
    from headrace.nodes.descriptions.topics import topics_of

    deployment.require_lake()
    mirrors, nodes = Mirrors(deployment.lake), deployment.nodes
    if mirrors.settings.uri is None:
        raise TerminalError(
            "No Iceberg catalog is named.", hint="Set HEADRACE_ICEBERG_URI; see docs/guides/iceberg.md."
        )
    assets = [*(f"log/{name}" for name in topics_of(nodes)), *(node.required_name for node in nodes)]
    well = True
    for asset in assets:
        mirror = mirrors.of(asset)
        if mirror is None or not exists(mirror.uri):
            continue
        if check:
            answer = iceberg_equals_delta(mirror)
            report(f"{asset}: {answer.sentence}", {"asset": asset, **asdict(answer)})
            well &= answer.equal
        else:
            try:
                done = mirror.follow(mirrors.settings.snapshots_hours)
            except TerminalError as error:
                report(f"{asset}: {error}", {"asset": asset, "error": str(error)})
                well = False
                continue
            found = mirror.mirrored()
            assert found is not None
            known = {"table": mirror.name, "metadata": found[0].metadata_location}
            told = f"{asset}: equals version {done.version}; {done.added} files came, {done.removed} left."
            report(
                f"{told}\n  {known['table']}: {known['metadata']}", {"asset": asset, **asdict(done), **known}
            )
    if not well:
        raise typer.Exit(1)
