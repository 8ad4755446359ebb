"""Outputs of a processor: one, or several by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.description.schema import Column, parse_ddl, quote, refuse_repeats
from headrace.description.stores import NAME
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

OUTPUT = "output"  # the column that says which of several outputs a row belongs to
TO = "to"  # the argument of `forward` that says it
Outputs = tuple[tuple[str, str], ...]  # names and columns as DDL


def named_outputs(output: object) -> Outputs | None:
    """Several outputs by name; None: there is one alone.

    In:     as `process` takes it
    Raises: DescriptionError for what is neither
    """
    if isinstance(output, str):
        return None
    pairs = [*output.items()] if isinstance(output, Mapping) else output
    if not isinstance(pairs, Sequence) or not pairs or not all(_is_pair(each) for each in pairs):
        raise DescriptionError(
            f"process: output {a_value(output)} is neither columns nor a mapping of names to columns.",
            hint="Write output='word STRING, n BIGINT', or output={'known': 'word STRING', 'unknown': 'word STRING'}.",
        )
    for name, _ in pairs:
        if not NAME.fullmatch(name):
            raise DescriptionError(
                f"process: output {a_value(name)} is not a name in lower-case letters, digits and single underscores."
            )
    return tuple((name, ddl) for name, ddl in pairs)


def columns_of(outputs: Outputs) -> Mapping[str, tuple[Column, ...]]:
    """The columns of each output.

    Raises: DescriptionError when OUTPUT or TO is one of them, or outputs have a column with different types
    """
    found = {name: parse_ddl(ddl, f"process: output '{name}'") for name, ddl in outputs}
    types: dict[str, str] = {}
    for name, columns in found.items():
        for column in columns:
            if column.name.lower() in (OUTPUT, TO):
                raise DescriptionError(
                    f"process: output '{name}' has a column '{column.name}', which says to which output a row goes.",
                    hint="Give it another name.",
                )
            if types.setdefault(column.name, column.type) != column.type:
                raise DescriptionError(
                    f"process: column '{column.name}' is {types[column.name]} in one output and {column.type} in "
                    f"'{name}'. The outputs of a processor are one table.",
                    hint="Give one of them another name.",
                )
    refuse_repeats([*types], "process: the columns of all outputs")
    return found


def table_of(columns: Mapping[str, Sequence[Column]]) -> tuple[Column, ...]:
    """The columns of the table that holds all outputs: OUTPUT, then those of each; the others' are null."""
    types = {column.name: column.type for each in columns.values() for column in each}
    return (Column(OUTPUT, "STRING", False), *(Column(name, of, True) for name, of in types.items()))


def selection(columns: Mapping[str, Sequence[Column]], name: str) -> tuple[str, list[str]]:
    """The condition and the columns by which one output is read from the table of all.

    Raises: DescriptionError when there is no such output
    """
    if name not in columns:
        raise DescriptionError(f"output: there is no output {a_value(name)}; there are {listed([*columns])}.")
    return f"{OUTPUT} = '{name}'", [quote(column.name) for column in columns[name]]


def _is_pair(each: object) -> bool:
    return isinstance(each, Sequence) and len(each) == 2 and all(isinstance(part, str) for part in each)
