"""The code location that the lifecycle tests let Dagster load: the topic comes from the environment, the sensor is on."""

from __future__ import annotations

import os

from tests.orchestration.location import definitions_of

defs = definitions_of(os.environ["HEADRACE_TEST_TOPIC"], sensor_running=True)
