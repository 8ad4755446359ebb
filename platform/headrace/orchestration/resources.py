"""Resources of runs: the lake, where the quality pages go, and Spark."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from dagster import ConfigurableResource, DagsterExecutionInterruptedError, MetadataValue
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lake.storage import is_local, local_path
from headrace.spark.interrupts import cancel_jobs_on_interrupt, interrupts_kept, is_interrupted
from headrace.spark.jars import JarsMissing, spark_jars
from headrace.spark.session import build_session, configured

DOCS, DOCS_URL = "HEADRACE_DOCS", "HEADRACE_DOCS_URL"


class LakeResource(ConfigurableResource["LakeResource"]):
    """Says where the tables lie (a URI), and where the quality pages are written (a local folder).

    docs      None: $HEADRACE_DOCS, or `quality/` beside the tables of a local lake
    docs_url  under which address that folder is served; None: $HEADRACE_DOCS_URL, or checks show the path
    """

    root: str
    docs: str | None = None
    docs_url: str | None = None

    @property
    def lake(self) -> Lake:
        """The paths below the root."""
        return Lake(self.root)

    @property
    def docs_folder(self) -> str:
        """Where the quality pages are written.

        Raises: TerminalError when nothing names a folder and the lake is not on this machine's disk.
        """
        named = self.docs or os.environ.get(DOCS)
        if not named and not is_local(self.root):
            raise TerminalError(
                f"The quality pages have no folder: the lake '{self.root}' is not on this machine's disk.",
                hint=f"Name a local folder in {DOCS}, and the address at which you serve it in {DOCS_URL}.",
            )
        return named or f"{local_path(self.root)}/quality"

    def page(self, path: str) -> MetadataValue:
        """Link to a page in the folder, or give its path when the folder is not served."""
        url = self.docs_url or os.environ.get(DOCS_URL)
        if url is None:
            return MetadataValue.path(path)
        inside = Path(path).resolve().relative_to(Path(self.docs_folder).resolve())
        return MetadataValue.url(f"{url.rstrip('/')}/{quote(inside.as_posix())}")


def spark_resource(
    settings: Mapping[str, str] | None = None, lake_root: str | None = None
) -> LazyPySparkResource:
    """dagster-pyspark's session, started when a run first asks for it. Dagster shows its settings: none is a secret.

    In: settings   more of Spark's configuration, before that of the environment (see `SparkSettings`)
        lake_root  root URI of the lake; None: $HEADRACE_LAKE
    """
    try:
        jars = spark_jars()
    except JarsMissing:
        jars = []  # definitions load without them; `session` says what is missing
    conf = configured(jars, lake_root)
    return LazyPySparkResource(spark_config={**conf, **(settings or {})})


def session(spark: LazyPySparkResource, log: logging.Logger, *, drains: bool = False) -> SparkSession:
    """The session of this run; says in its log that it starts, because that takes a while.

    In: drains  whether the run ends its jobs when it is terminated; else they are cancelled
    Raises: JarsMissing when it would run on this machine without Delta and Kafka; DagsterExecutionInterruptedError if an
            earlier step of the run was terminated.
    """
    if is_interrupted():
        raise DagsterExecutionInterruptedError
    here = str(spark.spark_config["spark.master"]).startswith("local")
    if here:
        spark_jars()
    log.info("Starting Spark. This takes 10 to 40 seconds, unless this process has a session already.")
    if not here:
        build_session(spark.spark_config)  # with what executors need; the resource joins this session
    with interrupts_kept():
        started: SparkSession = spark.spark_session
    if not drains:
        cancel_jobs_on_interrupt(started.sparkContext)
    return started
