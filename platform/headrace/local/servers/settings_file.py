"""The settings that reach what runs on this machine, as a file that a second terminal reads."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "settings.env"
LINE = re.compile(
    r"""[ \t]*
    (?:(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)=(?P<value>(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*)(?=\s|\Z)[ \t]*)?
    (?:\#[^\n]*)?(?:\n|\Z)""",
    re.DOTALL | re.VERBOSE,
)


def write_settings(home: Path, settings: Mapping[str, str]) -> Path:
    """Write the settings for shells. Other users cannot read the file, for it may hold passwords."""
    path = home / NAME
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.writelines(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())
    return path


def read_settings_file(path: Path) -> dict[str, str]:
    """The variables of a file of NAME=value, as a shell reads it: with quotes, also over lines, and with comments.

    Nothing is expanded: `$` is an ordinary character.
    Raises: TerminalError when the file cannot be read, or a line is none of these
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TerminalError(f"The settings '{path}' cannot be read.", detail=str(error)) from None
    settings: dict[str, str] = {}
    text, at = text.replace("\r\n", "\n"), 0
    while at < len(text):
        line = LINE.match(text, at)
        if line is None:
            raise TerminalError(
                f"The settings '{path}': line {text.count(chr(10), 0, at) + 1} is no NAME=value.",
                hint="Write HEADRACE_LAKE=file:/…, and quote a value with blanks.",
            )
        if line["name"] is not None:
            settings[line["name"]] = "".join(shlex.split(line["value"]))
        at = line.end()
    return settings


def second_terminal(path: Path) -> str:
    """The line that gives these settings to a shell, and the commands that follow."""
    return f"In a second terminal: set -a; . {shlex.quote(str(path))}; set +a; {_command()} status"


def _command() -> str:
    """The command by which a shell runs this Headrace: its path, unless the shell finds the same by its name."""
    own = Path(sys.executable).with_name("headrace")
    named = shutil.which("headrace")
    return shlex.quote(str(own)) if own.exists() and (named is None or Path(named) != own) else "headrace"
