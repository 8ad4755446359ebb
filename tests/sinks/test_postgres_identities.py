"""Identities in a table that a person made: its types may be others than those of Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from headrace.sinks.postgres_held import query_of
from headrace.sinks.postgres_tables import columns_of

if TYPE_CHECKING:
    import psycopg

    from headrace.local.postgres import Postgres

pytestmark = pytest.mark.postgres


def test_identities_of_types_that_spark_lacks_are_read_as_text(
    postgres: Postgres, database: psycopg.Connection
) -> None:
    database.execute("CREATE TABLE odd (id uuid, n numeric, j jsonb, d numeric(9,2), k bigint)")
    database.execute(
        """INSERT INTO odd VALUES ('6F9619FF-8B86-D011-B42D-00C04FC964FF', 1.50, '{"b":1,"a":2}', 1.5, 7), (NULL, NULL, NULL, NULL, 8)"""
    )
    name = sql.Identifier("odd")
    types = {
        column: of
        for column, of in columns_of(database, name).items()
        if column in ("id", "n", "j", "d", "k")
    }
    rows = database.execute(query_of(name, types)).fetchall()
    first = ("6f9619ff-8b86-d011-b42d-00c04fc964ff", "1.50", '{"a": 2, "b": 1}', Decimal("1.50"), 7)
    assert rows == [first, (None, None, None, None, 8)]
