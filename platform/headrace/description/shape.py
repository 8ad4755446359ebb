"""The columns of a stream, as far as they are known at one point: their names, and the types of those left untouched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.description.schema import COMPUTED, Column, ResultColumn
from headrace.description.wording import a_value, did_you_mean, listed
from headrace.errors import DescriptionError


@dataclass(frozen=True)
class Shape:
    """`columns` in order, or None when a transform left them unknown; `types` where the type is known."""

    columns: tuple[str, ...] | None
    types: Mapping[str, Column] = field(default_factory=dict)

    def resolve(self, name: str, what: str) -> str:
        """The column that `name` means, spelled as it is declared; Spark compares names without case.

        Raises: DescriptionError naming the columns there are, when there is none such.
        """
        if not isinstance(name, str) or not name.strip():
            raise DescriptionError(f"{what}: {a_value(name)} is not a column name.")
        if self.columns is None:
            return name
        for column in self.columns:
            if column.lower() == name.lower():
                return column
        raise DescriptionError(
            f"{what}: column '{name}' does not exist; columns are {listed(self.columns)}.",
            hint=self._hint(name, self.columns),
        )

    def _hint(self, name: str, columns: tuple[str, ...]) -> str | None:
        if any(not (char.isalnum() or char == "_") for char in name):
            return f"To use an expression or a nested field, name it first: .with_column('name', '{name}')."
        return did_you_mean(name, columns)

    def require(self, names: Iterable[str], what: str) -> None:
        """Raise DescriptionError for the first of the names, in alphabetical order, that does not exist."""
        for name in sorted(names):
            self.resolve(name, what)

    def type_of(self, name: str) -> Column | None:
        """The column's declaration, or None when its type is not known."""
        return next((self.types[known] for known in self.types if known.lower() == name.lower()), None)

    def result_column(self, name: str, meaning: str) -> ResultColumn:
        """A column as it stands in a node's table."""
        known = self.type_of(name)
        return ResultColumn(name, known.type if known else COMPUTED, meaning)


def shape_of(columns: Iterable[Column]) -> Shape:
    """The shape of declared columns."""
    types = {column.name: column for column in columns}
    return Shape(tuple(types), types)
