"""Row-wise steps after tables: the key stays, and every other column is checked as in a stream."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

POSITIONS = hr.Topic("positions", key="id STRING", value="client STRING, ticker STRING, amount INT").table()
TICKERS = hr.Topic("tickers", key="ticker STRING", value="name STRING, founded INT").table()
JOINED = POSITIONS.join(TICKERS, on="ticker", how="left")


def test_the_key_stays_first_and_other_columns_are_those_that_the_steps_leave() -> None:
    table = (
        JOINED.with_column("age", "2026 - founded")
        .where("age > 9")
        .select("name AS of", "Client", "age", "id")
    )
    assert table.columns == ("id", "of", "Client", "age")
    assert [column.type for column in table.result_columns] == ["STRING", "STRING", "STRING", "INT"]
    assert table.key == ("id",)
    assert [topic.name for topic in table.topics] == ["positions", "tickers"]
    assert dict(table.origins) == {"of": "name", "Client": "client", "age": None}
    assert table.is_computed
    assert not JOINED.select("name").is_computed
    assert table.in_words == "One row per id that passes its conditions; always of the latest rows."


def test_steps_follow_every_table_and_lead_to_one() -> None:
    totals = POSITIONS.group_by("ticker").aggregate(n=hr.count(), total=hr.sum("amount")).where("n > 1")
    enriched = POSITIONS.select("ticker", "amount AS n_held").join(totals.select("total"), on="ticker")
    assert enriched.columns == ("id", "ticker", "n_held", "total")
    sums = enriched.with_column("Total", "total + 1").group_by("ticker").aggregate(most=hr.max("total"))
    assert sums.columns == ("ticker", "most")
    sales = hr.Topic("sales", key="id STRING", value="ticker STRING, amount INT")
    assert sales.group_by("ticker").aggregate(n=hr.count()).where("n > 3").columns == ("ticker", "n")


def test_a_name_stands_for_the_table_after_its_steps() -> None:
    named = JOINED.named("joined", owners=("team:data",)).where("amount > 0")
    assert (named.name, named.owners) == ("joined", ("team:data",))
    assert named.fingerprint() == JOINED.where("amount > 0").fingerprint()
    steps = [JOINED, JOINED.where("amount > 0"), JOINED.where("amount > 1"), JOINED.select("amount")]
    assert len({table.fingerprint() for table in steps}) == len(steps)


def test_the_key_and_columns_that_are_not_there_are_refused() -> None:
    with refused("with_column: 'id' is a column of the table's key", "another name"):
        JOINED.with_column("ID", "upper(id)")
    with refused("select: 'id' is a column of the table's key"):
        JOINED.select("upper(client) AS id")
    with refused("where('amuont > 0')", "'amuont' does not exist", "'amount'"):
        JOINED.where("amuont > 0")
    with refused("column 'amount' does not exist"):
        JOINED.select("name").where("amount > 0")
    sales = hr.Topic("sales", key="id STRING", value="ticker STRING")
    with refused("where: a throttled table cannot be joined"):
        sales.group_by("ticker").aggregate(n=hr.count()).throttle("1 minute").where("n > 1")


def test_a_table_by_timestamp_forgets_deletes_after_a_while_if_it_is_told_to() -> None:
    held = hr.Topic("positions", key="id STRING", value="amount INT")
    forgets = held.table("timestamp", forget_deletes_after="7 days")
    assert forgets.forget_deletes_ms == 7 * 86_400_000
    assert (
        forgets.in_words == "One row per id, as of its highest timestamp; deletes are forgotten after 7 days."
    )
    assert forgets.fingerprint() != held.table("timestamp").fingerprint()
    assert "forget_deletes_ms" not in held.table("timestamp").rules()
    with refused("forget_deletes_after is for order_by='timestamp'"):
        held.table(forget_deletes_after="7 days")
    with refused("deletes cannot be forgotten after 0", "forget_deletes_after='7 days'"):
        held.table("timestamp", forget_deletes_after=0)
    with refused("lookup: a table with forget_deletes_after takes no late records"):
        hr.Topic("orders", value="o STRING").lookup(forgets, on="o")
