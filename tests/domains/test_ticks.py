"""Tick data: each trade with the quote of its moment, and OHLC bars of a minute."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.conftest import Drive
from tests.rows import columns

pytestmark = pytest.mark.spark

trades = hr.Topic(
    "trades",
    key="symbol STRING",
    value="price DECIMAL(18,4) NOT NULL, size BIGINT NOT NULL, venue STRUCT<mic: STRING, country: STRING>, "
    "at TIMESTAMP NOT NULL",
    timestamp="at",
)
quotes = hr.Topic(
    "quotes",
    key="symbol STRING",
    value="bid DECIMAL(18,4), ask DECIMAL(18,4), at TIMESTAMP NOT NULL",
    timestamp="at",
)

quoted_trades = (
    trades.lookup(
        quotes.select("symbol", "bid", "ask").table(), on="symbol", as_of="event", history="10 minutes"
    )
    .with_column("slippage", "price - (bid + ask) / 2")
    .with_column("mic", "venue.mic")
    .named("quoted_trades")
)
bars = (
    quoted_trades.group_by("symbol")
    .window(hr.tumbling("1 minute"), grace="5 seconds")
    .aggregate(
        open=hr.min_by("price", by="at"),
        high=hr.max("price"),
        low=hr.min("price"),
        close=hr.max_by("price", by="at"),
        volume=hr.sum("size"),
        slippage=hr.avg("slippage"),
        venues=hr.count_distinct("mic"),
    )
    .suppress(hr.until_window_closes())
    .to(hr.KafkaSink("bars"))
    .named("bars")
)


def test_a_trade_has_the_quote_of_its_moment_and_a_minute_is_a_bar(drive: Drive) -> None:
    driver = drive(quoted_trades, bars)

    def at(second: int) -> str:
        return f"2026-01-02T10:{second // 60:02d}:{second % 60:02d}Z"

    def quote(symbol: str, second: int, bid: str, ask: str) -> None:
        driver.pipe("quotes", key=symbol, value={"bid": bid, "ask": ask, "at": at(second)})

    def trade(symbol: str | None, second: int, price: str, mic: str | None = "XETR", size: int = 10) -> None:
        venue = None if mic is None else {"mic": mic, "country": "DE"}
        value = {"price": price, "size": size, "venue": venue, "at": at(second)}
        driver.pipe("trades", key=symbol, value=value)

    quote("AAA", 1, "9.9", "10.1")
    trade("AAA", 5, "10.0")
    trade("AAA", 30, "10.5", mic="XPAR")
    trade("BBB", 31, "3")  # nobody quotes it
    trade(None, 32, "7")  # no symbol: no quote, and a group like others
    driver.cut()
    quote("AAA", 20, "10.1", "10.3")
    trade("AAA", 3, "9.8", mic=None)  # out of order, and the first of the minute
    trade("AAA", 50, "10.2")
    driver.pipe("trades", key="AAA", value={"price": "ten", "size": 1, "at": at(51)})
    driver.crash("after outputs")
    driver.cut()
    quote("AAA", 700, "11", "11.2")
    trade("AAA", 700, "11.1")
    trade("AAA", 40, "99")  # eleven minutes late
    driver.cut()
    quote("AAA", 701, "11", "11.2")
    trade("AAA", 701, "11.1")
    driver.cut()

    rows = [row for row in driver.rows("quoted_trades") if row["symbol"] == "AAA"]
    rows.sort(key=lambda row: row["at"])
    assert [(str(row["price"]), row["bid"] and str(row["bid"])) for row in rows] == [
        ("9.8000", "9.9000"),
        ("10.0000", "9.9000"),
        ("10.5000", "10.1000"),
        ("10.2000", "10.1000"),
        ("11.1000", "11.0000"),
    ]
    (bar,) = [row for row in driver.rows("bars") if row["symbol"] == "AAA"]
    ohlc = [str(each) for each in (bar["open"], bar["high"], bar["low"], bar["close"])]
    assert ohlc == ["9.8000", "10.5000", "9.8000", "10.2000"]
    assert (bar["volume"], bar["venues"]) == (40, 2)
    assert bar["slippage"] == 0.025
    others = [row for row in driver.rows("bars") if row["symbol"] in (None, "BBB")]
    assert columns(others, "symbol", "volume", "slippage") == [(None, 10, None), ("BBB", 10, None)]
    (late,) = driver.late("quoted_trades")  # the lookup is a step without a name within the node
    assert (late["topic"], late["late_by_ms"]) == ("trades", 60_000)
    assert [row["offset"] for row in driver.records("quoted_trades", "late")] == [late["offset"]]
    (dead,) = driver.dead_letters("trades")
    assert "price is not DECIMAL(18,4)" in dead["reason"]
    for name in ("quoted_trades", "bars"):
        driver.check(name)
