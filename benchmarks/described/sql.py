"""What windows must hold, by SQL over whole topics.

A record's stream time is the highest event time so far in its partition.
"""

from __future__ import annotations

READING = "partition, \"offset\", ms, key AS sensor_id, CAST(value->>'value' AS BIGINT) AS value"
COUNTED = "count(*) AS n, CAST(sum(value) AS BIGINT) AS total"


def read(topic: str, columns: str = READING, where: str = "true") -> str:
    """The records of a topic that count, typed."""
    return f"SELECT {columns} FROM {topic} WHERE {where}"


def timed(records: str) -> str:
    """Common tables: `timed`, the records with `stream`, and `ends`, with `lowest`: where the lowest stream time stands."""
    return f"""
        records AS ({records}),
        timed AS (
            SELECT *, max(ms) OVER (PARTITION BY partition ORDER BY "offset") AS stream FROM records
        ),
        ends AS (
            SELECT min(last) AS lowest FROM (SELECT max(ms) AS last FROM records GROUP BY partition)
        )"""


def windows(
    records: str, size_ms: int, advance_ms: int, grace_ms: int, columns: str = COUNTED, key: str = "sensor_id"
) -> str:
    """Tumbling and hopping windows that are closed."""
    return f"""
        WITH {timed(records)},
        entered AS (
            SELECT *, unnest(range({_first(size_ms, advance_ms)}, ms + 1, {advance_ms})) AS "start" FROM timed
        )
        SELECT {key}, "start", {columns}
        FROM entered, ends
        WHERE "start" + {size_ms + grace_ms} > stream AND "start" + {size_ms + grace_ms} <= lowest
        GROUP BY {key}, "start"
    """


def late(records: str, size_ms: int, advance_ms: int, grace_ms: int) -> str:
    """How many records enter no window: not even the last one that holds them is open."""
    last = f"ms - ms % {advance_ms}"
    return f"WITH {timed(records)} SELECT count(*) FROM timed WHERE {last} + {size_ms + grace_ms} <= stream"


def sliding(records: str, difference_ms: int, grace_ms: int) -> str:
    """Sliding windows that are closed: which there are, and of those the records that each was open to."""
    return f"""
        WITH {timed(records)},
        made AS (
            SELECT sensor_id, ms AS "end" FROM timed WHERE ms + {grace_ms} > stream
            UNION
            SELECT sensor_id, ms + {difference_ms + 1} FROM timed WHERE ms + {difference_ms + grace_ms} > stream
        )
        SELECT made.sensor_id, "end" - {difference_ms} AS "start", {COUNTED}
        FROM made JOIN timed ON made.sensor_id = timed.sensor_id
            AND ms BETWEEN "end" - {difference_ms} AND "end" AND "end" + {grace_ms} > stream, ends
        WHERE "end" + {grace_ms} <= lowest
        GROUP BY made.sensor_id, "end"
    """


def latest(topic: str, columns: str) -> str:
    """The newest record of each key of a topic; none where it is a tombstone."""
    return f"""
        SELECT {columns} FROM {topic} WHERE value IS NOT NULL
        AND ("partition", "offset") IN (
            SELECT (partition, max("offset")) FROM {topic} GROUP BY key, partition
        )
    """


def _first(size_ms: int, advance_ms: int) -> str:
    """The start of the first window that holds a time."""
    return f"greatest(0, ((ms - {size_ms}) // {advance_ms} + 1) * {advance_ms})"
