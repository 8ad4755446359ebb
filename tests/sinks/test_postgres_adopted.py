"""A table that a person made and filled before a node delivers to it: its rows, its keys and what lies beside it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import DescriptionError, TerminalError
from headrace.operators.contract import OF_PLACE
from tests.sinks.few_rows import Few, rows_of

pytestmark = [pytest.mark.postgres]

TYPES = {"id": pa.string(), "n": pa.int32()}


def test_rows_from_before_the_columns_of_positions_are_older_than_all_others(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, a row without a position was never updated, deleted or corrected, and nothing was refused."""
    few = Few("adopted", tmp_path, TYPES)
    database.execute("CREATE TABLE adopted (id text PRIMARY KEY, n int)")
    database.execute("INSERT INTO adopted VALUES ('a', 100), ('c', 100), ('d', 100), ('z', 100)")
    with pytest.raises(TerminalError, match="lacks columns") as error:
        few.put(("a", 1))
    database.execute(str(error.value.hint))
    few.put(("a", 1), ("b", 2))
    assert rows_of(database, "adopted") == [("a", 1), ("b", 2), ("c", 100), ("d", 100), ("z", 100)]
    few.delete(("z",), sequence=2)
    few.correct(few.made(("c", 3), sequence=3), 3)
    assert rows_of(database, "adopted") == [("a", 1), ("b", 2), ("c", 3), ("d", 100)]
    few.correct(few.made(("d",), sequence=4, deleted=True), 4)
    assert rows_of(database, "adopted") == [("a", 1), ("b", 2), ("c", 3)]
    assert few.refused() == []


def test_a_table_with_the_name_of_the_memory_of_deletions_is_not_touched(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, the node dropped it without a word, as if it were the memory of a former description."""
    few = Few("orders", tmp_path, TYPES)
    database.execute("CREATE TABLE orders__deleted (id text, why text)")
    database.execute("INSERT INTO orders__deleted VALUES ('a', 'audit')")
    with pytest.raises(TerminalError, match="not made by Headrace") as error:
        few.put(("a", 1))
    assert error.value.hint is not None
    assert database.execute("SELECT * FROM orders__deleted").fetchall() == [("a", "audit")]
    Few("orders", tmp_path, TYPES, OF_PLACE, "appended").put(("a", 1))  # nothing to remember
    assert database.execute("SELECT * FROM orders__deleted").fetchall() == [("a", "audit")]
    database.execute("ALTER TABLE orders__deleted RENAME TO orders_audit; DROP TABLE orders")
    few.put(("a", 1))
    few.delete(("a",), sequence=2)
    few.put(("a", 1))
    assert rows_of(database, "orders") == []


def test_a_memory_of_deletions_that_lost_its_comment_is_used_again_after_the_hint(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """A database that is restored without its comments."""
    few = Few("restored", tmp_path, TYPES)
    few.put(("a", 1))
    few.delete(("a",), sequence=2)
    database.execute("COMMENT ON TABLE restored__deleted IS NULL")
    with pytest.raises(TerminalError, match="not made by Headrace") as error:
        few.put(("a", 1))
    database.execute(str(error.value.hint).partition("run: ")[2])
    few.put(("a", 1))
    assert rows_of(database, "restored") == []


@pytest.mark.parametrize("table", ["t__deleted", "shop.t__deleted"])
def test_a_sink_is_refused_a_name_that_a_memory_of_deletions_has(table: str) -> None:
    """Before, a node's table could be the memory of another one's, and was dropped by it."""
    with pytest.raises(DescriptionError, match="remembers what it deleted"):
        hr.PostgresSink(table)


def test_a_key_that_is_judged_late_is_not_taken_for_the_identity(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, ON CONFLICT failed with it, and the node waited for ever for a database that does not answer."""
    few = Few("late", tmp_path, TYPES)
    columns = "id text NOT NULL, n int, __sequence bigint, __place bytea"
    database.execute(f"CREATE TABLE late ({columns}, UNIQUE (id) DEFERRABLE)")
    with pytest.raises(TerminalError, match="no unique key over the identity") as error:
        few.put(("a", 1))
    database.execute(str(error.value.hint))
    few.put(("a", 1), ("b", 2))
    assert rows_of(database, "late") == [("a", 1), ("b", 2)]


def test_the_memory_of_deletions_takes_the_identities_of_a_wider_type(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, it kept the former type: a deletion of a larger number was refused, and the row stayed for good."""
    few = Few("widened", tmp_path, TYPES | {"id": pa.int32()})
    few.put((1, 1), (2, 1))
    few.delete((2,), sequence=2)
    wide = Few("widened", tmp_path, TYPES | {"id": pa.int64()})
    with pytest.raises(TerminalError, match="does not hold each BIGINT") as error:
        wide.put((2**40, 1), sequence=3)
    database.execute(str(error.value.hint).partition("; then ")[0])
    wide.put((2, 1), (2**40, 1), sequence=1)  # the first is older than its deletion
    wide.delete((2**40,), sequence=4)
    assert rows_of(database, "widened") == [(1, 1)]
    assert database.execute("SELECT id FROM widened__deleted ORDER BY id").fetchall() == [(2,), (2**40,)]
    assert wide.refused() == []


def test_columns_that_an_index_only_includes_are_not_of_its_key(
    database: psycopg.Connection, tmp_path: Path
) -> None:
    """Before, an index over (id) that includes n was taken for a key over both, and none over id alone."""
    few = Few("including", tmp_path, TYPES)
    both = Few("including", tmp_path, TYPES, ("id", "n"))
    database.execute(
        "CREATE TABLE including (id text NOT NULL, n int NOT NULL, __sequence bigint, __place bytea)"
    )
    database.execute("CREATE UNIQUE INDEX ON including (id) INCLUDE (n)")
    few.put(("a", 1), ("b", 2))
    few.put(("a", 3), sequence=2)
    assert rows_of(database, "including") == [("a", 3), ("b", 2)]
    with pytest.raises(TerminalError, match="no unique key over the identity"):
        both.put(("a", 1))
