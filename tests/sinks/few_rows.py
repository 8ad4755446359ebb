"""Few rows for a sink, as a node in this process hands them over: no Spark takes part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

import headrace as hr
from headrace import lake
from headrace.sinks import Delivery
from headrace.testing.sinks import place_of
from tests.rows import file_rows

MOMENT = pa.timestamp("us", "UTC")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
OWN = {
    "__deleted": pa.bool_(),
    "__timestamp": MOMENT,
    "__sequence": pa.int64(),
    "__place": pa.binary(),
    "__ordinal": pa.int32(),
}


@dataclass(frozen=True)
class Few:
    """Puts rows of some columns into a table of PostgreSQL.

    folder  of the table of refused rows; types: of the columns
    """

    table: str
    folder: Path
    types: dict[str, pa.DataType]
    identity: tuple[str, ...] = ("id",)
    node: str = "a_node"

    @property
    def sink(self) -> hr.PostgresSink:
        return hr.PostgresSink(self.table)

    @property
    def delivery(self) -> Delivery:
        refused = f"file:{self.folder}/refused_{self.table}"
        return Delivery(self.node, self.identity, self.identity, tuple(self.types), refused)

    def made(self, *rows: tuple[Any, ...], sequence: int = 1, deleted: bool = False) -> pa.Table:
        """Rows of one log commit. In: rows  values of the columns in their order; fewer of deleted ones"""
        named = [dict(zip(self.types, row, strict=False)) for row in rows]
        own = [
            {"__deleted": deleted, "__timestamp": NOON, "__sequence": sequence}
            | {"__place": place_of(ordinal), "__ordinal": ordinal}
            for ordinal in range(len(rows))
        ]
        given = [row | more for row, more in zip(named, own, strict=True)]
        return pa.Table.from_pylist(given, pa.schema([*(self.types | OWN).items()]))

    def put(self, *rows: tuple[Any, ...], sequence: int = 1) -> None:
        self.sink.deliver_table(self.made(*rows, sequence=sequence), self.delivery)

    def delete(self, *identities: tuple[Any, ...], sequence: int) -> None:
        self.sink.deliver_table(self.made(*identities, sequence=sequence, deleted=True), self.delivery)

    def correct(self, rows: pa.Table, through: int) -> None:
        """As a redelivery of all rows does, which are few here."""
        self.sink._merge(rows, replace(self.delivery, whole=True), through)

    def refused(self) -> list[tuple[str, str]]:
        """The rows that PostgreSQL refused, with the reasons."""
        if not lake.exists(self.delivery.refused):
            return []
        rows = sorted(file_rows(self.delivery.refused), key=lambda row: (row["sequence"], row["ordinal"]))
        return [(row["row"], row["reason"]) for row in rows]


def rows_of(database: psycopg.Connection, table: str) -> list[Any]:
    """The rows of a table with the columns `id` and `n`."""
    return database.execute(f"SELECT id, n FROM {table} ORDER BY id, n").fetchall()
