"""The settings every Headrace session shares, wherever it runs."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import sysconfig
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from headrace.errors import TerminalError
from headrace.lake import state_limits
from headrace.lake.storage import REDACTED, executor_environment, hadoop_settings
from headrace.settings.spark import SparkSettings
from headrace.spark.engine_archive import ship_engine
from headrace.spark.interrupts import interrupts_kept
from headrace.spark.jars import often_read_jars
from headrace.spark.jvm import java_class, remember_often
from headrace.spark.lake_rows import LOCAL_FILES_MAX
from headrace.spark.quiet_start import quiet_start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark import SparkConf

# By default the JVM never compiles a method of more than 8,000 bytes, and the hottest generated ones are longer. Each time
# that the room for classes grows, the JVM collects all garbage. The second compiler still takes hot loops at once; the
# thresholds keep it from Spark's planning, which is not worth its time. The heap uses transparent huge pages, if they are
# available on request: this saves a twentieth of a catch-up's CPU. Only Linux knows the option, so others have to ignore it.
JVM = (
    "-XX:-DontCompileHugeMethods -XX:MetaspaceSize=256m"
    " -XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=3000 -XX:Tier4CompileThreshold=60000"
    " -XX:+IgnoreUnrecognizedVMOptions -XX:+UseTransparentHugePages -XX:+ExitOnOutOfMemoryError"
)
# G1 stops a large heap for moments only. But each written reference costs something, and so does each concurrent cycle.
# A buffer larger than half a region starts one, and rows that wait for their sort live long enough to start more.
# A small heap is collected at once. Half of it holds new objects, so rows that wait for their sort need not be moved.
# That is an eighth less of a catch-up's time. What Spark keeps and sorts has to fit into the other half.
LARGE_HEAP = " -XX:G1HeapRegionSize=8m -XX:InitiatingHeapOccupancyPercent=70 -XX:-G1UseAdaptiveIHOP"
SMALL_HEAP = " -XX:+UseParallelGC -XX:NewRatio=1"
# With two collectors a JVM refuses to start.
OF_ANY_JVM = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
DELTA = "io.delta.sql.DeltaSparkSessionExtension"
# To be set when the session is built: without Delta's no table can be read; the last keeps PySpark from telling the JVM
# where each column expression stands in the source, which is a tenth of a small batch.
AT_START = {
    "spark.sql.extensions": DELTA,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Of the classes that Spark generates it keeps a hundred, fewer than a node and its log use in one micro-batch: each was
    # compiled and warmed up again in the next.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Each sort and each hash table of a task takes a page at once, of a heap of 2 GiB 32 MiB.
    "spark.buffer.pageSize": "2m",
    # A pattern and a long text can exhaust a thread's stack. Spark would end the whole JVM for it, again with each attempt;
    # so the task fails alone, and the record is found. A JVM without memory still ends, by its own option.
    "spark.executor.killOnFatalError.depth": "0",
    "spark.redaction.regex": REDACTED,
    # It would listen at all addresses of the driver's machine, to anybody. `HEADRACE_SPARK_CONF` can switch it on.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # a log file is no terminal
    "spark.driver.extraJavaOptions": JVM + LARGE_HEAP,
    "spark.executor.extraJavaOptions": JVM + LARGE_HEAP,
}
# Settings that results or the never-kill rule depend on; `pipeline_session` sets them on a session of its own.
SEMANTICS = {
    "spark.sql.session.timeZone": "UTC",
    # Bad input never kills a stream: an expression that cannot be computed is null, not an exception.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "false",
    # Which records a node cannot use is not for a platform's defaults to decide.
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    # `${env:HOME}` in an expression would be replaced by what this machine has there.
    "spark.sql.variable.substitute": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    # A file that is gone or broken is an error, never an absence of rows.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # By default a timestamp has 12 bytes, which Parquet neither orders nor encodes as numbers.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
# Of Spark's other SQL settings those that a platform may configure: they alter how fast rows come, never which. Every other
# one has Spark's own default in a pipeline's session. Spark's views choose by such a list, too (`ViewHelper`).
CONFIGURABLE = (
    *("adaptive.", "artifact.", "autoBroadcastJoinThreshold", "broadcast", "catalog.", "cbo.", "codegen."),
    *("debug.", "defaultCatalog", "event.", "exchange.", "execution.", "files.max", "files.min"),
    *("files.open", "hive.", "inMemoryColumnarStorage.", "join.", "maxMetadataStringLength"),
    *("maxPlanStringLength", "optimizer.", "redaction.", "shuffle.", "sort.", "sources.bucketing."),
    *("sources.parallelPartitionDiscovery.", "statistics.", "streaming.", "thriftServer.", "ui."),
)
# Below those, what decides on values: how they pass between Spark and Python's functions.
CONVERTING = tuple(f"execution.{name}." for name in ("arrow", "pandas", "pythonUDF", "pythonUDTF"))
SQL = "spark.sql."
# A conf of our own: the session that has it was made by `pipeline_session`.
PINNED = "spark.headrace.pinned"
DATABRICKS = "spark.databricks.clusterUsageTags.sparkVersion"  # set there, where Delta is built in
LAKE = "HEADRACE_LAKE"
SHUFFLES = "spark.sql.shuffle.partitions"
CLUSTER_TASKS = 16  # where the master's URL does not say how many cores there are
# Small micro-batches: no adaptive re-planning. What a table holds Delta is to know by its checksum of the commit before.
# With the list of files in it the log would be read anew when these come to be less than fifty, and in each commit where
# the JVM's time zone is not UTC.
SMALL_BATCHES = {
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.writeChecksumFile.enabled": "true",
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    "spark.databricks.delta.stats.skipping": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.maxPlanStringLength": "10000",
    # Files that are added to a session are for it alone, so each session would have Python workers of its own, of 45 MB.
    "spark.sql.artifact.isolation.enabled": "false",
}
CONTEXT_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
LOADING_DEFAULTS = ("mapred.JobConf", "yarn.conf.YarnConfiguration", "hdfs.HdfsConfiguration")
HADOOP_DEFAULTS = {"yarn-default.xml", "mapred-default.xml"}
# A handful of rows is folded sooner than Java is generated and compiled for it: half the CPU of a small batch.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
LAPTOP = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.retainedJobs": "50",  # Spark keeps a thousand of each, also when nobody can look at them
    "spark.ui.retainedStages": "50",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # A local disk knows the status of as many files sooner than a job begins.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": str(LOCAL_FILES_MAX),
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",  # tasks that list files for `VACUUM`
    "spark.driver.memory": "2g",
    "spark.memory.fraction": "0.5",
    "spark.log.level": "ERROR",
}
CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
# Hadoop asks the shell for each link and each permission of a local file: it starts a process forty times in a micro-batch,
# five milliseconds each. These ask Java; the jar of the first is among ours. A commit is as safe as with Hadoop's own, which
# on a local disk looks whether the file is there, and then renames.
LOCAL_FILES = {
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpointFileManagerClass": f"{CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
}


def spark_conf(
    jars: Sequence[str] = (), *, master: str = "local[2]", lake: str | None = None
) -> dict[str, str]:
    """The configuration for a new session.

    In:     jars    paths or URIs of the jars beside PySpark's own; empty when the cluster provides them
            master  a Spark master URL; `local[…]` adds what a laptop wants
            lake    root URI of the lake that the session reads; None: $HEADRACE_LAKE
    Out:    settings for `SparkSession.builder` or dagster-pyspark's resource
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {"spark.master": master, **AT_START, **SEMANTICS, **SMALL_BATCHES}
    conf[SHUFFLES] = str(tasks_for(master))
    conf |= hadoop_settings(lake or os.environ.get(LAKE, ""))
    local = is_local(master)
    if local:
        conf |= LAPTOP | {"spark.executorEnv.PYTHONPATH": os.pathsep.join(_own_folders())}
        if not any("GC" in os.environ.get(name, "") for name in OF_ANY_JVM):
            conf["spark.driver.extraJavaOptions"] = JVM + SMALL_HEAP
    if jars and local:
        # The driver is the executor: a class path saves copying every jar at each start.
        conf |= LOCAL_FILES | {"spark.driver.extraClassPath": ":".join([*often_read_jars(), *jars])}
    elif jars:
        conf |= {"spark.jars": ",".join(jars)}
    return conf


