"""A run that Dagster is asked to terminate ends, also while it waits for Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from dagster import DagsterInstance, DagsterRunStatus

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import time
import dagster as dg
from headrace.orchestration.resources import session, spark_resource

@dg.op(required_resource_keys={"spark"})
def waits(context):
    spark = session(context.resources.spark, context.log)
    print("waits for Spark", flush=True)
    spark.range(1).foreach(lambda _: time.sleep(600))

@dg.job(resource_defs={"spark": spark_resource()})
def both():
    waits()
    waits.alias("waits_too")()

both.execute_in_process(instance=dg.DagsterInstance.get(), raise_on_error=False)
"""


def test_a_run_that_waits_for_spark_ends_when_it_is_terminated(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path), "HEADRACE_LAKE": f"file:{tmp_path / 'lake'}"}
    environment["PYTHONPATH"] = str(ROOT / "platform")
    run = subprocess.Popen([sys.executable, "-c", RUN], env=environment, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    try:
        assert "waits for Spark" in run.stdout.readline()
        time.sleep(2)  # the job is on its way
        with DagsterInstance.from_config(str(tmp_path)) as instance:
            instance.report_run_canceling(instance.get_run_records(limit=1)[0].dagster_run)
            run.send_signal(signal.SIGINT)
            run.wait(PATIENCE_S)
            assert run.stdout.read() == "", "the other step began"
            assert instance.get_run_records(limit=1)[0].dagster_run.status is DagsterRunStatus.CANCELED
    finally:
        run.kill()
        run.wait()
