"""Windows, and what can be aggregated in them: each description differs from plain tumbling windows in one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import headrace as hr
from benchmarks.described import folds, sql
from benchmarks.described.description import Description

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.description import Aggregate, Node, Stream, WindowedAggregate

MINUTE = 60_000
TWO = 2 * MINUTE
BOUND = 10_000_000  # open windows in a partition: never reached
FOUND = (
    'SELECT sensor_id, window_start AS "start", * EXCLUDE (sensor_id, window_start, window_end) FROM found'
)
FOUND_SESSIONS = 'SELECT sensor_id, window_start AS "start", window_end AS "end", n, total FROM found'
TOTALS = {"n": hr.count(), "total": hr.sum("value")}


def topic(name: str, value: str = "sensor_id STRING, value BIGINT", **options: Any) -> hr.Topic:
    """A topic of readings."""
    return hr.Topic(name, **{"key": "sensor_id STRING", "value": value, "idle_timeout": None, **options})


def tumbled(name: str, of: hr.Topic | Stream, **more: Aggregate) -> WindowedAggregate:
    """Two minutes, two of grace, final results."""
    windows = of.group_by("sensor_id").window(hr.tumbling("2 minutes"), grace="2 minutes")
    return windows.aggregate(**TOTALS, **more).suppress(hr.until_window_closes()).named(name)


def _windows(
    name: str,
    node: Node,
    records: str,
    columns: str = sql.COUNTED,
    size_ms: int = TWO,
    advance_ms: int = TWO,
    **options: Any,
) -> Description:
    wanted = sql.windows(records, size_ms, advance_ms, TWO, columns)
    fates = {"late": sql.late(records, size_ms, advance_ms, TWO), **options.pop("fates", {})}
    return Description(name, node, wanted, FOUND, fates, **options)


def doubled(readings: DataFrame) -> DataFrame:
    """The function of the `transform`."""
    return readings.withColumn("value", F.col("value") * 2)


readings = topic("readings")
grouped = readings.group_by("sensor_id")
PLAIN = _windows("tumbling", tumbled("tumbling", readings), sql.read("readings"))

# Of whole numbers below 2^53 each step is exact, and rounded once.
DEVIATION = """
    CASE WHEN count(*) > 1 THEN sqrt(
        CAST(count(*) * sum(value * value) - sum(value) * sum(value) AS DOUBLE)
        / CAST(count(*) * (count(*) - 1) AS DOUBLE)
    ) END AS deviation"""
CHAINED = "partition, \"offset\", ms, key AS sensor_id, CAST(value->>'value' AS BIGINT) AS value, chain"
ROOT = "CAST(chain->0->>1 AS INT), CAST(chain->0->>2 AS BIGINT)"


def _admitted(first: str) -> str:
    """The records of `chained` that are no replays."""
    judged = f"SELECT *, {first} AS is_first FROM ({sql.read('chained', CHAINED)})"
    return f"SELECT * FROM ({judged}) WHERE is_first"


# Each root position once; the monotone guard: beyond the highest on its path, which is root partition and partition.
ONCE = f'row_number() OVER (PARTITION BY {ROOT} ORDER BY partition, "offset") = 1'
BEYOND = (
    "coalesce(CAST(chain->0->>2 AS BIGINT) > max(CAST(chain->0->>2 AS BIGINT)) OVER ("
    'PARTITION BY CAST(chain->0->>1 AS INT), partition ORDER BY "offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING'
    "), true)"
)


def _guarded(mode: str, first: str) -> Description:
    of, records = topic("chained", replay_guard=hr.ReplayGuard(mode=mode)), _admitted(first)
    replays = f"SELECT (SELECT count(*) FROM chained) - (SELECT count(*) FROM ({records}))"
    return _windows(f"{mode} guard", tumbled(f"{mode}_guard", of), records, fates={"replay": replays})


NESTED = topic(
    "nested",
    "sensor_id STRING, value BIGINT, place STRUCT<site: STRING, floor: INT>, tags ARRAY<STRING>, more MAP<STRING, INT>",
)
LEVEL = (
    "CAST(value->'place'->>'floor' AS BIGINT) + json_array_length(value->'tags') "
    "+ CAST(value->'more'->>'step' AS BIGINT)"
)

ON_WINDOWS = (
    PLAIN,
    _windows(
        "hopping, 10 min by 1 min",
        grouped.window(hr.hopping("10 minutes", advance="1 minute"), grace="2 minutes")
        .aggregate(**TOTALS)
        .suppress(hr.until_window_closes())
        .named("hopping"),
        sql.read("readings"),
        size_ms=10 * MINUTE,
        advance_ms=MINUTE,
        in_and_out=True,
    ),
    _windows(
        "stddev",
        tumbled("stddev", readings, deviation=hr.stddev("value")),
        sql.read("readings"),
        f"{sql.COUNTED}, {DEVIATION}",
    ),
    _windows(
        "last",
        tumbled("last", readings, latest=hr.last("value")),
        sql.read("readings"),
        f'{sql.COUNTED}, arg_max(value, "offset") AS latest',
    ),
    Description(
        "session, gap 5 min",
        grouped.window(hr.session("5 minutes"), grace="2 minutes")
        .aggregate(**TOTALS)
        .suppress(hr.until_window_closes())
        .named("session"),
        folds.sessions(sql.read("readings"), 5 * MINUTE, TWO),
        FOUND_SESSIONS,
    ),
    Description(
        "sliding, 2 min",
        grouped.window(hr.sliding("2 minutes"), grace="2 minutes")
        .aggregate(**TOTALS)
        .suppress(hr.until_window_closes())
        .named("sliding"),
        sql.sliding(sql.read("readings"), TWO, TWO),
        FOUND,
        in_and_out=True,
    ),
    Description(
        "time limit, 10 min",
        grouped.aggregate(**TOTALS).suppress(hr.until_time_limit("10 minutes")).named("time_limit"),
        folds.waits(sql.read("readings"), 10 * MINUTE),
    ),
    _windows(
        "DECIMAL values",
        tumbled("decimals", topic("amounts", "sensor_id STRING, value DECIMAL(10,2)")),
        sql.read(
            "amounts",
            "partition, \"offset\", ms, key AS sensor_id, CAST(value->>'value' AS DECIMAL(10, 2)) AS value",
        ),
        "count(*) AS n, sum(value) AS total",
    ),
    _windows(
        "DOUBLE values",
        tumbled("doubles", topic("amounts", "sensor_id STRING, value DOUBLE")),
        sql.read(
            "amounts",
            "partition, \"offset\", ms, key AS sensor_id, CAST(value->>'value' AS DECIMAL(10, 2)) AS value",
        ),
        "count(*) AS n, CAST(CAST(sum(value) * 100 AS BIGINT) AS DOUBLE) / 100 AS total",
    ),
    _windows(
        "event time from a TIMESTAMP",
        tumbled(
            "stamped",
            topic("stamped", "sensor_id STRING, value BIGINT, at TIMESTAMP", timestamp="at"),
        ),
        sql.read(
            "stamped",
            "partition, \"offset\", epoch_ms(CAST(rtrim(value->>'at', 'Z') AS TIMESTAMP)) AS ms, "
            "key AS sensor_id, CAST(value->>'value' AS BIGINT) AS value",
        ),
    ),
    _windows(
        "nested values",
        tumbled(
            "nested",
            NESTED.with_column("level", "place.floor + size(tags) + more['step']"),
            levels=hr.sum("level"),
        ),
        sql.read("nested", f"{sql.READING}, {LEVEL} AS level"),
        f"{sql.COUNTED}, CAST(sum(level) AS BIGINT) AS levels",
    ),
    _windows(
        "one malformed in a thousand",
        tumbled("malformed", topic("malformed")),
        sql.read("malformed", where="json_valid(value)"),
        fates={"dead_letter": "SELECT count(*) FROM malformed WHERE NOT json_valid(value)"},
    ),
    _windows(
        "transform",
        tumbled("transformed", readings.transform(doubled, columns="sensor_id STRING, value BIGINT")),
        sql.read("readings"),
        "count(*) AS n, CAST(sum(value * 2) AS BIGINT) AS total",
    ),
    _windows(
        "where, two computed columns",
        tumbled(
            "computed",
            readings.with_column("label", "upper(substring(sensor_id, 1, 3))")
            .with_column("value", "value * 2 + 1")
            .where("label <> 'ZZZ' AND value IS NOT NULL"),
        ),
        sql.read("readings"),
        "count(*) AS n, CAST(sum(value * 2 + 1) AS BIGINT) AS total",
    ),
    _windows(
        "groups by integer",
        tumbled("numbered", topic("numbered", "value BIGINT", key="sensor_id BIGINT")),
        sql.read(
            "numbered",
            "partition, \"offset\", ms, CAST(key->>'sensor_id' AS BIGINT) AS sensor_id, "
            "CAST(value->>'value' AS BIGINT) AS value",
        ),
    ),
    _windows(
        "bound that shuts down",
        grouped.window(hr.tumbling("2 minutes"), grace="2 minutes")
        .aggregate(**TOTALS)
        .suppress(hr.until_window_closes(max_records=BOUND, when_full="shut_down"))
        .named("bounded"),
        sql.read("readings"),
    ),
    _guarded("monotone", BEYOND),
    _guarded("exact", ONCE),
)
