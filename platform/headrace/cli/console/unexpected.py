"""Errors that Headrace did not raise on purpose: a person reads sentences, and the stack trace goes into a file."""

from __future__ import annotations

import os
import tempfile
import traceback

from headrace.errors import TerminalError
from headrace.settings.pipeline import place_in_pipeline

DEBUG = "HEADRACE_DEBUG"
WORDS_MAX = 300  # of an error's text: Spark's go on for pages


def unexpected(error: Exception) -> TerminalError:
    """The error as a person reads it: its words, the line of the pipeline that led to it, and where its trace is."""
    words = " ".join(str(error).strip().partition("\n")[0].split())[:WORDS_MAX]
    place, trace = place_in_pipeline(error), _written(error)
    return TerminalError(
        f"An error that Headrace did not expect: {type(error).__name__}{': ' if words else ''}{words}",
        detail="\n".join(filter(None, [place, f"Its stack trace is in {trace}." if trace else None])) or None,
        hint=(
            "Correct this line of the pipeline"
            if place
            else "Try again; if it comes again, report it with the trace"
        )
        + f". {DEBUG}=1 prints the trace here.",
    )


def print_trace_if_asked(error: Exception) -> None:
    """Print the stack trace of an error to stderr, if HEADRACE_DEBUG is set."""
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        traceback.print_exception(error)


def _written(error: Exception) -> str | None:
    """A file with the stack trace, which other users cannot read; None: there is no place for one."""
    try:
        handle, path = tempfile.mkstemp(prefix="headrace-trace-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        return None
    return path
