"""Put rows into PostgreSQL, and find those that it refuses: a stretch of rows that fails is halved until one stands alone.

Law: a row that fails alone is refused if the error is about a row, whatever else is well, or if other rows pass. An error
that is about no row, when none passes, is the table's or the user's: it is raised. So is one that a later attempt may not
meet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import psycopg

from headrace.sinks.postgres_session import is_of_a_row, is_passing, reason_of
from headrace.sinks.refusals import REFUSED_MAX

if TYPE_CHECKING:
    from headrace.sinks.refusals import Refusal

ALONE_MAX = 100  # rows that are tried alone when none passes, and no error is about a row

Rows = TypeVar("Rows")


class Place(NamedTuple):
    """By which a row is told from all others of a delivery."""

    sequence: int
    ordinal: int


class Halving(ABC, Generic[Rows]):
    """Puts stretches of rows into the database, each under a savepoint."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._refused: list[Refusal] = []
        self._doubts: list[psycopg.Error] = []  # about no row
        self._has_passed = False

    @abstractmethod
    def write(self, rows: Rows) -> None:
        """Put them into the database, all or none."""

    @abstractmethod
    def parts(self, rows: Rows) -> Place | tuple[Rows, Rows]:
        """Both halves; the place of a single row."""

    def put(self, rows: Rows) -> None:
        """Put in what the database takes of the rows.

        Raises: psycopg.Error that is about no row
        """
        try:
            with self._connection.transaction():
                self.write(rows)
            self._has_passed = True
        except psycopg.Error as error:
            if self._connection.closed or is_passing(error):
                raise
            parts = self.parts(rows)
            if isinstance(parts, Place):
                self._refuse(parts, error)
            elif len(self._refused) <= REFUSED_MAX:
                for half in parts:
                    self.put(half)

    def refused(self) -> list[Refusal]:
        """The refused ones of all rows.

        Raises: psycopg.Error that is about no row, when none has passed
        """
        if self._doubts and not self._has_passed:
            raise self._doubts[0]
        return self._refused

    def _refuse(self, place: Place, error: psycopg.Error) -> None:
        self._refused.append((*place, reason_of(error)))
        if not is_of_a_row(error):
            self._doubts.append(error)
            if len(self._doubts) >= ALONE_MAX:
                self.refused()
