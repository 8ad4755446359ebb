"""How a part of `headrace dev` ends by an error: a person reads the error's words, and no stack trace."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.local.servers.server import tail_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MARK = "error: "


def run_part(part: Callable[..., None], *arguments: str) -> None:
    """Run a part as a process; an error of Headrace ends it with code 1 and the error's words."""
    try:
        part(*arguments)
    except HeadraceError as error:
        print(f"{MARK}{error}", file=sys.stderr, flush=True)
        sys.exit(1)


def last_words(log: Path, code: int = 1) -> str:
    """Why a part ended: the error with which its log ends, the signal that ended it, else the last lines of its log.

    In: code  its exit code; of a signal the negative number
    """
    text = log.read_text(errors="replace") if log.exists() else ""
    _, mark, words = f"\n{text}".rpartition(f"\n{MARK}")
    if mark:
        return words.strip()
    if code >= 0:
        return tail_of(log)
    name = signal.Signals(-code).name
    why = (
        ": a person or the machine ended it, for example because memory was short"
        if code == -signal.SIGKILL
        else ""
    )
    return f"Signal {name} ended the process{why}."