def _own_folders() -> list[str]:
    """The folders from which this process imports, without those of its Python: a worker may run another one."""
    of_python = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    inside = tuple(f"{folder}{os.sep}" for folder in of_python)
    return [each for each in sys.path if each and not f"{each}{os.sep}".startswith(inside)]


def configured(jars: Sequence[str], lake: str | None = None) -> dict[str, str]:
    """The same, with what the environment says of Spark (see `SparkSettings`)."""
    settings = SparkSettings()
    conf = spark_conf(jars, master=settings.master, lake=lake)
    if settings.cores is not None and not is_local(settings.master):
        conf[SHUFFLES] = str(max(2, settings.cores))
    return conf | settings.spark_settings


def is_local(master: str) -> bool:
    """True if tasks run in the driver's own JVM. In: master  Spark's URL."""
    return master.startswith("local[") or master == "local"


def tasks_for(master: str) -> int:
    """Into how many tasks a shuffle goes: one for each core that the master's URL names, and two at least."""
    here = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master)
    if here:
        return max(2, (os.cpu_count() or 2) if here[1] == "*" else int(here[1] or 1))
    pretended = re.fullmatch(r"local-cluster\[(\d+),(\d+),\d+\]", master)
    return int(pretended[1]) * int(pretended[2]) if pretended else CLUSTER_TASKS


def cores_of(spark: SparkSession) -> int:
    """How many tasks run at once: as the master's URL says, else as the session's shuffles are cut."""
    master = str(spark.sparkContext.master)
    return tasks_for(master) if master.startswith("local") else int(str(spark.conf.get(SHUFFLES)))


