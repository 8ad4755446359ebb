"""Tick data: each trade with the quote of its moment, and OHLC bars of a minute."""

import headrace as hr

trades = hr.Topic(
    "trades",
    key="symbol STRING",
    value="price DECIMAL(18,4) NOT NULL, size BIGINT NOT NULL, venue STRUCT<mic: STRING, country: STRING>, at TIMESTAMP NOT NULL",
    timestamp="at",
)
quotes = hr.Topic(
    "quotes",
    key="symbol STRING",
    value="bid DECIMAL(18,4), ask DECIMAL(18,4), at TIMESTAMP NOT NULL",
    timestamp="at",
)

quoted_trades = (
    trades.lookup(quotes.select("symbol", "bid", "ask").table(), on="symbol", as_of="event", history="10 minutes")
    .with_column("slippage", "price - (bid + ask) / 2")
    .with_column("mic", "venue.mic")
    .named("quoted_trades", description="Trades with the quote as of their event time.")
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
    .named("bars", description="Open, high, low, close and volume of each symbol and minute.")
)
