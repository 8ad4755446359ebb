"""`headrace config`: the settings in force, and whether all that they name can be reached."""

from __future__ import annotations

import sys

import typer
from pydantic_settings import BaseSettings

from headrace.cli.console.deployment import USUAL, Deployment
from headrace.cli.console.options import read_settings, with_options_of_groups
from headrace.cli.console.telling import report
from headrace.description.formats.registry_settings import RegistrySettings
from headrace.settings import (
    IcebergSettings,
    KafkaSettings,
    Settings,
    SparkSettings,
    StateSettings,
    StreamSettings,
)
from headrace.settings.alerts import SlackSettings, SmtpSettings

config = typer.Typer(no_args_is_help=True, help="Show the settings, and try what they name.")
SECTIONS: tuple[type[BaseSettings], ...] = (
    Settings,
    KafkaSettings,
    RegistrySettings,
    IcebergSettings,
    SlackSettings,
    SmtpSettings,
    SparkSettings,
    StateSettings,
    StreamSettings,
)


@config.command()
def show() -> None:
    """Print the settings as variables of the environment, with the values in force. Secrets are hidden."""
    for section in SECTIONS:
        prefix = section.model_config.get("env_prefix", "")
        for name, value in read_settings(section).model_dump().items():
            variable = f"{prefix}{name}".upper()
            report(f"{variable}={'' if value is None else value}", variable=variable, value=value)


@config.command()
@with_options_of_groups
def check(
    deployment: Deployment = USUAL,
) -> None:
    """Try Kafka, its topics and rights, registries, the lake, Spark and the databases. Exits 1 if something is wrong."""
    from headrace.preflight import check_configuration

    for section in SECTIONS:
        read_settings(section)
    well = True
    for finding in check_configuration(deployment.nodes, deployment.lake_root):
        report(
            typer.style(str(finding), fg=None if finding.ok else "red"), {"ok": finding.ok, **vars(finding)}
        )
        well &= finding.ok
    sys.exit(0 if well else 1)
