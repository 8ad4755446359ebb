"""Reads of one key from a table of a million, on a local disk or on S3, without Spark.

`python -m benchmarks.keyed_reads`. Totals of a million keys are folded into their table; then micro-batches of a thousand
records lie in the state alone. Keys are read at random, some of them changed since; each row is compared with what it has
to be.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.state_reads import BEGIN_MS, NODES, PRIME, Line
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.local.object_store import ObjectStore
from headrace.observe.keyed_reads import KeyedReads
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, pipeline_session, spark_conf

TOTALS, TOUCHED, BATCHES = NODES[0], 1_000, 5


def main(
    keys: Annotated[int, typer.Option(help="In the table.")] = 1_000_000,
    reads: Annotated[int, typer.Option(help="How many are measured.")] = 300,
    where: Annotated[str, typer.Option(help="local or s3")] = "local",
) -> None:
    """Measure and print."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root = f"file:{folder}/lake"
        if where == "s3":
            store = stack.enter_context(ObjectStore(folder / "s3"))
            os.environ |= store.environment
            root = f"{store.root}/lake"
        spark = pipeline_session(build_session(spark_conf(spark_jars(), lake=root), "keyed-reads"))
        line = Line(spark, Lake(root), TOTALS)
        line.append(keys, keys, keys, 0, F.lit(BEGIN_MS))
        line.fold()
        line.runner.settle()
        for number in range(BATCHES):
            line.append(TOUCHED, keys, TOUCHED, number * TOUCHED, F.lit(BEGIN_MS))
            line.fold()
        lakes.forget()  # as in a process that has just begun
        _measure(Lake(root), keys, reads, where)


def _measure(lake: Lake, keys: int, reads: int, where: str) -> None:
    changed = {n * PRIME % keys for n in range(BATCHES * TOUCHED)}
    chosen = random.Random(1)
    asked = [chosen.choice(sorted(changed)) if n % 3 == 0 else chosen.randrange(keys) for n in range(reads)]
    reader, seconds = KeyedReads(lake), []
    for key in asked:
        began = time.perf_counter()
        row = reader.get(TOTALS, f"s{key}")
        seconds.append(time.perf_counter() - began)
        if row is None or row["n"] != 1 + (key in changed):
            raise TerminalError(f"Key s{key}: {row} is not what the log says.")
    if reader.get(TOTALS, "nobody") is not None:
        raise TerminalError("A key that never was is found.")
    later = sorted(seconds[1:])
    shown = Table(title=f"{keys:,} keys, {where}, milliseconds")
    for column in ("the first read", "median", "p99", "highest"):
        shown.add_column(column, justify="right")
    values = (seconds[0], statistics.median(later), later[int(len(later) * 0.99)], later[-1])
    shown.add_row(*(f"{value * 1000:.1f}" for value in values))
    Console().print(shown)


if __name__ == "__main__":
    typer.run(main)
