"""Values that compress a hundredfold, and one key with half of all records."""

from __future__ import annotations

import headrace as hr
from benchmarks.described import sql
from benchmarks.described.description import Description
from benchmarks.described.on_windows import FOUND, PLAIN, TOTALS, TWO, topic, tumbled

noted = topic("noted", "sensor_id STRING, value BIGINT, note STRING")
skewed = topic("skewed")
NOTED = f"{sql.READING}, value->>'note' AS note"
FOUND_BATCHES = "SELECT sensor_id, events, records, closed_by FROM found"
BATCH = 100

MEMORY = (
    PLAIN,
    Description(
        "notes of 1 kB, the last of a window",
        tumbled("noted", noted, note=hr.last("note")),
        sql.windows(
            sql.read("noted", NOTED), TWO, TWO, TWO, f'{sql.COUNTED}, arg_max(note, "offset") AS note'
        ),
        FOUND,
    ),
    Description(
        "half of all in one key: windows",
        tumbled("skewed_windows", skewed),
        sql.windows(sql.read("skewed"), TWO, TWO, TWO),
        FOUND,
    ),
    Description(
        "half of all in one key: totals",
        skewed.group_by("sensor_id").aggregate(**TOTALS).named("skewed_totals"),
        f"SELECT sensor_id, {sql.COUNTED} FROM ({sql.read('skewed')}) GROUP BY sensor_id",
    ),
    Description(
        "half of all in one key: batches",
        skewed.group_by("sensor_id")
        .batch(max_records=BATCH, max_wait="1 hour", collect=["value"])
        .named("skewed_batches"),
        f"""
        WITH numbered AS (
            SELECT *, (row_number() OVER (PARTITION BY sensor_id ORDER BY "offset") - 1) // {BATCH} AS batch
            FROM ({sql.read("skewed")})
        )
        SELECT sensor_id, list({{'value': value}} ORDER BY "offset") AS events, count(*) AS records, 'count' AS closed_by
        FROM numbered GROUP BY sensor_id, batch HAVING count(*) = {BATCH}
        """,
        FOUND_BATCHES,
    ),
)
