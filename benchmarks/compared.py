"""Four jobs on Headrace, Kafka Streams and Flink SQL, on one broker and the same topics, all sides warm.

`make bench ARGS="--compared"`. Each side has one JVM for a run of a job. It first works through topics that warm it up
(`--warm-up`), then through those that are measured, from their first record to the last commit. The first of the two is the
cold run: what a new JVM does. All results are held against what the topics say (`oracle`); a wrong result has no ratio.
The peers run exactly-once with durable state. `--keep` writes the medians to `docs/compared.json`, from which
`docs/measured.md` has its pictures. The floor: the reader that our streams use copies the topics to Parquet.
"""

from __future__ import annotations

import datetime as dt
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.jobs import PREFIX, WARM_UP_PREFIX, Job, jobs
from benchmarks.peers import logs
from benchmarks.peers.applications import FLINK, KAFKA_STREAMS, Application
from benchmarks.side_by_side import COLD, COPY, OURS, WARM, Run
from headrace.errors import TerminalError
from headrace.local.servers.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEPT = Path(__file__).parents[1] / "docs" / "compared.json"
COLUMNS = (
    "run",
    "records",
    "records/s",
    "CPU s / million",
    "peak MiB",
    "written MiB",
    "of the floor",
    "results",
)


def main(
    records: Annotated[
        int | None, typer.Option(help="Records that are measured; 3,000,000 by default, of W4 5,000,000.")
    ] = None,
    warm_up: Annotated[int, typer.Option(help="Records that warm up each JVM before.")] = 1_000_000,
    runs: Annotated[int, typer.Option(help="Runs of each job, each in new JVMs.")] = 2,
    peers: Annotated[
        str, typer.Option(help="Applications, as in 'kafka_streams,flink'.")
    ] = "kafka_streams,flink",
    only: Annotated[str, typer.Option(help="Jobs, as in 'W2,W4'; all of them.")] = "",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the figures for the documentation.")] = False,
) -> None:
    """Run the jobs in turn and print records and CPU seconds, with ratios, warm and cold."""
    console = Console(width=140)
    chosen = [each for each in (KAFKA_STREAMS, FLINK) if each.folder in peers.split(",")]
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as temporary,
        Broker(Path(temporary) / "kafka") as broker,
    ):
        class_paths = {each.folder: each.build(Path(temporary) / "peers") for each in chosen}
        for job in (job for job in jobs() if not only or job.name in only.split(",")):
            console.print(f"{job.name} {job.title}: filling its topics")
            for prefix, number in ((WARM_UP_PREFIX, warm_up), (PREFIX, records or job.records)):
                logs.fill(broker.bootstrap_servers, job.log, number, prefix)
            found = []
            for number in range(runs):
                with tempfile.TemporaryDirectory(dir=temporary) as folder:
                    found += _run(job, broker, class_paths, folder)
                console.print(f"{job.name}: run {number + 1} of {runs} is done")
            console.print(_table(job, chosen, found))
            if keep:
                _keep(job, found)


def _run(job: Job, broker: Broker, class_paths: dict[str, str], folder: str) -> list[Run]:
    """A run in a process of its own: no JVM of it has done anything before."""
    options = {
        "bootstrap": broker.bootstrap_servers,
        "broker-pid": str(broker.pid),
        "class-paths": json.dumps(class_paths),
        "folder": folder,
    }
    command = [sys.executable, "-m", "benchmarks.side_by_side", job.name]
    command += [part for name, value in options.items() for part in (f"--{name}", value)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise TerminalError(f"{job.name} failed.", detail=done.stdout[-2000:])
    return [Run(**run) for run in json.loads(done.stdout.splitlines()[-1])]


def _keep(job: Job, found: Sequence[Run]) -> None:
    """Write the medians of a job's warm runs in place of its former ones."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    sides: dict[str, list[Run]] = {}
    for run in found:
        if run.state == WARM:
            sides.setdefault(run.side, []).append(run)
    figures = {
        side: {
            "records/s": round(statistics.median(run.rate for run in runs)),
            "CPU s per million": round(statistics.median(run.cost for run in runs), 1),
            "peak MiB": round(statistics.median(run.peak_mib for run in runs)),
            "results": runs[0].verdict,
        }
        for side, runs in sides.items()
    }
    kept[job.name] = {
        "title": job.title,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "sides": figures,
    }
    KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


def _table(job: Job, peers: Sequence[Application], found: Sequence[Run]) -> Table:
    table = Table(title=f"{job.name} {job.title}")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    copied = statistics.median(run.rate for run in found if run.side == COPY)
    for run in sorted(found, key=lambda run: (run.state, run.side)):
        table.add_row(
            f"{run.side}, {run.state}",
            f"{run.records:,}",
            f"{run.rate:,.0f}",
            f"{run.cost:,.1f}",
            f"{run.peak_mib:,.0f}",
            f"{run.written_mib:,.0f}" if run.written_mib else "",
            f"{run.rate / copied:.0%}" if run.state == WARM else "",
            run.verdict,
        )
    table.caption = "\n".join(
        [_ratios(found, each, state) for state in (WARM, COLD) for each in peers] + _thirds(found)
    )
    return table


def _ratios(found: Sequence[Run], peer: Application, state: str) -> str:
    """Medians of one side over those of the other."""
    theirs = [run for run in found if (run.side, run.state) == (peer.title, state)]
    ours = [run for run in found if (run.side, run.state) == (OURS, state)]

    def median(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
        return statistics.median(of(run) for run in runs)

    faster = median(ours, lambda run: run.rate) / median(theirs, lambda run: run.rate)
    cheaper = median(theirs, lambda run: run.cost) / median(ours, lambda run: run.cost)
    wrong = "" if all(run.right for run in theirs) else f" ({theirs[0].verdict} there)"
    ratios = f"{faster:.2f} times the records/s, {cheaper:.2f} times per CPU second"
    return f"{state}, against {peer.title}: {ratios}{wrong}"


def _thirds(found: Sequence[Run]) -> list[str]:
    """Records per second of each third of our measured runs: whether it falls as the log grows."""
    ours = [run.thirds for run in found if (run.side, run.state) == (OURS, WARM) and run.thirds]
    parts = [f"{statistics.median(part):,.0f}" for part in zip(*ours, strict=True)]
    return [f"Headrace, warm, by thirds of the records: {', '.join(parts)} records/s"] if parts else []


if __name__ == "__main__":
    typer.run(main)
