"""The queries, each beside SQL over whole topics that its rows must equal.

The numbers are those of Apache Flink's version. q6, q10 and q13 are left out: an average over the last ten rows, files by
time, and a table of numbers beside the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import headrace as hr
from benchmarks.described import Description

if TYPE_CHECKING:
    from headrace.description import Stream

SECOND, DAY = 1_000, 86_400_000
TEN = 10 * SECOND


def _topic(name: str, value: str) -> hr.Topic:
    return hr.Topic(name, key="id BIGINT", value=value, idle_timeout=None)


PERSONS = _topic("person", "name STRING, city STRING, state STRING")
AUCTIONS = _topic(
    "auction",
    "item_name STRING, initial_bid BIGINT, reserve BIGINT, expires BIGINT, seller BIGINT, category INT",
)
BIDS = _topic("bid", "auction BIGINT, price BIGINT, channel STRING, url STRING, extra STRING")
PERSON = """(SELECT ms, CAST(key->>'id' AS BIGINT) AS id, value->>'name' AS name, value->>'city' AS city,
    value->>'state' AS state FROM person)"""
AUCTION = """(SELECT ms, CAST(key->>'id' AS BIGINT) AS id, CAST(value->>'expires' AS BIGINT) AS expires,
    CAST(value->>'seller' AS BIGINT) AS seller, CAST(value->>'category' AS INT) AS category,
    value->>'item_name' AS item_name FROM auction)"""
BID = """(SELECT partition, "offset", ms, CAST(key->>'id' AS BIGINT) AS id, CAST(value->>'auction' AS BIGINT) AS auction,
    CAST(value->>'price' AS BIGINT) AS price, value->>'channel' AS channel, value->>'url' AS url,
    value->>'extra' AS extra FROM bid)"""
# How far all partitions of a topic have come; a window is closed up to there.
BID_END = "(SELECT min(last) AS lowest FROM (SELECT max(ms) AS last FROM bid GROUP BY partition))"
BOTH_END = """(SELECT min(last) AS lowest FROM (
    SELECT max(ms) AS last FROM bid GROUP BY partition UNION ALL SELECT max(ms) FROM auction GROUP BY partition))"""
# Bids on auctions that were open when they were made. A lookup in event time releases a bid once both topics are beyond it.
VALID = f"""(SELECT b.*, category, item_name, seller FROM {BID} b JOIN {AUCTION} a ON b.auction = a.id, {BOTH_END}
    WHERE b.ms BETWEEN a.ms AND a.expires AND b.ms < lowest)"""

at = BIDS.with_column("at_ms", "CAST(unix_millis(record_timestamp()) AS BIGINT)")
valid = at.lookup(AUCTIONS.table(), on="auction", as_of="event", how="inner", complete_first=False).where(
    "at_ms <= expires"
)
per_auction = (
    BIDS.group_by("auction")
    .window(hr.hopping("10 seconds", "2 seconds"), grace="0 seconds")
    .aggregate(n=hr.count())
)
hottest = per_auction.group_by("window_start").aggregate(most=hr.max("n"))
people = (
    PERSONS.group_by("id", "name")
    .window(hr.tumbling("10 seconds"), grace="0 seconds")
    .aggregate(made=hr.count())
)
sellers = (
    AUCTIONS.group_by("seller")
    .window(hr.tumbling("10 seconds"), grace="0 seconds")
    .aggregate(auctions=hr.count())
)
RANKS = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}


def _ranked(*more: str) -> Stream:
    """Bids with their day, and with what each rank counts."""
    columns = [f"IF({test}, 1, NULL) AS {rank}" for rank, test in RANKS.items()]
    columns += [f"IF({test}, id, NULL) AS bidder_{rank}" for rank, test in RANKS.items()]
    columns += [f"IF({test}, auction, NULL) AS auction_{rank}" for rank, test in RANKS.items()]
    day = "date_format(record_timestamp(), 'yyyy-MM-dd') AS day"
    return BIDS.select("id", "auction", "price", "channel", day, *columns, *more)


COUNTS = {"total_bids": hr.count(), **{f"{rank}_bids": hr.count(rank) for rank in RANKS}}
DISTINCT = {
    "total_bidders": hr.count_distinct("id"),
    **{f"{rank}_bidders": hr.count_distinct(f"bidder_{rank}") for rank in RANKS},
    "total_auctions": hr.count_distinct("auction"),
    **{f"{rank}_auctions": hr.count_distinct(f"auction_{rank}") for rank in RANKS},
}
SQL_DAY = "strftime(make_timestamp(ms * 1000), '%Y-%m-%d') AS day"
SQL_COUNTS = ", ".join(
    ["count(*) AS total_bids"] + [f"count(*) FILTER ({test}) AS {rank}_bids" for rank, test in RANKS.items()]
)
SQL_DISTINCT = ", ".join(
    f"count(DISTINCT {column}){f' FILTER ({test})' if test else ''} AS {rank}_{name}"
    for column, name in (("id", "bidders"), ("auction", "auctions"))
    for rank, test in {"total": "", **RANKS}.items()
)
CHANNEL = """CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
    WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
    ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END"""
CHANNELS = f"({CHANNEL}) <> ''"
TIME = "CASE WHEN {0} BETWEEN 8 AND 18 THEN 'dayTime' WHEN {0} <= 6 OR {0} >= 20 THEN 'nightTime' ELSE 'otherTime' END"

QUERIES = (
    Description(
        "q0: pass through",
        BIDS.select("id", "auction", "price", "channel", "url").named("q0"),
        f"SELECT id, auction, price, channel, url FROM {BID}",
    ),
    Description(
        "q1: currency conversion",
        BIDS.select("id", "auction", "CAST(price * 0.908 AS DECIMAL(23, 3)) AS price").named("q1"),
        f"SELECT id, auction, CAST(price * 0.908 AS DECIMAL(23, 3)) AS price FROM {BID}",
    ),
    Description(
        "q2: selection",
        BIDS.where("auction % 123 = 0").select("id", "auction", "price").named("q2"),
        f"SELECT id, auction, price FROM {BID} WHERE auction % 123 = 0",
    ),
    Description(
        "q3: local items",
        AUCTIONS.where("category = 10")
        .table()
        .join(
            PERSONS.where("state IN ('OR', 'ID', 'CA')").table(),
            on="seller",
            select=("name", "city", "state"),
        )
        .named("q3"),
        f"""SELECT a.id, name, city, state FROM {AUCTION} a JOIN {PERSON} p ON seller = p.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    ),
    Description(
        "q4: average closing price of a category",
        valid.group_by("auction", "category")
        .aggregate(final=hr.max("price"))
        .group_by("category")
        .aggregate(price=hr.avg("final"))
        .named("q4"),
        f"""SELECT category, round(avg(final), 6) AS price
        FROM (SELECT category, max(price) AS final FROM {VALID} GROUP BY auction, category) GROUP BY category""",
        "SELECT category, round(price, 6) AS price FROM found",
        chained=True,
    ),
    Description(
        "q5: hot items",
        per_auction.join(hottest, on="window_start").where("n = most").named("q5"),
        f"""SELECT auction, "start", n FROM (
            SELECT auction, "start", count(*) AS n FROM (
                SELECT auction, unnest(range(ms // 2000 * 2000 - 8000, ms + 1, 2000)) AS "start" FROM {BID}
            ) GROUP BY ALL
        ) QUALIFY n = max(n) OVER (PARTITION BY "start")""",
        'SELECT auction, window_start AS "start", n FROM found',
    ),
    Description(
        "q7: highest bid",
        BIDS.select("price", "struct(id, auction, price) AS bid", "'all' AS of")
        .group_by("of")
        .window(hr.tumbling("10 seconds"), grace="0 seconds")
        .aggregate(price=hr.max("price"), bid=hr.max_by("bid", by="price"))
        .suppress(hr.until_window_closes())
        .named("q7"),
        f"""SELECT ms // {TEN} * {TEN} AS "start", max(price) AS price, true AS there FROM {BID}, {BID_END}
        GROUP BY 1, lowest HAVING "start" + {TEN} <= lowest""",
        f"""SELECT window_start AS "start", price, EXISTS (
            SELECT * FROM {BID} b WHERE b.ms // {TEN} * {TEN} = window_start AND b.price = found.price
            AND b.id = bid.id AND b.auction = bid.auction
        ) AS there FROM found""",
    ),
    Description(
        "q8: new users who sell",
        people.join(sellers, on=("id", "window_start"), select=("auctions",)).named("q8"),
        f"""SELECT p.id, name, p."start", auctions FROM
        (SELECT id, name, ms // {TEN} * {TEN} AS "start" FROM {PERSON}) p JOIN
        (SELECT seller, ms // {TEN} * {TEN} AS "start", count(*) AS auctions FROM {AUCTION} GROUP BY ALL) s
        ON p.id = seller AND p."start" = s."start" """,
        'SELECT id, name, window_start AS "start", auctions FROM found',
    ),
    Description(
        "q9: winning bids",
        valid.with_column("rank", "CAST(struct(price, -at_ms) AS STRUCT<price: BIGINT, early: BIGINT>)")
        .group_by("auction")
        .aggregate(price=hr.max("price"), at_ms=hr.max_by("at_ms", by="rank"))
        .named("q9"),
        f"""SELECT auction, price, ms AS at_ms FROM {VALID}
        QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC, ms) = 1""",
        "SELECT auction, price, at_ms FROM found",
        chained=True,
    ),
    Description(
        "q11: sessions of bidders",
        BIDS.group_by("id")
        .window(hr.session("10 seconds"), grace="0 seconds")
        .aggregate(bids=hr.count())
        .suppress(hr.until_window_closes())
        .named("q11"),
        f"""SELECT id, min(ms) AS "start", max(ms) AS "end", count(*) AS bids FROM (
            SELECT *, sum(begins) OVER (PARTITION BY id ORDER BY "offset") AS session FROM (
                SELECT *, CASE WHEN ms - lag(ms) OVER (PARTITION BY id ORDER BY "offset") <= {TEN} THEN 0 ELSE 1 END
                AS begins FROM {BID})
        ) JOIN (SELECT partition, max(ms) AS lowest FROM bid GROUP BY partition) USING (partition)
        GROUP BY id, session, lowest HAVING max(ms) + {TEN} <= lowest""",
        'SELECT id, window_start AS "start", window_end AS "end", bids FROM found',
    ),
    Description(
        "q12: bids by processing time",
        BIDS.group_by("id")
        .window(hr.tumbling("10 seconds"), clock="wall")
        .aggregate(bids=hr.count())
        .named("q12"),
        f"""SELECT id, committed_ms // {TEN} * {TEN} AS "start", count(*) AS bids
        FROM {BID} JOIN bid_log USING (partition, "offset") GROUP BY ALL""",
        'SELECT id, window_start AS "start", bids FROM found',
        by_commit=True,
    ),
    Description(
        "q14: calculation",
        BIDS.where("0.908 * price > 1000000 AND 0.908 * price < 50000000")
        .select(
            "id",
            "auction",
            "CAST(price * 0.908 AS DECIMAL(23, 3)) AS price",
            f"{TIME.format('hour(record_timestamp())')} AS bid_time",
            "length(extra) - length(replace(extra, 'c', '')) AS c_counts",
        )
        .named("q14"),
        f"""SELECT id, auction, CAST(price * 0.908 AS DECIMAL(23, 3)) AS price,
        {TIME.format("hour(make_timestamp(ms * 1000))")} AS bid_time,
        length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM {BID} WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    ),
    Description(
        "q15: bids of a day",
        _ranked().group_by("day").aggregate(**COUNTS, **DISTINCT).named("q15"),
        f"SELECT {SQL_DAY}, {SQL_COUNTS}, {SQL_DISTINCT} FROM {BID} GROUP BY day",
    ),
    Description(
        "q16: bids of a channel",
        _ranked("date_format(record_timestamp(), 'HH:mm') AS minute")
        .group_by("channel", "day")
        .aggregate(last_minute=hr.max("minute"), **COUNTS, **DISTINCT)
        .named("q16"),
        f"""SELECT channel, {SQL_DAY}, strftime(make_timestamp(max(ms) * 1000), '%H:%M') AS last_minute, {SQL_COUNTS},
        {SQL_DISTINCT} FROM {BID} GROUP BY channel, day""",
    ),
    Description(
        "q17: bids of an auction",
        _ranked()
        .group_by("auction", "day")
        .aggregate(
            **COUNTS,
            lowest=hr.min("price"),
            highest=hr.max("price"),
            total=hr.sum("price"),
            mean=hr.avg("price"),
        )
        .named("q17"),
        f"""SELECT auction, {SQL_DAY}, {SQL_COUNTS}, min(price) AS lowest, max(price) AS highest,
        CAST(sum(price) AS BIGINT) AS total, round(avg(price), 6) AS mean FROM {BID} GROUP BY auction, day""",
        "SELECT * REPLACE (round(mean, 6) AS mean) FROM found",
    ),
    Description(
        "q18: last bid",
        BIDS.group_by("id", "auction").aggregate(price=hr.last("price"), url=hr.last("url")).named("q18"),
        f"""SELECT id, auction, price, url FROM {BID}
        QUALIFY row_number() OVER (PARTITION BY id, auction ORDER BY "offset" DESC) = 1""",
        "SELECT id, auction, price, url FROM found",
    ),
    Description(
        "q19: ten best bids of an auction",
        BIDS.group_by("auction").aggregate(best=hr.top(10, "price", by="price")).named("q19"),
        f"SELECT auction, list(price ORDER BY price DESC)[:10] AS best FROM {BID} GROUP BY auction",
        "SELECT auction, best FROM found",
    ),
    Description(
        "q20: bids with their auctions",
        BIDS.lookup(AUCTIONS.table(), on="auction", as_of="event", how="inner", complete_first=False)
        .where("category = 10")
        .select("id", "auction", "price", "item_name", "seller")
        .named("q20"),
        f"""SELECT b.id, auction, price, item_name, seller FROM {BID} b JOIN {AUCTION} a ON auction = a.id, {BOTH_END}
        WHERE category = 10 AND b.ms >= a.ms AND b.ms < lowest""",
        chained=True,
    ),
    Description(
        "q21: channels",
        BIDS.where(CHANNELS)
        .select("id", "auction", "price", "channel", f"{CHANNEL} AS channel_id")
        .named("q21"),
        f"SELECT id, auction, price, channel, {CHANNEL} AS channel_id FROM {BID} WHERE {CHANNELS}",
    ),
    Description(
        "q22: parts of addresses",
        BIDS.select(
            "id",
            "auction",
            *(f"split_part(url, '/', {number + 3}) AS dir{number}" for number in (1, 2, 3)),
        ).named("q22"),
        f"""SELECT id, auction, {", ".join(f"split_part(url, '/', {n + 3}) AS dir{n}" for n in (1, 2, 3))} FROM {BID}""",
    ),
)
