"""The place in an expression that an error is about, marked below its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import DescriptionError
from headrace.expressions.functions import tokens_of

LETTERS_MAX = 100  # of a line that is shown


@contextmanager
def pointing(sql: str, name: str) -> Iterator[None]:
    """Mark a name of an expression in the errors of the body that mark nothing yet."""
    try:
        yield
    except DescriptionError as error:
        if error.detail is None:
            error.detail = marked_name(sql, name)
        raise


def marked_name(sql: str, name: str) -> str | None:
    """The line with the first word of that name, and carets below it; None: there is none, as in another spelling."""
    token = next((each for each in tokens_of(sql) if each.text.lower() == name.lower()), None)
    return None if token is None else marked(sql, token.start, token.end - token.start + 1)


def marked(sql: str, start: int, letters: int = 1) -> str:
    """The line that holds a place, and carets below it. In: start  counts from 0."""
    begin = sql.rfind("\n", 0, start) + 1
    line, at = sql[begin:].split("\n", 1)[0], start - begin
    if len(line) > LETTERS_MAX:
        first = max(0, at - LETTERS_MAX // 2)
        line, at = line[first : first + LETTERS_MAX], at - first
    letters = max(1, min(letters, len(line) - at))
    return f"    {line}\n    {' ' * at}{'^' * letters}"
