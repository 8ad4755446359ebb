"""What Avro's resolution of a writer's schema to a reader's leaves to us: what a number counts.

Law: a number that the writer says to count one thing is not read as another: its records are dead letters. What says nothing
is read as the reader has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.description.formats.avro_types import AvroType
from headrace.sequence.avro.columns import Mismatch


def require_units(wrote: AvroType, read: AvroType, path: str = "") -> None:
    """Check all that is read.

    Raises: Mismatch when a date, a time or a decimal is read in another unit, or with another scale
    """
    for ours, theirs in _pairs(wrote, read):
        has, wanted = _unit(ours), _unit(theirs)
        if None not in (has, wanted) and has != wanted:
            raise Mismatch(f"{path.lstrip('.') or 'it'} is {has}, and the reader's schema has {wanted}")
        fields = {field.name: field.type for field in ours.fields}
        for field in theirs.fields:
            name = next((each for each in (field.name, *field.aliases) if each in fields), None)
            if name is not None:
                require_units(fields[name], field.type, f"{path}.{field.name}")
        for one, other in zip(ours.inner, theirs.inner, strict=False):
            require_units(one, other, f"{path}[]")


def _pairs(wrote: AvroType, read: AvroType) -> Iterator[tuple[AvroType, AvroType]]:
    """The branches of unions that are read as each other; another type is one branch."""
    alone = len(wrote.branches) == len(read.branches) == 1
    for ours in wrote.branches:
        for theirs in read.branches:
            if alone or (ours.kind, ours.name) == (theirs.kind, theirs.name):
                yield ours, theirs


def _unit(of: AvroType) -> str | None:
    """What a number counts; None: its schema does not say."""
    if of.precision is not None:
        return f"decimal of scale {of.scale}"
    return None if of.logical is None else of.logical.removeprefix("local-")
