"""The code location under test: one topic, one node, strict event time. No Spark and no broker to import it."""

from __future__ import annotations

import os

import dagster as dg

from headrace.orchestration import build_definitions
from tests.broker.pipeline import counts_of

OBSERVE_SECONDS = 2.0
STANDBY = "HEADRACE_TEST_STANDBY"


def definitions_of(topic: str, *, sensor_running: bool = False) -> dg.Definitions:
    """The lake, the docs and Kafka come from the environment; with a run that stands by if that says so."""
    return build_definitions(
        [counts_of(topic)],
        partitions_start="2024-04-01",
        group="test",
        sensor_running=sensor_running,
        standby=os.environ.get(STANDBY) == "true",
    )


def stream_config(**changed: float) -> dict[str, object]:
    """Run configuration of the stream job: quick to speak."""
    config = {"observe_every_seconds": OBSERVE_SECONDS, "materialize_every_minutes": 0.1, **changed}
    return {"ops": {"host_streams": {"config": config}}}
