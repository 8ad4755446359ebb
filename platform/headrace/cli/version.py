"""`headrace --version`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.telling import report


def _print_version(wanted: bool) -> None:
    if wanted:
        from headrace import __version__

        report(f"headrace {__version__}", version=__version__)
        raise typer.Exit


def options_of_all(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""
