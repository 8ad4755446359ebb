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


@pytest.mark.fast
@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077", "k8s://https://host:443", "yarn"])
def test_spark_serves_no_page_unless_a_person_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    """It would listen at all addresses of the driver's machine."""
    monkeypatch.setenv("HEADRACE_SPARK_MASTER", master)
    monkeypatch.delenv("HEADRACE_SPARK_CONF", raising=False)
    assert session.configured([])["spark.ui.enabled"] == "false"
    monkeypatch.setenv("HEADRACE_SPARK_CONF", '{"spark.ui.enabled": "true"}')
    assert session.configured([])["spark.ui.enabled"] == "true"


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
def test_a_sibling_of_a_session_for_a_handful_of_rows_is_another_unless_it_is_to_compile(
    spark: SparkSession,
) -> None:
    def interpreted(made: SparkSession) -> bool:
        return {key: made.conf.get(key) for key in session.INTERPRETED} == session.INTERPRETED

    few = session.pipeline_session(spark, interpreted=True)
    assert interpreted(session.pipeline_session(few))
    assert not interpreted(session.pipeline_session(few, interpreted=False))
    users = spark.newSession()
    for key, value in session.INTERPRETED.items():
        users.conf.set(key, value)
    assert not interpreted(session.pipeline_session(users)), "what a user sets on a session is not inherited"


@pytest.mark.fast
def test_local_workers_import_from_the_folders_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("/some/folder")
    name = "spark.executorEnv.PYTHONPATH"
    folders = session.spark_conf()[name].split(os.pathsep)
    assert folders[0] == "/some/folder"
    assert not [each for each in folders if each.endswith("site-packages")]
    assert name not in session.spark_conf(master="spark://elsewhere:7077")


@pytest.mark.fast
def test_the_jars_that_are_read_most_stand_first() -> None:
    jars = session.spark_conf(["/some/delta.jar"])["spark.driver.extraClassPath"].split(":")
    assert jars[-1] == "/some/delta.jar"
    assert [jar.rpartition("/")[2].partition("_")[0] for jar in jars[:3]] == [
        "spark-core",
        "spark-sql",
        "spark-catalyst",
    ]
    assert all(os.path.isfile(jar) for jar in jars[:-1])


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
