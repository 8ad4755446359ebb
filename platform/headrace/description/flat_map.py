"""The step that makes an array of one record, each element of which becomes a row of its own."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import Token, TokenType

from headrace.description.expression_types import type_in
from headrace.description.expressions import Expression, parse_expression
from headrace.description.known_types import require_expression
from headrace.description.schema import Column, refuse_repeats, refuse_reserved
from headrace.description.shape import Shape
from headrace.description.steps import WithColumn
from headrace.errors import DescriptionError
from headrace.expressions.functions import tokens_of

EXPLODE = "explode"
_WHAT = "flat_map"


@dataclass(frozen=True)
class FlatMap(WithColumn):
    """Make the array of a record, as a column. It is the last step before the operator that gives its elements.

    In: expression  SQL of the type ARRAY with its name, without `explode`
    """

    def __post_init__(self) -> None:
        refuse_reserved([self.name], _WHAT)

    @classmethod
    def of(cls, sql: str, shape: Shape) -> FlatMap:
        """The step of an expression, as `flat_map` takes it.

        Raises: DescriptionError when it cannot be read, has no name, or is known to give no array
        """
        written = without_explode(sql)
        parsed = parse_expression(written, _WHAT)
        if not parsed.name:
            raise DescriptionError(f"{_WHAT}: {sql!r} has no name.", hint=f"Add a name: {sql} AS word.")
        require_expression(parsed, shape, f"{_WHAT}({sql!r})")
        found = type_in(written, shape.types.values())
        if found is not None and element_of(found) is None:
            raise DescriptionError(
                f"{_WHAT}: {sql!r} is {found}, not an array.",
                hint="Give an expression of the type ARRAY, for example \"split(text, ' ') AS word\".",
            )
        return cls(parsed.name, written)

    def applied_to(self, shape: Shape) -> Shape:
        """The columns with that of the elements; its type is known where that of the array is."""
        types = {name: column for name, column in shape.types.items() if name.lower() != self.name.lower()}
        found = type_in(self.expression, shape.types.values())
        element = element_of(found) if found is not None else None
        if element is not None:
            types[self.name] = Column(self.name, element, nullable=True)
        return Shape(self._columns(shape.columns), types)

    def _parsed(self) -> Expression:
        return parse_expression(self.expression, _WHAT)


def without_explode(sql: str) -> str:
    """The array of `explode(array) AS name`, with the name; other expressions as they are."""
    if not isinstance(sql, str):
        return sql
    tokens = tokens_of(sql)
    if [token.text.lower() for token in tokens[:2]] != [EXPLODE, "("]:
        return sql
    closing = _closing(tokens)
    if closing is None or not _is_a_name(tokens[closing + 1 :]):
        return sql
    array, name = (
        sql[tokens[1].end + 1 : tokens[closing].start].strip(),
        sql[tokens[closing].end + 1 :].strip(),
    )
    return f"{array} {name}".strip()


def element_of(array: str) -> str | None:
    """The type of the elements of an array; None: it is none."""
    return array.removeprefix("ARRAY<").removesuffix(">") if array.startswith("ARRAY<") else None


def check_ordinal(name: str, columns: tuple[str, ...]) -> None:
    """Raise DescriptionError when the column of ordinals cannot have a name."""
    if not isinstance(name, str) or not name.strip():
        raise DescriptionError(
            f"{_WHAT}: ordinal {name!r} is not a column name.",
            hint="Write ordinal='number', or leave it out.",
        )
    refuse_reserved([name], _WHAT)
    refuse_repeats([*columns, name], _WHAT)


def _is_a_name(tokens: list[Token]) -> bool:
    """True for `AS name`, for `name` and for nothing."""
    named = tokens[1:] if tokens and tokens[0].token_type == TokenType.ALIAS else tokens
    return len(named) == 1 if named is not tokens else len(named) <= 1


def _closing(tokens: list[Token]) -> int | None:
    """The number of the parenthesis that closes the first one."""
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if number and not depth:
            return number
    return None
