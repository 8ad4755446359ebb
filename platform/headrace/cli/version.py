"""The options before a command: `headrace --version`, and `headrace --debug`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from headrace.cli.telling import report
from headrace.cli.unexpected import DEBUG


def _print_version(wanted: bool) -> None:
    if wanted:
        from headrace import __version__

        report(f"headrace {__version__}", version=__version__)
        raise typer.Exit


def options_of_all(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar=DEBUG, help="Print the stack trace of an error, too.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""
    if debug:
        os.environ[DEBUG] = "1"
