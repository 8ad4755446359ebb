"""What the tests share: one Spark session for the process, and how many examples the laws try."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from headrace.local.jars import spark_jars
from headrace.spark.session import build_session, spark_conf
from headrace.testing import TestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node

# `CI` decides the profile; HEADRACE_EXAMPLES says how many random worlds each law is tried in.
COMMON: dict[str, Any] = {
    "max_examples": int(os.environ.get("HEADRACE_EXAMPLES", "4")),
    "deadline": None,
    "print_blob": True,
    # A world takes a minute to live through, and shrinking it takes hundreds: what failed is printed as it is.
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
}
settings.register_profile("local", settings(**COMMON))
settings.register_profile("ci", settings(**COMMON, database=None, derandomize=True))
settings.load_profile("ci" if os.environ.get("CI") else "local")

# The quick compiler alone is twice as fast for minutes, if what it compiles has room.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
SHORT_LIVED = {"spark.driver.extraJavaOptions": OPTIONS}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The process's Spark session."""
    session = build_session(spark_conf(spark_jars()) | SHORT_LIVED, "headrace-tests")
    yield session
    session.stop()


Drive = Callable[..., TestDriver]


@pytest.fixture
def drive(spark: SparkSession) -> Iterator[Drive]:
    """Start test drivers for nodes, and close them after the test."""
    drivers: list[TestDriver] = []

    def start(*nodes: Node) -> TestDriver:
        drivers.append(TestDriver(nodes, spark))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()
