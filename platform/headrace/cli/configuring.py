"""`headrace config`: which settings hold, and whether all that they name is there."""

from __future__ import annotations

import sys
from typing import TypeVar

import typer
from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsError

from headrace.cli.options import DEFAULTS, Pipeline, Root
from headrace.description.formats.registry_settings import RegistrySettings
from headrace.errors import TerminalError
from headrace.settings import KafkaSettings, Settings, SparkSettings, StreamSettings, load_pipeline
from headrace.settings.alerts import SlackSettings, SmtpSettings

config = typer.Typer(no_args_is_help=True, help="Show the settings, and try what they name.")
S = TypeVar("S", bound=BaseSettings)
SECTIONS: tuple[type[BaseSettings], ...] = (
    Settings,
    KafkaSettings,
    RegistrySettings,
    SlackSettings,
    SmtpSettings,
    SparkSettings,
    StreamSettings,
)


@config.command()
def show() -> None:
    """Print every setting as a variable of the environment, with the value that holds; secrets are hidden."""
    for section in SECTIONS:
        prefix = section.model_config.get("env_prefix", "")
        for name, value in _read(section).model_dump().items():
            typer.echo(f"{prefix}{name}".upper() + f"={'' if value is None else value}")


@config.command()
def check(
    pipeline: Pipeline = DEFAULTS.pipeline,
    lake: Root = DEFAULTS.lake,
) -> None:
    """Try Kafka, its topics and rights, the lake, Spark and the databases. Exits 1 when something is wrong."""
    from headrace.preflight import check_configuration

    for section in SECTIONS:
        _read(section)
    well = True
    for finding in check_configuration(load_pipeline(pipeline), lake):
        typer.secho(str(finding), fg=None if finding.ok else "red")
        well &= finding.ok
    sys.exit(0 if well else 1)


def _read(section: type[S]) -> S:
    """The settings of a class.

    Raises: TerminalError naming each variable whose value is wrong
    """
    prefix = section.model_config.get("env_prefix", "")
    try:
        return section()
    except ValidationError as error:
        wrong = "; ".join(f"{prefix}{each['loc'][0]}".upper() + f": {each['msg']}" for each in error.errors())
    except SettingsError as error:
        wrong = str(error)
    raise TerminalError(
        "A setting has a value that it does not take.",
        detail=wrong,
        hint="docs/settings.md says what each variable takes.",
    )
