"""Readings of sensors, counted and summed in windows of two minutes."""

import headrace as hr

readings = hr.Topic("readings", key="sensor_id STRING", value="sensor_id STRING, value DOUBLE")

reading_counts = (
    readings.where("value >= 0")
    .group_by("sensor_id")
    .window(hr.tumbling("2 minutes"), grace="2 minutes")
    .aggregate(n=hr.count(), total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("reading_counts", description="How many readings each sensor sent, and their sum.")
)
