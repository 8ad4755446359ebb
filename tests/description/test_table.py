"""Tables are described by the record key, an order and conditions."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

POSITIONS = hr.Topic("positions", key="id STRING", value="ticker STRING, amount INT")


def test_a_table_has_its_key_first_and_then_the_other_columns() -> None:
    table = POSITIONS.with_column("twice", "amount * 2").select("twice", "ticker", "id").table()
    assert table.columns == ("id", "twice", "ticker")
    assert [column.type for column in table.result_columns] == ["STRING", "INT", "STRING"]
    assert table.key == ("id",)
    assert table.topics == (POSITIONS,)
    assert (table.day_column, table.longest_wait_ms) == (None, 0)
    assert table.in_words == "One row per id, as of its latest record."


def test_order_and_conditions_alter_the_rows_and_so_the_fingerprint() -> None:
    tables = [
        POSITIONS.table(),
        POSITIONS.table("timestamp"),
        POSITIONS.table().where("amount > 0"),
        POSITIONS.table().where("amount > 0").where("ticker = 'A'"),
        POSITIONS.where("amount > 0").table(),
    ]
    assert len({table.fingerprint() for table in tables}) == len(tables)
    assert POSITIONS.table().named("a").fingerprint() == POSITIONS.table().fingerprint()


def test_a_table_needs_a_key_that_all_topics_share_and_that_is_kept() -> None:
    with refused("table: topic 'keyless' has no key", "key='id STRING'"):
        hr.Topic("keyless", value="a INT").table()
    with refused("table: key column 'id' is gone; columns are ticker", "record key"):
        POSITIONS.select("ticker").table()
    other = hr.Topic("other", key="ticker STRING", value="id STRING, amount INT")
    with refused("table: the topics are keyed differently", "'positions' by id", "'other' by ticker"):
        POSITIONS.merge(other).table()


def test_what_cannot_be_a_table_is_refused() -> None:
    with refused("table: order_by 'time' does not exist", "position, timestamp"):
        POSITIONS.table("time")
    with refused("table: a transform leaves the columns unknown", "columns="):
        POSITIONS.transform(lambda frame: frame).table()
    with refused("where('amuont > 0')", "'amuont' does not exist", "'amount'"):
        POSITIONS.table().where("amuont > 0")


@pytest.mark.parametrize(
    "table",
    [
        POSITIONS.table(),
        POSITIONS.table().where("amount > 0"),
        POSITIONS.table().select("amount AS n"),
        POSITIONS.table().join(POSITIONS.select("id", "ticker AS other").table(), on="id"),
        POSITIONS.table().group_by("ticker").aggregate(n=hr.count()),
        POSITIONS.group_by("ticker").aggregate(n=hr.count()),
        POSITIONS.group_by().window(hr.tumbling("1 minute"), grace=0).aggregate(n=hr.count()),
    ],
    ids=lambda table: type(table).__name__,
)
def test_any_table_can_be_throttled_once_and_its_rows_stay_the_same(table: Any) -> None:
    throttled = table.throttle("1 minute").named("slow")
    assert throttled.update_source.throttle_ms == 60_000
    assert table.named("quick").update_source.throttle_ms == 0
    assert throttled.fingerprint() == table.fingerprint()
    with refused("throttle: this table is throttled already"):
        throttled.throttle("1 minute")
    with refused("throttle: this table cannot be throttled to 0"):
        table.throttle(0)
    with refused("join: right: a throttled table cannot be joined or grouped", "throttle the result"):
        POSITIONS.select("id", "amount AS own").table().join(throttled, on="id")


def test_what_is_suppressed_keeps_the_throttle() -> None:
    calm = POSITIONS.table().throttle("1 minute").suppress(hr.until_time_limit("1 hour")).named("calm")
    assert calm.update_source.throttle_ms == 60_000
