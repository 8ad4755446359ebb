"""A time limit's buffer with millions of keys: what a micro-batch costs and what memory does while it fills and stays full.

`python -m benchmarks.buffer`. Every key comes once; after `--keys` of them the first have waited out the limit, and as many
leave as come. The log is written by the sequencer, and not counted. In the end those that left are compared with those whose
time had come. Exits with an error when a key is missing or wrong.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Annotated

import typer
from pyspark.sql import functions as F

import headrace as hr
from benchmarks.processes import Meter, heap_mib, jvm_of, resident_mib
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.log.clock import ManualClock
from headrace.log.sequencer import Sequencer
from headrace.observe.views import Views
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN_MS, PARTITIONS = 1_780_000_000_000, 4
events = hr.Topic("events", key="id BIGINT", value="value BIGINT", idle_timeout=None)


def _raw(spark: SparkSession, first: int, end: int) -> DataFrame:
    """A record a millisecond, as Kafka delivers them: key and value are its number."""
    number = F.col("id")
    return spark.range(first, end, numPartitions=PARTITIONS).select(
        F.to_json(F.struct(number.alias("id"))).cast("binary").alias("key"),
        F.concat(F.lit('{"value": '), number.cast("string"), F.lit("}")).cast("binary").alias("value"),
        F.lit(events.name).alias("topic"),
        (number % PARTITIONS).cast("int").alias("partition"),
        F.floor(number / PARTITIONS).cast("long").alias("offset"),
        F.timestamp_millis(F.lit(BEGIN_MS) + number).alias("timestamp"),
        F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
    )


def main(
    keys: Annotated[int, typer.Option(help="Keys that wait at a time.")] = 5_000_000,
    batch: Annotated[int, typer.Option(help="Records of a micro-batch.")] = 250_000,
    stays: Annotated[int, typer.Option(help="Micro-batches once the buffer is full.")] = 10,
) -> None:
    """Fill the buffer, keep it full, and say what each micro-batch took."""
    spark = pipeline_session(build_session(spark_conf(spark_jars(), master=f"local[{os.cpu_count()}]")))
    jvm = jvm_of(spark)
    clock, records = ManualClock(BEGIN_MS), keys + stays * batch
    node = events.table().suppress(hr.until_time_limit(keys)).named("waiting")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        lake = Lake(f"file:{folder}")
        sequencer = Sequencer(spark, events, lake.log(events.name), clock)
        runner = NodeRunner(spark, node, lake)
        for first in range(0, records, batch):
            clock.set(clock.now_ms() + 1_000)
            sequencer.append(_raw(spark, first, min(first + batch, records)))
            with Meter() as meter:
                while runner.advance():
                    pass
            seconds, cpu = meter.used
            if first // batch % 10 == 9:
                runner.maintain()
            waits = sum(each["records"] for each in runner.progress.buffer.values())
            typer.echo(
                f"{first + batch:>10,} records, {waits:>10,.0f} wait: {seconds:5.1f} s, {cpu:5.1f} CPU s; "
                f"heap in use {heap_mib(spark):,.0f} MiB, resident {resident_mib(jvm):,.0f} MiB"
            )
        _require_right(Views(spark, lake).read(node), keys, records)
        typer.echo("Those that left are those whose time had come.")


def _require_right(left: DataFrame, keys: int, records: int) -> None:
    """By the law a key leaves when its partition's stream time is a limit, `keys` ms, beyond it."""
    last = {number % PARTITIONS: number for number in range(records - PARTITIONS, records)}
    due = {p: len(range(p, number - keys + 1, PARTITIONS)) for p, number in last.items()}
    total = sum(sum(range(p, number - keys + 1, PARTITIONS)) for p, number in last.items())
    found = left.agg(F.count("*"), F.count_distinct("id"), F.sum("value")).first()
    wanted = (sum(due.values()), sum(due.values()), total)
    if found is None or tuple(found) != wanted:
        raise TerminalError(f"Wrong result: rows, keys and sum of values are {found}, not {wanted}.")


if __name__ == "__main__":
    typer.run(main)
