"""The windows whose tables other systems made, and that audits compare with the log."""

from __future__ import annotations

import headrace as hr

READINGS = hr.Topic("readings", key="sensor STRING", value="value BIGINT", idle_timeout=None)
WINDOWS = (
    READINGS.group_by()
    .window(hr.tumbling("1 minute"), grace="30 seconds")
    .aggregate(total=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("windows")
)
