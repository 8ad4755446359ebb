"""The code location that the lifecycle tests let Dagster load: the topic comes from the environment, the sensor is on.

The sensor looks each time that Dagster's daemon goes round, which is every five seconds, so that the tests wait less;
so does the stream report, every two.
"""

from __future__ import annotations

import os

from headrace.orchestration import sensors, streams
from headrace.orchestration.events.progress import Cadence
from tests.orchestration.location import OBSERVE_SECONDS, definitions_of

sensors.LOOK_EVERY_SECONDS = 1  # with five, every other round comes too early
vars(streams)["Cadence"] = lambda *_: Cadence(OBSERVE_SECONDS, OBSERVE_SECONDS, 600.0)
defs = definitions_of(os.environ["HEADRACE_TEST_TOPIC"], sensor_running=True)
