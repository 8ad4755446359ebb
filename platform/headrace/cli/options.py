"""Options that commands share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsError

from headrace.settings import Settings, StreamSettings
from headrace.settings.environment import refused

Pipeline = Annotated[
    str,
    typer.Option(
        envvar="HEADRACE_PIPELINE",
        help="Module that defines the nodes.",
        show_default="tool.headrace.pipeline of pyproject.toml, or assets",
    ),
]
Root = Annotated[
    str,
    typer.Option(
        "--lake",
        envvar="HEADRACE_LAKE",
        help="Root URI of all tables.",
        show_default=".headrace/lake of the working directory",
    ),
]
S = TypeVar("S", bound=BaseSettings)


def read_settings(section: type[S], **overrides: Any) -> S:
    """Read the settings of a class from the environment.

    In:     overrides  values that are not read
    Raises: TerminalError naming each variable whose value is wrong
    """
    try:
        return section(**overrides)
    except (ValidationError, SettingsError) as error:  # of a class that is no `EnvironmentSettings`
        raise refused(section, error) from None


# Typer calls a default that is a function, once a command needs it. So `--help` works where `pyproject.toml` or a variable
# of the environment is broken, and the command that needs it says what is wrong.
DEFAULTS = SimpleNamespace(
    pipeline=lambda: read_settings(Settings).pipeline,
    lake=lambda: read_settings(Settings, pipeline="not read").lake,
    trigger_ms=lambda: read_settings(StreamSettings).trigger_ms,
    standby=lambda: read_settings(StreamSettings).standby,
)
