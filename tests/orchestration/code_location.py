"""The code location that the lifecycle tests let Dagster load: the topic comes from the environment, the sensor is on.

The sensor looks as often as Dagster's daemon, every five seconds, so that the tests wait less.
"""

from __future__ import annotations

import os

from headrace.orchestration import sensors
from tests.orchestration.location import definitions_of

sensors.LOOK_EVERY_SECONDS = 5
defs = definitions_of(os.environ["HEADRACE_TEST_TOPIC"], sensor_running=True)
