"""Our side of `benchmarks/topic_to_table.py`: a topic becomes a table by `headrace run`, which dies and begins again."""

from __future__ import annotations

import os

import headrace as hr

visits = hr.Topic(
    os.environ["HEADRACE_COMPARED_TOPIC"],
    key="id STRING",
    value="customerId STRING, visitorId STRING, action STRING",
    idle_timeout=None,
)
PLACES = ("record_partition() AS `partition`", "record_offset() AS `offset`")
rows = visits.select(*PLACES, "customerId", "visitorId", "action").named("visits")
