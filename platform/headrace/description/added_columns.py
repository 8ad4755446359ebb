"""Values that new columns of a topic have in the records that its log holds already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.description.arrow_types import arrow_type
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.schema import Column


def added_as_text(
    added: Mapping[str, Any], columns: Sequence[Column], renamed: Mapping[str, str], what: str
) -> dict[str, str]:
    """Each value as the text that a cast to its column's type makes it of.

    In:     columns  of the topic's value
            renamed  new names of columns to former ones
            what     the topic, for messages
    Raises: DescriptionError when there is no such column, it has a former name, or its type does not hold the value
    """
    types = {column.name: column.type for column in columns}
    for name in added:
        if name not in types:
            raise DescriptionError(
                f"{what}: added {a_value(name)} is no column of the value; columns are {listed(types)}."
            )
        if name in renamed:
            raise DescriptionError(
                f"{what}: column '{name}' is in both added and renamed.",
                hint="A renamed column keeps its values: leave it out of added.",
            )
    return {name: _as_text(value, types[name], f"{what}: added '{name}'") for name, value in added.items()}


def _as_text(value: Any, ddl: str, what: str) -> str:
    of = arrow_type(ddl)
    if pa.types.is_nested(of) or pa.types.is_binary(of):
        raise DescriptionError(
            f"{what}: a column of type {ddl} cannot be filled.",
            hint="Leave it out of added: the column is null in older records.",
        )
    try:
        scalar = pa.scalar(value, of)
        if scalar.is_valid and not pa.types.is_floating(of) and scalar.as_py() != value:
            raise ValueError(f"It would become {scalar.as_py()!r}.")  # Arrow cuts off what does not fit
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DescriptionError(
            f"{what}: {a_value(value)} is no value of type {ddl}.",
            detail=str(error),
            hint="Give a value of that type; a time needs its zone.",
        ) from error
    if not scalar.is_valid:
        raise DescriptionError(
            f"{what}: None is what an added column holds anyway.", hint="Leave it out of added."
        )
    text: str = pc.cast(scalar, pa.string()).as_py()
    return text
