"""Sensors: mean temperatures of each room, where devices move, and devices that fall silent."""

import headrace as hr

readings = hr.Topic(
    "sensor_readings",
    key="device_id STRING",
    value="temperature DOUBLE, battery STRUCT<percent: INT, volts: DOUBLE>, measured_at BIGINT NOT NULL",
    timestamp="measured_at",
    idle_timeout="30 seconds",
)
devices = hr.Topic("devices", key="device_id STRING", value="site STRING, room STRING, installed_at TIMESTAMP")

placed = readings.where("temperature BETWEEN -50 AND 80").lookup(
    devices.table(), on="device_id", as_of="event", history="1 day"
)
room_temperatures = (
    placed.group_by("site", "room")
    .window(hr.tumbling("5 minutes"), grace="1 minute")
    .aggregate(
        devices=hr.count_distinct("device_id"),
        mean=hr.avg("temperature", scale=2),
        lowest_battery=hr.min("battery.percent"),
    )
    .suppress(hr.until_window_closes())
    .named("room_temperatures", description="Mean temperature of each room in five minutes.")
)
silent_devices = (
    readings.group_by()
    .window(hr.session("2 minutes"), grace="30 seconds")
    .aggregate(readings=hr.count(), last_battery=hr.last("battery.percent"))
    .suppress(hr.until_window_closes())
    .where("device_id IS NOT NULL")
    .lookup(devices.table(), on="device_id")
    .select("device_id", "window_end AS last_seen", "last_battery", "site", "room")
    .to(hr.KafkaSink("silent_devices"))
    .named("silent_devices", description="Devices without a reading for two minutes.")
)
