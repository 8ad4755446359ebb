"""The code location `headrace`: assets, checks, jobs, sensor and schedule of the pipelines in `assets/`."""

import os

from assets.positions import enriched_positions
from assets.readings import reading_counts
from assets.tightenings import screw_totals
from assets.visits import visit_batches
from headrace.orchestration import build_definitions

defs = build_definitions(
    [reading_counts, screw_totals, visit_batches, enriched_positions],
    group="demo",
    partitions_start=os.environ.get("HEADRACE_PARTITIONS_START", "2026-11-01"),
    sensor_running=os.environ.get("HEADRACE_SENSOR") == "running",
    first_checks_running=os.environ.get("HEADRACE_SENSOR") == "running",
)
