"""Joins are described by two tables, the columns that refer, and a selection where names clash."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

POSITIONS = hr.Topic("positions", key="id STRING", value="client STRING, ticker STRING, amount INT").table()
TICKERS = hr.Topic("tickers", key="ticker STRING", value="name STRING, founded INT").table()
SALES = hr.Topic("sales", key="id STRING", value="ticker STRING, amount INT")
CLIENTS = hr.Topic("clients", key="client STRING", value="name STRING, amount INT").table()


def test_a_join_has_the_left_columns_and_the_right_values_and_the_left_key() -> None:
    join = POSITIONS.join(TICKERS, on="ticker", how="left")
    assert join.columns == ("id", "client", "ticker", "amount", "name", "founded")
    assert [column.type for column in join.result_columns][-2:] == ["STRING", "INT"]
    assert join.key == ("id",)
    assert [topic.name for topic in join.topics] == ["positions", "tickers"]
    assert join.in_words == "One row per id with its match or nulls, by ticker; always of the latest rows."


def test_a_join_can_be_joined_again_and_a_topic_is_read_once() -> None:
    chain = POSITIONS.join(TICKERS, on="ticker").join(
        CLIENTS, on="client", select=("ticker", "left.name AS ticker_name", "right.name AS client_name")
    )
    assert chain.columns == ("id", "ticker", "ticker_name", "client_name")
    assert [column.type for column in chain.result_columns] == ["STRING"] * 4
    itself = POSITIONS.join(POSITIONS, on="client", select="right.amount + left.amount AS both")
    assert itself.columns == ("id", "both")
    assert len(itself.topics) == 1


def test_each_part_of_a_join_is_part_of_its_fingerprint_but_not_the_case_of_a_name() -> None:
    join = POSITIONS.join(TICKERS, on="ticker")
    assert join.fingerprint() == POSITIONS.join(TICKERS, on="TICKER").fingerprint()
    others = [
        POSITIONS.join(TICKERS, on="client"),
        POSITIONS.join(TICKERS, on="ticker", how="left"),
        POSITIONS.join(TICKERS.where("founded > 1900"), on="ticker"),
        POSITIONS.join(TICKERS, on="ticker", select="name"),
    ]
    assert len({node.fingerprint() for node in [join, *others]}) == 5


def test_names_that_clash_are_refused_unless_the_selection_settles_them() -> None:
    with refused("join: both tables have a column 'amount'", "'left.amount AS left_amount'"):
        POSITIONS.join(CLIENTS, on="client")
    with refused("join: select('amount')", "both tables have a column 'amount'"):
        POSITIONS.join(CLIENTS, on="client", select="amount")
    with refused("join: select('left.nmae')", "'nmae' does not exist"):
        POSITIONS.join(CLIENTS, on="client", select="left.nmae")
    with refused("join: select: 'left.amount + 1' has no name", "AS name"):
        POSITIONS.join(CLIENTS, on="client", select="left.amount + 1")
    with refused("'right.name AS id' takes the place of the key column 'id'"):
        POSITIONS.join(CLIENTS, on="client", select="right.name AS id")
    with refused("join: select: 'a' occurs twice"):
        POSITIONS.join(CLIENTS, on="client", select=("left.amount AS a", "right.amount AS a"))
    with refused("join: select names no columns"):
        POSITIONS.join(CLIENTS, on="client", select=())


def test_a_field_that_a_selection_misspells_is_refused() -> None:
    shops = hr.Topic(
        "shops", key="id STRING", value="place STRUCT<city: STRING, zip: STRING>, ticker STRING"
    ).table()
    for field in ("left.place.ciy", "left.place['ciy']", "place.ciy"):
        with refused("join: select(", field, "has no field 'ciy'", "Did you mean 'city'?"):
            shops.join(TICKERS, on="ticker", select=f"{field} AS city")
    kept = shops.join(TICKERS, on="ticker", select=("left.place.city AS city", "place['zip'] AS zip"))
    assert [column.type for column in kept.result_columns] == ["STRING"] * 3


def test_what_cannot_be_joined_is_refused() -> None:
    with refused("join: on: column 'tikcer' does not exist", "'ticker'"):
        POSITIONS.join(TICKERS, on="tikcer")
    with refused(
        "join: 'amount' is INT on the left and 'ticker' is STRING on the right", "CAST(amount AS STRING)"
    ):
        POSITIONS.join(TICKERS, on="amount")
    with refused("join: on names ticker, client, and the key of the right table is ticker"):
        POSITIONS.join(TICKERS, on=("ticker", "client"))
    with refused("join: how 'full' does not exist", "inner, left, outer"):
        POSITIONS.join(TICKERS, on="ticker", how="full")
    with refused("on the right is no table", "topic.table()"):
        POSITIONS.join(hr.Topic("t", key="ticker STRING", value="a INT"), on="ticker")  # type: ignore[arg-type]


def test_a_full_outer_join_is_by_the_keys_of_both_tables() -> None:
    join = TICKERS.join(
        hr.Topic("prices", key="symbol STRING", value="price DOUBLE").table(), "TICKER", "outer"
    )
    assert join.columns == ("ticker", "name", "founded", "price")
    assert join.key == ("ticker",)
    assert join.in_words == "One row per ticker of either table, by ticker; always of the latest rows."
    with refused("how='outer' is by the keys of both tables: on names ticker", "table is id", "how='left'"):
        POSITIONS.join(TICKERS, on="ticker", how="outer")


def test_a_table_is_grouped_by_its_columns_and_the_result_is_a_table_by_group() -> None:
    totals = POSITIONS.group_by("TICKER").aggregate(n=hr.count(), total=hr.sum("amount"))
    assert totals.columns == ("ticker", "n", "total")
    assert [column.type for column in totals.result_columns] == ["STRING", "BIGINT", "BIGINT"]
    assert totals.key == ("ticker",)
    joined = totals.join(TICKERS, on="ticker")
    assert joined.columns == ("ticker", "n", "total", "name", "founded")
    assert totals.fingerprint() != POSITIONS.group_by("client").aggregate(n=hr.count()).fingerprint()


def test_aggregates_that_pick_rows_have_the_types_of_their_columns() -> None:
    picked = POSITIONS.group_by("ticker").aggregate(
        highest=hr.max("amount"), clients=hr.collect("client", max_items=3)
    )
    assert [column.type for column in picked.result_columns] == ["STRING", "INT", "ARRAY<STRING>"]


def test_aggregates_that_cannot_give_a_row_back_are_refused() -> None:
    for newest in (hr.last("amount"), hr.first("amount")):
        with refused(
            f"newest={newest.kind}('amount') of a table", "no order in which they came", "min, max, collect"
        ):
            POSITIONS.group_by("ticker").aggregate(newest=newest)
    with refused("group_by: no columns"):
        POSITIONS.group_by().aggregate(n=hr.count())
    with refused("column 'tikcer' does not exist", "ticker"):
        POSITIONS.group_by("tikcer").aggregate(n=hr.count())


def test_totals_and_windows_are_sides_and_what_cannot_be_one_is_refused() -> None:
    totals = SALES.group_by("ticker").aggregate(n=hr.count())
    joined = totals.join(TICKERS, on="ticker")
    assert joined.key == ("ticker",)
    assert joined.columns[:2] == ("ticker", "n")
    grouped = SALES.group_by("ticker")
    windows = grouped.window(hr.tumbling("1 minute"), grace="1 minute").aggregate(n=hr.count())
    counts = windows.suppress(hr.until_window_closes()).group_by("ticker").aggregate(windows=hr.count())
    assert windows.join(TICKERS, on="ticker").key == ("ticker", "window_start")
    assert counts.longest_wait_ms == windows.longest_wait_ms == 120_000
    with refused("join: left: a throttled table cannot be joined", "Leave out .throttle"):
        totals.throttle("1 minute").join(TICKERS, on="ticker")
    with refused("group_by: a throttled table cannot be joined"):
        totals.throttle("1 minute").group_by("n").aggregate(groups=hr.count())
    sliding = grouped.window(hr.sliding("1 minute"), grace="1 minute").aggregate(n=hr.count())
    with refused("windows that records make are no table", "hr.tumbling"):
        sliding.join(TICKERS, on="ticker")


def test_on_may_name_the_key_that_a_column_holds() -> None:
    pairs = hr.Topic("pairs", key="a STRING, b INT", value="name STRING").table()
    left = hr.Topic("left", key="id STRING", value="one STRING, two INT").table()
    joined = left.join(pairs, on={"two": "B", "one": "a"})
    assert joined.on == ("one", "two")
    assert joined.fingerprint() == left.join(pairs, on=("one", "two")).fingerprint()
    stream = hr.Topic("stream", key="id STRING", value="one STRING, two INT")
    assert stream.lookup(pairs, on={"two": "b", "one": "a"}).on == ("one", "two")
    with refused("names b on the right, and the key of the right table is a, b", "{'…': 'a', '…': 'b'}"):
        left.join(pairs, on={"two": "b"})


def test_windows_of_one_length_have_one_end() -> None:
    """Before: both tables have a column 'window_end'."""
    by = POSITIONS.changes().group_by("ticker")
    counts = by.window(hr.tumbling("5 minutes"), grace="1 minute").aggregate(n=hr.count())
    sums = by.window(hr.tumbling("5 minutes"), grace="2 minutes").aggregate(total=hr.sum("amount"))
    on = ("ticker", "window_start")
    for how in ("inner", "left", "outer"):
        joined = counts.join(sums, on=on, how=how)
        assert joined.columns == ("ticker", "window_start", "window_end", "n", "total")
        assert [column.type for column in joined.result_columns][2] == "TIMESTAMP"
    longer = by.window(hr.tumbling("1 hour"), grace=0).aggregate(total=hr.sum("amount"))
    with refused("both tables have a column 'window_end'"):
        counts.join(longer, on=on)
    with refused("both tables have a column 'n'"):
        counts.join(by.window(hr.tumbling("5 minutes"), grace=0).aggregate(n=hr.count()), on=on)


def test_final_windows_are_grouped_as_a_stream_or_as_a_table() -> None:
    by = POSITIONS.changes().group_by("ticker")
    windows = by.window(hr.tumbling("5 minutes"), grace="1 minute").aggregate(n=hr.count())
    finals = windows.suppress(hr.until_window_closes()).named("finals")
    as_stream = finals.as_stream().group_by("ticker")
    hours = hr.tumbling("1 hour")
    assert (
        finals.group_by("ticker").window(hours, grace=0).aggregate(n=hr.count()).fingerprint()
        == as_stream.window(hours, grace=0).aggregate(n=hr.count()).fingerprint()
    )
    batches = finals.group_by("ticker").batch(collect=["n"], max_records=2)
    assert batches.fingerprint() == as_stream.batch(collect=["n"], max_records=2).fingerprint()
    newest = finals.group_by("ticker").aggregate(newest=hr.last("n"))
    assert newest.fingerprint() == as_stream.aggregate(newest=hr.last("n")).fingerprint()
    assert finals.group_by("ticker").aggregate(most=hr.max("n")).columns == ("ticker", "most")
    with refused(
        "aggregate: some of final windows has two readings: the windows in the order in which they close, "
        "or in the order of their keys",
        ".as_stream().group_by('ticker')",
        ".changes().table().group_by('ticker')",
    ):
        finals.group_by("ticker").aggregate(some=hr.collect("n", max_items=3))
    by_key = finals.changes().table().group_by("ticker").aggregate(some=hr.collect("n", max_items=3))
    assert by_key.columns == ("ticker", "some")
    sessions = POSITIONS.changes().group_by("id").window(hr.session("1 minute"), grace=0)
    visits = sessions.aggregate(n=hr.count()).suppress(hr.until_window_closes()).named("visits")
    assert visits.group_by("id").aggregate(n=hr.count()).columns == ("id", "n")


def test_columns_by_name_with_a_topic_on_the_right_are_refused_as_with_one_name() -> None:
    """Before, the error listed the letters of the topic's key as its columns."""
    with refused("join: a stream ('sales') on the right is no table", "topic.table()"):
        POSITIONS.join(SALES, on={"id": "id"})  # type: ignore[arg-type]
    with refused("lookup: a stream ('sales') is no table", "topic.table()"):
        SALES.lookup(SALES, on={"id": "id"})  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_three_tables_of_windows_have_one_end(how: str) -> None:
    """Before, the third one was refused: both tables have a column 'window_end'."""
    windows = SALES.group_by("id").window(hr.tumbling("1 minute"), grace=0)
    final = hr.until_window_closes()
    one, two, three = (
        windows.aggregate(**{name: hr.count()}).suppress(final) for name in ("one", "two", "three")
    )
    on = ("id", "window_start")
    joined = one.join(two, on=on, how=how).join(three, on=on, how=how)
    assert joined.columns == ("id", "window_start", "window_end", "one", "two", "three")
    assert [column.type for column in joined.result_columns][1:3] == ["TIMESTAMP", "TIMESTAMP"]
    halves = SALES.group_by("id").window(hr.tumbling("30 seconds"), grace=0).aggregate(half=hr.count())
    with refused("join: both tables have a column 'window_end'", "select"):
        joined.join(halves.suppress(final), on=on)
