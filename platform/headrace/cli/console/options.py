"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from inspect import Parameter, Signature, signature
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsError

from headrace.settings import Settings
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


def with_options_of_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command for Typer. Each field of a parameter that is a dataclass becomes an option, in its place."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: get_type_hints(of, include_extras=True) for name, of in hints.items() if is_dataclass(of)}
    parameters = list[Parameter]()
    for each in signature(command).parameters.values():
        options = groups.get(each.name, {})
        parameters += [
            each.replace(name=name, annotation=of, default=getattr(hints[each.name], name))
            for name, of in options.items()
        ] or [each.replace(annotation=hints[each.name])]

    def flat(**values: Any) -> Any:
        made = {name: hints[name](**{each: values.pop(each) for each in of}) for name, of in groups.items()}
        return command(**made, **values)

    flat.__name__, flat.__doc__, flat.__module__ = command.__name__, command.__doc__, command.__module__
    flat.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(flat)["__signature__"] = Signature(parameters)
    return flat


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
)
