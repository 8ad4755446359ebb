"""A table that a person made and filled before a node delivers to it: its rows, its keys and what lies beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headrace.errors import TerminalError
from tests.sinks.few_rows import Few

pytestmark = [pytest.mark.postgres]

TYPES = {"id": pa.string(), "n": pa.int32()}


def rows_of(database: psycopg.Connection, table: str) -> list[Any]:
    return database.execute(f"SELECT id, n FROM {table} ORDER BY id, n").fetchall()


def test_rows_from_before_the_columns_of_positions_are_older_than_all_others(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, a row without a position was never updated, deleted or corrected, and nothing was refused."""
    few = Few("totals", tmp_path, TYPES)
    database.execute("CREATE TABLE totals (id text PRIMARY KEY, n int)")
    database.execute("INSERT INTO totals VALUES ('a', 100), ('c', 100), ('d', 100), ('z', 100)")
    with pytest.raises(TerminalError, match="lacks columns") as error:
        few.put(("a", 1))
    database.execute(str(error.value.hint))
    few.put(("a", 1), ("b", 2))
    assert rows_of(database, "totals") == [("a", 1), ("b", 2), ("c", 100), ("d", 100), ("z", 100)]
    few.delete(("z",), sequence=2)
    few.correct(few.made(("c", 3), sequence=3), 3)
    assert rows_of(database, "totals") == [("a", 1), ("b", 2), ("c", 3), ("d", 100)]
    few.correct(few.made(("d",), sequence=4, deleted=True), 4)
    assert rows_of(database, "totals") == [("a", 1), ("b", 2), ("c", 3)]
    assert few.refused() == []
