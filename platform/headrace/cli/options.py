"""Options that commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.settings import Settings

Pipeline = Annotated[str, typer.Option(envvar="HEADRACE_PIPELINE", help="Module that defines the nodes.")]
Root = Annotated[str, typer.Option("--lake", envvar="HEADRACE_LAKE", help="Root URI of all tables.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object a line.")]
DEFAULTS = Settings()
