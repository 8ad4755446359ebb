"""How error messages list names and suggest the one that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from headrace.errors import DescriptionError


def listed(names: Iterable[str]) -> str:
    """The names, separated by commas, in the order given."""
    return ", ".join(names) or "(none)"


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that looks most like `name` when case is ignored, or None when none is close."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint "Did you mean 'value'?", or None when no candidate is close."""
    match = closest(name, candidates)
    return f"Did you mean '{match}'?" if match else None


def a_value(value: object) -> str:
    """A wrong argument as an error shows it: its text and, unless it is text itself, its type."""
    text = repr(value)
    short = text if len(text) <= 80 else text[:77] + "..."
    return short if isinstance(value, str) else f"{short} ({type(value).__name__})"


def require_choice(what: str, value: object, choices: Collection[str], are: str = "there are") -> None:
    """Refuse an argument that is none of those that there are.

    In:     what  names the argument
            are   "modes are", for example
    Raises: DescriptionError that lists them
    """
    if value not in choices:
        raise DescriptionError(f"{what} {a_value(value)} does not exist; {are} {listed(choices)}.")
