"""Totals, tables, joins, lookups and batches."""

from __future__ import annotations

import headrace as hr
from benchmarks.described import sql
from benchmarks.described.description import Description
from benchmarks.described.on_windows import TOTALS, readings, topic

POSITION = "key AS id, value->>'client' AS client, value->>'ticker' AS ticker, CAST(value->>'amount' AS BIGINT) AS amount"
TICKER = "key AS ticker, value->>'exchange' AS exchange, CAST(value->>'version' AS BIGINT) AS version"
SENSOR = "value->>'site' AS site, CAST(value->>'version' AS BIGINT) AS version"
BATCH = 10


def _positions(size: str) -> hr.Topic:
    return hr.Topic(
        f"positions_{size}",
        key="id STRING",
        value="client STRING, ticker STRING, amount BIGINT",
        idle_timeout=None,
    )


def _joined(name: str, size: str) -> Description:
    tickers = hr.Topic(
        f"tickers_{size}", key="ticker STRING", value="exchange STRING, version BIGINT", idle_timeout=None
    )
    left, right = sql.latest(f"positions_{size}", POSITION), sql.latest(f"tickers_{size}", TICKER)
    wanted = f"""
        SELECT id, client, ticker, amount, exchange, version
        FROM ({left}) LEFT JOIN ({right}) USING (ticker)
    """
    joined = _positions(size).table().join(tickers.table(), on="ticker", how="left")
    found = "SELECT id, client, ticker, amount, exchange, version FROM found"
    return Description(name, joined.named(f"joined_{size}"), wanted, found)


sensors = topic("sensors", "site STRING, version BIGINT")
FOUND_LOOKUP = "SELECT sensor_id, value, site, version FROM found"
# The place of a row: commit time, topic, partition, offset.
AS_OF_LOG = f"""
    WITH placed AS (
        SELECT r.*, committed_ms, 0 AS side FROM readings r JOIN readings_log USING (partition, "offset")
        UNION ALL
        SELECT s.*, committed_ms, 1 AS side FROM sensors s JOIN sensors_log USING (partition, "offset")
    ),
    ranked AS (SELECT *, row_number() OVER (ORDER BY committed_ms, side, partition, "offset") AS place FROM placed)
    SELECT r.key AS sensor_id, CAST(r.value->>'value' AS BIGINT) AS value, s.site, s.version
    FROM (SELECT * FROM ranked WHERE side = 0) r
    ASOF LEFT JOIN (SELECT key, place, {SENSOR} FROM ranked WHERE side = 1) s
    ON r.key = s.key AND r.place > s.place
"""
# Event times of `sensors` rise, so all versions up to a record's time are there when it is released. It is released when
# both topics are beyond its time.
AS_OF_TIME = f"""
    WITH ends AS (
        SELECT min(last) AS lowest FROM (
            SELECT max(ms) AS last FROM readings GROUP BY partition
            UNION ALL SELECT max(ms) FROM sensors GROUP BY partition
        )
    ),
    versions AS (
        SELECT key, ms, {SENSOR} FROM sensors
        QUALIFY row_number() OVER (PARTITION BY key, ms ORDER BY "offset" DESC) = 1
    )
    SELECT r.key AS sensor_id, CAST(r.value->>'value' AS BIGINT) AS value, s.site, s.version
    FROM (SELECT readings.* FROM readings, ends WHERE ms < lowest) r
    ASOF LEFT JOIN versions s ON r.key = s.key AND r.ms >= s.ms
"""
VISIT = "key AS customer_id, value->>'site' AS site, value->>'visitor_id' AS visitor_id, value->>'action' AS action"
BATCHES = f"""
    WITH numbered AS (
        SELECT *, (row_number() OVER (PARTITION BY customer_id, site ORDER BY "offset") - 1) // {BATCH} AS batch
        FROM (SELECT *, {VISIT} FROM visits)
    )
    SELECT customer_id, site,
        list({{'visitor_id': visitor_id, 'action': action}} ORDER BY "offset") AS events,
        count(*) AS records, 'count' AS closed_by
    FROM numbered GROUP BY customer_id, site, batch HAVING count(*) = {BATCH}
"""

ON_TABLES = (
    Description(
        "batches by two keys",
        topic("visits", "site STRING, visitor_id STRING, action STRING", key="customer_id STRING")
        .group_by("customer_id", "site")
        .batch(max_records=BATCH, max_wait="1 hour", collect=["visitor_id", "action"])
        .named("batches"),
        BATCHES,
        "SELECT customer_id, site, events, records, closed_by FROM found",
    ),
    Description(
        "totals",
        readings.group_by("sensor_id").aggregate(**TOTALS).named("totals"),
        f"SELECT sensor_id, {sql.COUNTED} FROM ({sql.read('readings')}) GROUP BY sensor_id",
    ),
    Description(
        "tables",
        readings.table().named("latest"),
        sql.latest("readings", sql.READING.partition("ms, ")[2]),
        "SELECT sensor_id, value FROM found",
    ),
    Description(
        "grouped tables",
        _positions("small")
        .table()
        .group_by("client")
        .aggregate(n=hr.count(), total=hr.sum("amount"))
        .named("clients"),
        f"""
        SELECT client, count(*) AS n, CAST(sum(amount) AS BIGINT) AS total
        FROM ({sql.latest("positions_small", POSITION)}) GROUP BY client
        """,
    ),
    Description(
        "lookups in log order",
        readings.lookup(sensors.table(), on="sensor_id", complete_first=False).named("looked_up"),
        AS_OF_LOG,
        FOUND_LOOKUP,
        by_commit=True,
    ),
    Description(
        "lookups as of event time",
        readings.lookup(sensors.table(), on="sensor_id", as_of="event", complete_first=False).named(
            "looked_up_in_time"
        ),
        AS_OF_TIME,
        FOUND_LOOKUP,
    ),
    _joined("small join, rows = records / 50", "small"),
    _joined("large join, rows = records x 2", "large"),
)
