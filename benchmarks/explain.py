"""How long `headrace why` and the curve of graces take over a packed log of many records and keys, without Spark.

`python -m benchmarks.explain`, with `--folder` to keep the lake and ask again. The log is written by the sequencer and
packed by maintenance; the nodes fold it. Then the command asks each question in a process of its own, as people do. Python
has compiled its code before, as an installation has it, whatever PYTHONDONTWRITEBYTECODE says. Each answer is checked: the
oracle proves it, and it names as many records as the row counts.

One record in a hundred is half an hour late, which is more than the grace.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.explain_pipeline import HOURS, payments, totals, windows
from headrace import lake as lakes
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.maintenance import Maintenance
from headrace.log.clock import ManualClock
from headrace.log.sequencer import Sequencer
from headrace.sequence.sequence_records import RECORDS
from headrace.spark.on_demand import SparkOnDemand
from headrace.writing.node_runner import NodeRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGIN_MS, PARTITIONS, LOG_MS = 1_780_012_800_000, 4, 24 * HOURS  # midnight; the log is a day long
PIECE = 250_000  # records of a log commit
LATE_MS, LATE_SHARE = HOURS // 2, 0.01
FIRST_WINDOW = "2026-05-29T00:00:00Z"
# The command, which says at its end what it took: CPU seconds, KiB at the peak, and bytes read.
COMMAND = """
import atexit, os, sys

def report():
    peak = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
    read = open("/proc/self/io").read().split("rchar:")[1].split()[0]
    print(sum(os.times()[:2]), peak, read, file=sys.stderr)

atexit.register(report)
from headrace.cli import main
main()
"""


def _refuse() -> Any:
    raise TerminalError("This measurement needs no Spark.")


NO_SPARK = SparkOnDemand.session(_refuse)


@dataclass(frozen=True)
class Asked:
    """A question and what it took. In: bytes  that the process read, those of its own code too."""

    question: str
    seconds: float
    cpu: float
    bytes: int
    peak_mib: float


def main(
    records: Annotated[int, typer.Option(help="In the log.")] = 300_000,
    keys: Annotated[int | None, typer.Option(help="A tenth of the records if it is not said.")] = None,
    asks: Annotated[int, typer.Option(help="How many keys each question is asked for.")] = 3,
    folder: Annotated[
        Path | None, typer.Option(help="Where the lake lies and stays. It is filled if empty.")
    ] = None,
) -> None:
    """Measure and print."""
    keys = keys or max(records // 10, 1)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as below:
        place = (folder or Path(below)).absolute()
        lake = Lake(f"file:{place}/lake")
        if not lakes.exists(lake.table(windows.required_name)):
            _fill(lake, records, keys)
        log = lakes.open_table(lake.log(payments.name)).snapshot()
        shops = [f"shop-{number * keys // (asks + 1)}" for number in range(1, asks + 1)]
        table = Table(
            title=f"{records:,} records, {keys:,} keys; the log: {len(log.files)} files, {log.bytes >> 20:,} MiB"
        )
        for column in ("question", "seconds", "CPU seconds", "MiB read", "peak MiB"):
            table.add_column(column, justify="right")
        _answers(lake, shops[:1])  # compiles the code
        for each in _answers(lake, shops):
            table.add_row(
                each.question,
                *(f"{seconds:.2f}" for seconds in (each.seconds, each.cpu)),
                f"{each.bytes / (1 << 20):,.0f}",
                f"{each.peak_mib:,.0f}",
            )
        Console(width=120).print(table)


def _fill(lake: Lake, records: int, keys: int) -> None:
    """Write the log and fold it, commit by commit, and pack the tables."""
    began, clock = time.monotonic(), ManualClock(BEGIN_MS + LOG_MS + HOURS)
    log = Sequencer(NO_SPARK, payments, lake.log(payments.name), clock)
    runners = [NodeRunner(NO_SPARK, node, lake) for node in (totals, windows)]
    for first in range(0, records, PIECE):
        clock.set(clock.now_ms() + 60_000)
        log.append(_batches(first, min(first + PIECE, records), records, keys))
        for runner in runners:
            while runner.advance():
                pass
    typer.echo(f"log written and folded in {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    for runner in runners:
        runner.maintain()
    for _ in Maintenance(NO_SPARK, lake, [totals, windows]).run(vacuum=False):
        pass
    typer.echo(f"packed in {time.monotonic() - began:.0f} s")


def _batches(first: int, end: int, records: int, keys: int) -> list[pa.RecordBatch]:
    """Records of a commit, by partition and offset."""
    chosen, numbers = np.random.default_rng(first), np.arange(first, end)
    key = chosen.integers(0, keys, len(numbers))
    late = chosen.random(len(numbers)) < LATE_SHARE
    event_ms = BEGIN_MS + LATE_MS + numbers * LOG_MS // records - late * LATE_MS
    columns = {
        "key": pc.binary_join_element_wise("shop-", pa.array(key).cast(pa.string()), "").cast(pa.binary()),
        "value": pc.binary_join_element_wise(
            '{"amount":', pa.array(numbers % 1_000).cast(pa.string()), "}", ""
        ).cast(pa.binary()),
        "partition": pa.array(key % PARTITIONS, pa.int32()),
        "offset": pa.array(numbers),
        "timestamp": pa.array(event_ms),
    }
    arrays = [
        columns[of.name].cast(of.type) if of.name in columns else pa.nulls(len(numbers), of.type)
        for of in RECORDS
    ]
    rows = pa.Table.from_arrays(arrays, schema=RECORDS)
    batches: list[pa.RecordBatch] = rows.sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    ).to_batches()
    return batches


def _answers(lake: Lake, shops: Sequence[str]) -> list[Asked]:
    """Ask each question, those about a key for each of these."""
    asked = [_asked(lake, "the command alone", ["--help"])]
    for shop in shops:
        asked.append(_why(lake, "totals", shop))
        asked.append(_why(lake, "windows", shop, f"window={FIRST_WINDOW}"))
    return [*asked, _asked(lake, "the curve", ["what-if", "windows", "--json"])]


def _why(lake: Lake, node: str, shop: str, *more: str) -> Asked:
    question = "a window" if more else "an all-time total"
    answer: list[Any] = []
    asked = _asked(lake, question, ["why", node, f"shop={shop}", *more, "--json"], answer)
    (cause,) = answer
    if not cause["proved"] or len(cause["records"]) != cause["row"]["n"]:
        raise TerminalError(f"{node}, {shop}: the answer names {len(cause['records'])} records.")
    return asked


def _asked(lake: Lake, question: str, words: Sequence[str], answer: list[Any] | None = None) -> Asked:
    """Ask by the command."""
    command = [sys.executable, "-c", COMMAND, *words]
    if words[0] != "--help":
        command += ["--lake", lake.root, "--pipeline", "benchmarks.explain_pipeline"]
    place = Path(lake.root.removeprefix("file:")).parent
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{place}/bytecode"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds = time.monotonic() - began
    if done.returncode:
        raise TerminalError(f"headrace {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    if answer is not None:
        answer += [json.loads(line) for line in done.stdout.splitlines()]
    cpu, peak_kib, read = map(float, done.stderr.splitlines()[-1].split())
    return Asked(question, seconds, cpu, round(read), peak_kib / 1_024)


if __name__ == "__main__":
    typer.run(main)
