"""How long after it was produced a record counts in a result that a reader sees: of Kafka Streams and of Flink SQL.

`python -m benchmarks.fresh_beside`. The job is W4, totals, exactly once, at a steady rate. Each record adds one to the total
of its key, so a total of n shows the first n records of the key. A record counts from when a consumer of committed records
has such a total. Ours is measured by `python -m benchmarks.freshness --only W4`: there a record counts when the commit that
has folded it is on disk.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.freshness import WARM_UP_SECONDS
from benchmarks.jobs import PREFIX, jobs
from benchmarks.peers.applications import FLINK, KAFKA_STREAMS, Application
from benchmarks.peers.results_topic import ResultsTopic
from benchmarks.steady import PARTITIONS
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import create_topics

if TYPE_CHECKING:
    from benchmarks.jobs import Job

WAIT_SECONDS = 0.005  # of a read: a record that comes meanwhile is seen so much later


class Results:
    """The newest total of each key, and when each of its records was first counted."""

    def __init__(self, bootstrap: str, beginning: str) -> None:
        """Begin to read. In: beginning  of the topic's name."""
        self.counted_at: dict[str, list[float]] = defaultdict(
            list
        )  # by key: seconds since 1970, of each record
        self._topic, self._ended = ResultsTopic(bootstrap, beginning), threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Read no more."""
        self._ended.set()
        self._thread.join()
        self._topic.close()

    def _read(self) -> None:
        while not self._ended.is_set():
            messages, now = self._topic.read(WAIT_SECONDS), time.time()
            for message in messages:
                key, value = message.key(), message.value()
                if key is not None and value is not None:
                    counted = self.counted_at[key.decode()]
                    counted += [now] * (json.loads(value)["sum"] - len(counted))


def main(
    rate: Annotated[float, typer.Option(help="Records per second.")] = 5_000.0,
    minutes: Annotated[float, typer.Option(help="How long is measured, after 90 s of warming up.")] = 1.0,
    commit_ms: Annotated[
        str, typer.Option(help="The time between two commits, or several, as in '1000,100'.")
    ] = "1000,100",
    peers: Annotated[
        str, typer.Option(help="Applications, as in 'kafka_streams,flink'.")
    ] = "kafka_streams,flink",
) -> None:
    """Measure the freshness of the peers' totals."""
    (job,) = (each for each in jobs() if each.name == "W4")
    table = Table(title=f"W4, {rate:,.0f} records/s; seconds from produce to a committed total")
    for column in ("peer", "commits each ms", "records", "median", "p99", "highest", "cores"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory(prefix="headrace-fresh-") as place:
        for peer in (each for each in (KAFKA_STREAMS, FLINK) if each.folder in peers.split(",")):
            class_path = peer.build(Path(place))
            for each in commit_ms.split(","):
                folder = Path(place) / f"{peer.folder}-{each}"
                seconds, cores = _measured(peer, job, rate, minutes * 60, each, class_path, folder)
                figures = np.median(seconds), np.percentile(seconds, 99), seconds.max()
                shown = [f"{figure:.2f}" for figure in (*figures, cores)]
                table.add_row(peer.title, each, f"{len(seconds):,}", *shown)
    Console(width=120).print(table)


def _measured(
    peer: Application, job: Job, rate: float, seconds: float, commit_ms: str, class_path: str, folder: Path
) -> tuple[np.ndarray, float]:
    """Run a peer beside steady traffic, on a broker of its own.

    Out: of each record that was produced after the warm-up, the seconds until it was counted; and the cores in use
    """
    folder.mkdir()
    with Broker(folder / "kafka") as broker, ThreadPoolExecutor(1) as pool:
        bootstrap = broker.bootstrap_servers
        create_topics(bootstrap, dict.fromkeys(job.topics, PARTITIONS))
        environment = {"BOOTSTRAP": bootstrap, "BROKER_PID": str(broker.pid), "COMMIT_MS": commit_ms}
        results = Results(bootstrap, f"{peer.prefix}-{job.name.lower()}-")
        command = [sys.executable, "-m", "benchmarks.steady", bootstrap, str(rate), *job.topics]
        traffic = subprocess.Popen(command, start_new_session=True)
        try:
            ran = pool.submit(peer.run, job, [PREFIX], class_path, folder / "state", environment)
            time.sleep(WARM_UP_SECONDS + seconds)
        finally:
            traffic.send_signal(signal.SIGTERM)
            traffic.wait()
        (measured,) = ran.result()  # it ends when all that was sent is committed
        results.end()
        produced_at = _produced_at(bootstrap, job.topics[0])
    return _seconds(produced_at, results), measured["cpu_s"] / measured["seconds"]


def _produced_at(bootstrap: str, topic: str) -> dict[str, list[float]]:
    """When the records of each key were produced, in the order of their partition; seconds since 1970."""
    reader, found = ResultsTopic(bootstrap, topic, ending=""), defaultdict[str, list[float]](list)
    while messages := reader.read(5.0):
        for message in messages:
            key = message.key()
            assert key is not None
            found[key.decode()].append(message.timestamp()[1] / 1_000)
    reader.close()
    return found


def _seconds(produced_at: dict[str, list[float]], results: Results) -> np.ndarray:
    """From produce to the total that counts it, of each record after the warm-up."""
    first = min(times[0] for times in produced_at.values()) + WARM_UP_SECONDS
    pairs = []
    for key, times in produced_at.items():
        counted = results.counted_at[key]
        assert len(counted) == len(times), f"{key}: {len(counted)} of {len(times)} records are counted"
        pairs += [(at, now) for at, now in zip(times, counted, strict=True) if at >= first]
    seconds: np.ndarray = np.diff(np.array(pairs))[:, 0]
    return seconds


if __name__ == "__main__":
    typer.run(main)
