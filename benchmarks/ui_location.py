"""The code location of `benchmarks.ui_growth`: one topic, one node, the sensor on."""

from benchmarks.readings import counts
from headrace.orchestration import build_definitions

defs = build_definitions([counts()], partitions_start="2026-01-01", sensor_running=True)
