"""The arguments of a function's call, as terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp

from headrace.expressions.term import Term

Columns = Mapping[str, pa.DataType]
Bind = Callable[[exp.Expr, Columns], Term | None]


class UnknownError(Exception):
    """An argument of which only Spark knows the type."""


class Arguments:
    """The arguments of a call, by their names or places in the syntax tree."""

    def __init__(self, tree: exp.Expr, columns: Columns, bind: Bind) -> None:
        self.tree, self._columns, self._bind = tree, columns, bind

    def __getitem__(self, which: str | int) -> Term:
        term = self.get(which)
        if term is None:
            raise UnknownError
        return term

    def get(self, which: str | int) -> Term | None:
        """An argument; None: there is none."""
        if isinstance(which, int):
            tree = self.tree.expressions[which] if which < len(self.tree.expressions) else None
        else:
            tree = self.tree.args.get(which)
        if tree is None:
            return None
        term = self._bind(_undated(tree), self._columns)
        if term is None:
            raise UnknownError
        return term

    @property
    def is_anonymous(self) -> bool:
        """Whether sqlglot knows the function by its name alone: its arguments are a list."""
        return isinstance(self.tree, exp.Anonymous)

    @property
    def first(self) -> Term:
        """The first argument."""
        return self[0] if self.is_anonymous or self.tree.args.get("this") is None else self["this"]

    @property
    def listed(self) -> list[Term]:
        """All arguments of a call that has a list of them."""
        return [self[number] for number in range(len(self.tree.expressions))]

    def term(self, tree: object) -> Term:
        """The term of a part of the call that is no argument by itself.

        Raises: UnknownError
        """
        term = self._bind(tree, self._columns) if isinstance(tree, exp.Expr) else None
        if term is None:
            raise UnknownError
        return term

    def of_lambda(self, which: str, *types: pa.DataType) -> Term:
        """The result of a lambda. In: types  of its parameters.

        Raises: UnknownError
        """
        function = self.tree.args.get(which)
        if not isinstance(function, exp.Lambda) or len(function.expressions) > len(types):
            raise UnknownError
        names = [each.name.lower() for each in function.expressions]
        made = self._bind(function.this, {**self._columns, **dict(zip(names, types, strict=False))})
        if made is None:
            raise UnknownError
        return Term(made.type)

    def unit(self, which: str = "unit") -> str:
        """A unit of time, in upper case, without the S of a plural."""
        of = self.tree.args.get(which)
        return str(of.name if of is not None else "").upper().removesuffix("S")

    @property
    def is_plural(self) -> bool:
        """Whether the unit has the S of a plural; where Spark knows none, only Spark says what comes of it."""
        of = self.tree.args.get("unit")
        return of is not None and of.name.upper().endswith("S")


def _undated(tree: exp.Expr) -> exp.Expr:
    """An argument as it is written: sqlglot puts functions around dates."""
    while isinstance(tree, exp.TsOrDsToDate | exp.TimeStrToTime) and not tree.args.get("safe"):
        tree = tree.this
    return tree
