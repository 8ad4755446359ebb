"""Positions of clients, each with the ticker that it is in, as of now: both change, and rows of both disappear."""

import headrace as hr

positions = hr.Topic(
    "positions", key="position_id STRING", value="client STRING, ticker STRING, amount BIGINT"
)
tickers = hr.Topic("tickers", key="ticker STRING", value="exchange STRING, name STRING, founded INT")

enriched_positions = (
    positions.table()
    .join(tickers.table(), on="ticker", how="left")
    .named("enriched_positions", description="Every open position, and the exchange and name of its ticker.")
)
