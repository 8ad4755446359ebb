"""How commands print: sentences for people, or with `--json` one JSON object a line for programs.

Every command has the option `--json` (see `take_json`), and prints through `report`, or by lines through `console`.
"""

from __future__ import annotations

import base64
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from functools import wraps
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console

from headrace.cli.console.unexpected import DEBUG
from headrace.errors import HeadraceError, TransientError

if TYPE_CHECKING:
    from rich.console import RenderableType

AsJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object a line.")]
PIPED_COLUMNS = 200  # where no terminal says how wide it is
_JSON: ContextVar[bool] = ContextVar("json", default=False)


def take_json(app: typer.Typer) -> None:
    """Give every command the option `--json`, those of groups below it, too; once is enough."""
    for command in app.registered_commands:
        if command.callback is not None and "as_json" not in inspect.signature(command.callback).parameters:
            command.callback = _taking_json(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            take_json(group.typer_instance)


def for_programs() -> bool:
    """True if the command that runs was given `--json`."""
    return _JSON.get()


def report(words: object, facts: Mapping[str, Any] | None = None, /, **named: Any) -> None:
    """Print a sentence, or with `--json` its facts.

    In: words         what people read, by its `str()`
        facts, named  what programs read; neither: the fields of `words` if it is a dataclass. A sentence without facts
                      prints nothing for programs
    """
    if not for_programs():
        typer.echo(str(words))
    elif facts is not None or named:
        typer.echo(json_line({**(facts or {}), **named}))
    elif is_dataclass(words) and not isinstance(words, type):
        typer.echo(json_line(asdict(words)))


def show(table: RenderableType, *facts: Any) -> None:
    """Print a table, or with `--json` one object for each of the facts: dataclasses, or dictionaries."""
    if not for_programs():
        Console(width=None if sys.stdout.isatty() else PIPED_COLUMNS).print(table)
        return
    for each in facts:
        typer.echo(json_line(each if isinstance(each, dict) else asdict(each)))


def console() -> Console:
    """A console for longer stories; with `--json` each line of its text is an object `{"said": …}`."""
    if not for_programs():
        return Console()
    lines = cast("IO[str]", _JsonLines())
    return Console(file=lines, width=200, force_terminal=False, color_system=None)


def report_error(error: HeadraceError) -> None:
    """Print an error of ours to stderr: in red, or with `--json` as an object with `error`, `detail`, `hint` and `retry`.

    It may come before the command has begun, from an option's default. So the words of the command line are asked.
    """
    if "--json" not in sys.argv[1:]:
        typer.secho(str(error), fg="red", err=True)
        return
    retry = isinstance(error, TransientError)
    typer.echo(
        json_line({"error": error.message, "detail": error.detail, "hint": error.hint, "retry": retry}),
        err=True,
    )


def _taking_json(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def run(*values: Any, as_json: bool = False, **options: Any) -> Any:
        before = _JSON.set(as_json)
        try:
            return command(*values, **options)
        finally:
            _JSON.reset(before)

    described = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
    parameters = [*described.parameters.values(), option]
    run.__signature__ = described.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def json_line(facts: Any) -> str:
    """The facts as one line of JSON; bytes in Base64, times and other values as text."""
    return json.dumps(facts, default=_as_text, ensure_ascii=False)


def _as_text(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


class _JsonLines:
    """A file for text, which prints each full line as an object."""

    def __init__(self) -> None:
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.strip():
                sys.stdout.write(json_line({"said": line.rstrip()}) + "\n")
        return len(text)

    def flush(self) -> None:
        sys.stdout.flush()


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
