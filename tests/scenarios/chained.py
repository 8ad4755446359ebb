"""Nodes that read nodes: final counts and an alert, records that are enriched and added up, batches of batches."""

from __future__ import annotations

import headrace as hr

READINGS = hr.Topic("readings", key="sensor STRING", value="value INT", idle_timeout=None)
SENSORS = hr.Topic("sensors", key="sensor STRING", value="site STRING", idle_timeout=None)
COUNTS = (
    READINGS.group_by("sensor")
    .window(hr.tumbling("2 minutes"), grace="1 minute")
    .aggregate(n=hr.count())
    .suppress(hr.until_window_closes())
    .named("counts")
)
QUIET = COUNTS.as_stream().where("n < 4").named("quiet")
PER_TEN = (
    COUNTS.as_stream()
    .group_by("sensor")
    .window(hr.tumbling("10 minutes"), grace="0 minutes")
    .aggregate(windows=hr.count(), records=hr.sum("n"))
    .suppress(hr.until_window_closes())
    .named("per_ten")
)
ENRICHED = READINGS.lookup(SENSORS.table(), on="sensor", complete_first=False).named("enriched")
SITES = ENRICHED.group_by("site").aggregate(total=hr.sum("value"), newest=hr.last("value")).named("sites")
PAIRS = READINGS.group_by("sensor").batch(max_records=2, collect=["value"]).named("pairs")
FOURS = PAIRS.group_by("sensor").batch(max_records=2, collect=["records", "batch_id"]).named("fours")
