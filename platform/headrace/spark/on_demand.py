"""A Spark session that starts when something of it is needed: most lives of a test need none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, pipeline_session, spark_conf

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

NOT_STARTED = ""


class SparkOnDemand:
    """Stands where a session stands. Its first attribute that is asked starts Spark.

    In: start  gives the session
    """

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self.known: SparkSession | None = None

    @classmethod
    def session(cls, start: Callable[[], SparkSession]) -> SparkSession:
        """The same, as functions that take a session want it."""
        return cast("SparkSession", cls(start))

    @property
    def started(self) -> SparkSession:
        """The session itself."""
        if self.known is None:
            self.known = self._start()
        return self.known

    def __getattr__(self, name: str) -> Any:
        return getattr(self.started, name)


def session_of(spark: SparkSession) -> SparkSession:
    """A session itself. It is started if it was not needed yet."""
    return spark.started if isinstance(spark, SparkOnDemand) else spark


def is_started(spark: SparkSession) -> bool:
    """Whether something of a session was needed yet."""
    return not isinstance(spark, SparkOnDemand) or spark.known is not None


def application_of(spark: SparkSession) -> str:
    """The id of the session's application; NOT_STARTED: no part of it was needed yet."""
    return str(spark.sparkContext.applicationId) if is_started(spark) else NOT_STARTED


def master_of(spark: SparkSession) -> str:
    """The URL of the session's Spark; "local": no part of it was needed yet. To start it takes longer than one bucket."""
    return str(spark.sparkContext.master or "") if is_started(spark) else "local"


def on_demand(spark: SparkSession, prepared: Callable[[SparkSession], SparkSession]) -> SparkSession:
    """A session that is prepared once something of it is needed. In: spark  may be one on demand."""
    return SparkOnDemand.session(lambda: prepared(session_of(spark)))


def laptop_session(base: SparkSession | None, name: str) -> SparkSession:
    """A pipeline's session for a handful of rows. In: base  a session whose sibling it is; None: one of this machine."""
    return pipeline_session(base or build_session(spark_conf(spark_jars()), name), interpreted=True)
