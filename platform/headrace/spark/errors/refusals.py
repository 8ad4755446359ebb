"""Spark refuses an expression whose types it alone knows: the error names the node, the step, the text and the fix.

Spark reads a step when its frame is made, before a row is computed. Its own error ends with a plan, which helps nobody.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from headrace.description import Select, Transform, Where, WithColumn
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.description import Node, Step

_CODE = re.compile(r"^\[[\w.]+\] *")
_REST = re.compile(r" *SQLSTATE: .*|; line \d+.*", re.DOTALL)
HINT = "Correct the expression; a type can be stated by CAST(… AS …)."


@contextmanager
def refusals_explained(what: str) -> Iterator[None]:
    """Raise DescriptionError where Spark refuses an expression. In: what  the step, as its person wrote it."""
    try:
        yield
    except AnalysisException as error:
        first = _REST.sub("", _CODE.sub("", str(error).strip())).strip()
        raise DescriptionError(f"{what}: Spark refuses it.", detail=first, hint=HINT) from None


@contextmanager
def refusals_of(node: Node) -> Iterator[None]:
    """Name the node in the error of a step."""
    try:
        yield
    except DescriptionError as error:
        name = "A step without a name" if node.name is None else f"Node '{node.name}'"
        raise DescriptionError(f"{name}: {error.message}", detail=error.detail, hint=error.hint) from None


def in_words(step: Step) -> str:
    """A step as it was written."""
    match step:
        case Where(expression):
            return f"where({expression!r})"
        case WithColumn(name, expression):
            return f"with_column({name!r}, {expression!r})"
        case Select(expressions):
            return f"select({', '.join(map(repr, expressions))})"
        case Transform(function):
            return f"transform({getattr(function, '__name__', 'function')})"
