"""A rebuild and a verification of 50,000,000 records: how long they take, how much memory, and what a kill costs.

`python -m benchmarks.rebuild`. A log is written by hand, and totals of a million keys fold it. Then a process applies a
changed description, as `headrace apply` does: it folds the log into new tables, compares the rows and swaps the tables in.
Another change is applied, too: once half of the records are folded, that process and all that it has started are killed,
and a second process goes on. Then the totals are verified, as `headrace verify` does, in the same three ways. In the end
they are compared with SQL over the log.

Memory is that of the process, its JVM and its Python workers together; pages that they share count once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import headrace as hr
from benchmarks.state_reads import BEGIN_MS, PIECE, TOTALS, Line, by_sensor
from benchmarks.workbench import session_on
from headrace.changing.apply_changes import ApplyChanges
from headrace.cli.console.long_work import long_work
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lifecycle.backfill import verify
from headrace.log.site import Site
from headrace.spark.session import pipeline_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node

FOLDED = "folded"  # begins the lines in which a process says how far it is
SAMPLE_SECONDS = 0.5
MAINTAINED_EVERY = 10 * PIECE  # records
FILL, APPLY, VERIFY, CHECK = "fill", "apply", "verify", "check"


def totals(**more: Any) -> Node:
    """Totals of each sensor."""
    return by_sensor.aggregate(**TOTALS, **more).named("totals")


NODES = totals(), totals(highest=hr.max("value")), totals(lowest=hr.min("value"))


@dataclass(frozen=True)
class Run:
    """One process.

    seconds   from its start to its end
    peak_mib  the most that it and its children had at once
    first     how many records are folded when it tells that first; last: when it tells it last
    """

    seconds: float
    peak_mib: float
    first: int
    last: int


def main(
    records: Annotated[int, typer.Option(help="Of the log.")] = 50_000_000,
    keys: Annotated[int, typer.Option(help="Of the totals.")] = 1_000_000,
    folder: Annotated[str | None, typer.Option(help="For the lake; it is deleted.")] = None,
    act: Annotated[str, typer.Option(hidden=True, help="What this process does to a lake.")] = "",
    root: Annotated[str, typer.Option(hidden=True, help="The lake.")] = "",
    node: Annotated[int, typer.Option(hidden=True, help="The number of the description.")] = 0,
) -> None:
    """Measure and print."""
    with ExitStack() as stack:
        below = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-rebuild-", dir=folder)))
        if act:
            spark = pipeline_session(session_on("", root, below, stack))
            _act(spark, Lake(root), act, NODES[node], records, keys)
            return
        sizes = ["--records", str(records), "--keys", str(keys), "--root", f"file:{below}/lake"]
        filled = _measured([*sizes, "--act", FILL])
        print(f"the log is written and folded, {filled.seconds:,.0f} s", flush=True)
        runs = {
            "a rebuild": _measured([*sizes, "--act", APPLY, "--node", "1"]),
            "another, killed": _measured([*sizes, "--act", APPLY, "--node", "2"], kills_at=records // 2),
            "the process that goes on": _measured([*sizes, "--act", APPLY, "--node", "2"]),
        }
        verifies = [*sizes, "--act", VERIFY, "--node", "2"]
        runs |= {
            "a verification": _measured(verifies),
            "another, which is killed": _measured(verifies, kills_at=records // 2),
            "the one that goes on": _measured(verifies),
        }
        _measured([*sizes, "--act", CHECK, "--node", "2"])
    shown = Table(title=f"{records:,} records, {keys:,} keys; all totals are right")
    for column in ("", "seconds", "records that it tells first", "after its last", "peak MiB"):
        shown.add_column(column, justify="right" if column else "left")
    for name, run in runs.items():
        shown.add_row(
            name, *(f"{figure:,.0f}" for figure in (run.seconds, run.first, run.last, run.peak_mib))
        )
    Console(width=100).print(shown)


def _act(spark: SparkSession, lake: Lake, act: str, node: Node, records: int, keys: int) -> None:
    if act in (APPLY, VERIFY):
        with long_work("Begins.") as work:

            def folded(done: int, of: int | None) -> None:
                work.reach(done, of)
                print(FOLDED, done, flush=True)

            if act == VERIFY:
                verdicts = verify(spark, lake, node, on_stage=work.begin, on_folded=folded)
                if not all(each.equal for each in verdicts):
                    raise TerminalError("A verification has found rows that differ.")
                return
            apply = ApplyChanges(Site(spark, lake), [node])
            apply.on_folded = folded
            apply.run(on_stage=work.begin)
        return
    line = Line(spark, lake, node)
    if act == CHECK:
        line.require_right()
        return
    for first in range(0, records, PIECE):
        number = min(PIECE, records - first)
        line.append(number, keys, number, first, F.lit(BEGIN_MS + first))
        while line.runner.advance_packed():
            pass
        if first % MAINTAINED_EVERY == 0:
            line.runner.maintain()


def _measured(arguments: list[str], kills_at: int | None = None) -> Run:
    """Run this program as a process. In: kills_at  it and its children are killed once it has folded so many records.

    Raises: TerminalError if it fails
    """
    began = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.rebuild", *arguments]
    # A session of its own, so that a kill reaches its children, too.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    peak, told, killed = _Peak(process.pid), [0], False
    for line in process.stdout:
        word, _, number = line.strip().partition(" ")
        if word != FOLDED:
            continue
        told.append(int(number))
        if kills_at is not None and told[-1] >= kills_at and not killed:
            os.killpg(process.pid, signal.SIGKILL)
            killed = True
    process.wait()
    peak.end()
    if process.returncode and not killed:
        raise TerminalError(f"{' '.join(arguments)} ended with {process.returncode}.")
    run = Run(time.monotonic() - began, peak.mib, told[min(1, len(told) - 1)], told[-1])
    print(f"{' '.join(arguments[6:])}: {run}", flush=True)
    return run


class _Peak:
    """The highest memory of a process and all its descendants, looked at every half second."""

    def __init__(self, pid: int) -> None:
        self.mib, self._pid, self._ended = 0.0, pid, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.mib = max(self.mib, sum(_proportional_mib(pid) for pid in _descendants(self._pid)))


def _descendants(pid: int) -> list[int]:
    """A process, and all that descend from it."""
    children = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        children[int(fields[1])].append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children[each]
    return found


def _proportional_mib(pid: int) -> float:
    """The resident pages of a process; of one that it shares with others its share."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0  # it has ended
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


if __name__ == "__main__":
    typer.run(main)
