"""Errors that name the thing, its value and the fix, and that say whether a retry can help."""

from __future__ import annotations


class HeadraceError(Exception):
    """Any error that Headrace raises on purpose.

    In:  message  one line that names the thing and its value
         detail   what was found
         hint     what to do
    Out: `str()` is the message, then the detail and the hint on lines of their own.
    """

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        return "\n".join(line for line in (self.message, self.detail, self.hint) if line)


class TerminalError(HeadraceError):
    """A retry cannot help: a person has to change something first."""


class TransientError(HeadraceError):
    """A retry may help: something outside was not there, or was too slow."""


class DescriptionError(TerminalError, ValueError):
    """A topic, a stream or a node was described wrongly; raised while it is built."""