def build_session(conf: Mapping[str, str], app_name: str = "headrace") -> SparkSession:
    """Start (or join) the process's Spark session with these settings.

    Executors on other machines also get the engine (see `engine_archive`), and the variables with which this process
    reaches the lake. These are secrets: Spark redacts them, and they stand in no configuration that is kept.
    """
    builder = SparkSession.builder.appName(app_name)
    here = is_local(conf.get("spark.master", "local"))
    handed = {} if here else executor_environment() | state_limits.executor_environment()
    for key, value in (handed | dict(conf)).items():
        builder = builder.config(key, value)
    with quiet_start(), interrupts_kept():
        spark = builder.getOrCreate()
    for context in CONTEXT_LOGGERS:  # the error that is raised says the same without a stack trace
        PySparkLogger.getLogger(context).setLevel(logging.CRITICAL + 1)
    if not here and (settings := SparkSettings()).ship_engine:
        ship_engine(spark.sparkContext, settings.py_files)
    remember_often(spark)
    return spark


def _forget_yarn(spark: SparkSession) -> None:
    """Drop Hadoop's defaults for YARN and MapReduce, two thirds of a thousand settings.

    Hadoop copies all of its settings for each file that a task opens, and Spark sends them with each task that reads: a
    fifth of a small micro-batch. Settings that a site or Spark's configuration has set stay.
    """
    for name in LOADING_DEFAULTS:  # later they would bring all defaults back
        java_class(spark, "java.lang.Class").forName(f"org.apache.hadoop.{name}")
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    if settings.getPropsWithPrefix("yarn.").isEmpty():
        return
    text = java_class(spark, "java.io.StringWriter")()
    java_class(spark, "org.apache.hadoop.conf.Configuration").dumpConfiguration(settings, text)
    for each in json.loads(text.toString())["properties"]:  # one call of the JVM for all
        if each["key"].startswith(("yarn.", "mapreduce.")) and each["resource"] in HADOOP_DEFAULTS:
            settings.unset(each["key"])


def pipeline_session(spark: SparkSession, *, interpreted: bool | None = None) -> SparkSession:
    """A sibling of `spark` (same cluster, own SQL settings). Only the settings that are listed here decide on results.

    The user may have set anything on the session itself, which a sibling does not see, or when Spark started. `SEMANTICS`
    overrides some settings, `CONFIGURABLE` ones stay, and all other SQL settings get Spark's default. `spark` itself keeps
    its SQL settings. All sessions share Hadoop's settings; those that no session needs are dropped.

    In:     interpreted  True when micro-batches hold a handful of rows, as in tests; None: as `spark` is, if this made it
    Law:    two sessions of one version of Spark compute the same rows of the same rows, however each was configured
    Raises: TerminalError when Spark was started without Delta, which cannot be added later
    """
    configured = spark.sparkContext._conf  # `getConf` copies it, with hundreds of calls of the JVM
    _require_delta(configured)
    session, master = spark.newSession(), str(spark.sparkContext.master)
    remember_often(session)
    if not master.startswith("yarn"):
        _forget_yarn(session)
    for key in _names_of_settings(session):
        if _decides_on_rows(key) and session.conf.isModifiable(key):
            session.conf.unset(key)
    chosen = {SHUFFLES: str(tasks_for(master)), **SMALL_BATCHES}
    chosen = {key: value for key, value in chosen.items() if not configured.contains(key)}
    own = {**SEMANTICS, PINNED: "true"}
    interpreted = _is_interpreted(spark) if interpreted is None else interpreted
    for key, value in (own | chosen | (INTERPRETED if interpreted else {})).items():
        session.conf.set(key, value)
    return session


def _names_of_settings(spark: SparkSession) -> list[str]:
    """The names of all settings in one call of the JVM; `getAll` takes three for each."""
    names = spark.conf._jconf.getAllAsJava().keySet()
    return str(java_class(spark, "java.lang.String").join("\n", names)).splitlines()


def pinned(spark: SparkSession) -> SparkSession:
    """`spark` itself if `pipeline_session` made it, else a sibling of it, which is made once."""
    if spark.conf.get(PINNED, None) == "true":
        return spark
    if spark not in _PINNED:
        _PINNED[spark] = pipeline_session(spark)
    return _PINNED[spark]


_PINNED: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()


def _is_interpreted(spark: SparkSession) -> bool:
    """True if `pipeline_session` made it for a handful of rows."""
    wanted = {PINNED: "true", **INTERPRETED}
    return all(spark.conf.get(key, None) == value for key, value in wanted.items())


def _decides_on_rows(key: str) -> bool:
    name = key.removeprefix(SQL)
    return name != key and (name.startswith(CONVERTING) or not name.startswith(CONFIGURABLE))


def _require_delta(configured: SparkConf) -> None:
    extensions = configured.get("spark.sql.extensions", "") or ""
    if DELTA not in extensions and not configured.contains(DATABRICKS):
        raise TerminalError(
            "Spark was started without Delta, so it cannot read the lake.",
            detail=f"spark.sql.extensions is '{extensions}'; it can only be set before Spark starts.",
            hint="Start it with the settings of headrace.spark.session.spark_conf, or add "
            f"spark.sql.extensions={DELTA} and "
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog.",
        )
