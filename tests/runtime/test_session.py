"""What a session is configured with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.fast
@pytest.mark.parametrize(
    ("master", "tasks"),
    [
        ("local", 2),
        ("local[1]", 2),
        ("local[8]", 8),
        ("local[6,3]", 6),
        ("local[*]", max(2, os.cpu_count() or 2)),
        ("local-cluster[3,4,1024]", 12),
        ("spark://host:7077", session.CLUSTER_TASKS),
    ],
)
def test_a_shuffle_has_a_task_for_each_core(master: str, tasks: int) -> None:
    assert session.spark_conf(master=master)[session.SHUFFLES] == str(tasks)


@pytest.mark.parametrize("named", ["", "-XX:+UseSerialGC", "-XX:+UseG1GC"])
def test_a_jvm_starts_whichever_collector_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """With two it would refuse to."""
    for name in session.OF_ANY_JVM:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(session.OF_ANY_JVM[0], named)
    options = session.spark_conf()["spark.driver.extraJavaOptions"]
    subprocess.run(["java", *options.split(), "-version"], check=True)
    assert ("-XX:+UseParallelGC" in options) == (not named)


@pytest.mark.spark
def test_what_was_configured_stays_unless_results_depend_on_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        session, "SMALL_BATCHES", {"spark.sql.maxPlanStringLength": "7", "spark.some.other": "7"}
    )
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Europe/Paris")
    settings = session.pipeline_session(other).conf
    assert settings.get("spark.sql.maxPlanStringLength") == "10000"
    assert settings.get("spark.some.other") == "7"
    assert settings.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.spark
def test_hadoop_keeps_no_defaults_for_what_does_not_run_and_what_was_configured(
    spark: SparkSession, tmp_path: Path
) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("mapreduce.job.queuename", "mine")
    session.pipeline_session(spark)
    # By now Hadoop's classes are loaded, which add their defaults.
    spark.range(9).write.format("delta").save(f"file:{tmp_path}/table")
    left = {*hadoop.getPropsWithPrefix("mapreduce.").keySet().toArray()}
    assert not hadoop.getPropsWithPrefix("yarn.")
    assert "job.queuename" in left
    assert "task.io.sort.mb" not in left
