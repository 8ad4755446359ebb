"""The finding of one trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.errors import HeadraceError


@dataclass(frozen=True)
class Finding:
    """One thing that was tried.

    what  as people name it
    result  what was found
    fix   what to do; None: it is as it should be
    """

    what: str
    result: str
    fix: str | None = None

    @property
    def ok(self) -> bool:
        """True if nothing has to be done."""
        return self.fix is None

    def __str__(self) -> str:
        """One line, and a second with the fix."""
        line = f"{'ok    ' if self.ok else 'WRONG '} {self.what}: {self.result}"
        return line if self.ok else f"{line}\n        {self.fix}"


def tried(what: str, trial: Callable[[], str]) -> Finding:
    """Run a trial. In: trial  gives what it has found, and raises an error of ours when that is wrong."""
    try:
        return Finding(what, trial())
    except HeadraceError as error:
        said = " ".join(part for part in (error.message, error.detail) if part)
        return Finding(what, said, error.hint or "See the message.")
    except OSError as error:  # of this machine's disk
        return Finding(
            what, str(error), "Correct the path, or give this process the right to read and write there."
        )
