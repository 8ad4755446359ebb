"""The stores in memory of the matrix and of lives keep the protocol that the kit tries with real sinks.

Kafka and PostgreSQL: `test_kafka_sink.py`, `test_postgres_sink.py`. Both kinds of evidence rest on the same claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.testing import SinkKit
from headrace.testing.sinks import COLUMNS
from tests.lives.stores import LivesKeyedStore, LivesStore
from tests.matrix.stores import KeyedStore, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NODE: Any = SimpleNamespace(columns=COLUMNS, throttle_ms=0, day_column=None)
CLAIMS = {Store: 9, KeyedStore: 13, LivesStore: 10, LivesKeyedStore: 14}
APPENDED = {Store: 5, KeyedStore: 6, LivesStore: 5, LivesKeyedStore: 6}


class Faults:
    """The faults of the deliveries to come: while the store is away, each fails before, in or after its rows."""

    def __init__(self) -> None:
        self.away, self.number = False, 0

    def __call__(self) -> str:
        """The fault of the next delivery."""
        self.number += self.away
        return ("before", "in", "after")[self.number % 3] if self.away else ""

    @contextmanager
    def out(self) -> Iterator[None]:
        """Out of reach for a while."""
        self.away = True
        yield
        self.away = False


@pytest.mark.parametrize(
    "appended", [False, pytest.param(True, marks=pytest.mark.long)], ids=["revised", "appended"]
)
@pytest.mark.parametrize("store", CLAIMS, ids=lambda store: store.__name__)
def test_a_store_in_memory_keeps_the_protocol(
    spark: SparkSession, store: type[Store], appended: bool
) -> None:
    faults = Faults()
    lives = issubclass(store, LivesStore)
    made = store(NODE, faults) if issubclass(store, LivesStore) else store(NODE)
    away = faults.out if lives and not appended else None

    def rows() -> list[dict[str, Any]]:
        return [row for row in made.rows.values() if not row["__deleted"]]

    tried = SinkKit(spark, made, rows, away=away, appended=appended).run()
    assert len(tried) == (APPENDED if appended else CLAIMS)[store]
