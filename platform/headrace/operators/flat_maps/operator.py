"""Flat maps: each element of a record's array as a row."""

from __future__ import annotations

from headrace.description import FlatMapped
from headrace.fold.records.flatten import ELEMENT
from headrace.operators.contract import POSITION, Appended


class FlatMaps(Appended[FlatMapped]):
    """One row for each element of each record."""

    @property
    def order(self) -> tuple[str, ...]:
        """By the record, then by the place of the element."""
        return (*POSITION, ELEMENT)
