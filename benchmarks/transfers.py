"""Transfers between a thousand accounts, whose sum is always zero: how often a reader sees another sum.

`make bench ARGS="--transfers"`. Some transfers are late, and 5 % come twice, from a producer that crashed. Each side keeps
the balance of every account, exactly once. A reader looks every tenth of a second while the side works, and at its end: at
our table by SQL, at the peers' topics of results as a consumer of committed records that has read to their end. No reader
is in the process of what it reads.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

import headrace as hr
from benchmarks.catch_up import catch_up
from benchmarks.jobs import PREFIX, Job
from benchmarks.peers import logs
from benchmarks.peers.applications import FLINK, KAFKA_STREAMS
from benchmarks.peers.results_topic import ResultsTopic
from headrace.errors import HeadraceError
from headrace.lake.paths import Lake
from headrace.local.servers.broker import Broker
from headrace.local.servers.topics import records_in
from headrace.observe.sql import LakeSql
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Look = Callable[[], int | None]

LOOK_SECONDS, QUIET_SECONDS = 0.1, 0.05


@dataclass
class Looks:
    """The sums that a reader saw. `wrong`: those other than zero; `last` None: there was nothing to see."""

    all: int = 0
    wrong: int = 0
    highest: int = 0
    last: int | None = None

    def note(self, total: int | None) -> None:
        """Count one look. In: total  None: there is no balance yet."""
        if total is not None:
            self.all += 1
            self.wrong += total != 0
            self.highest, self.last = max(self.highest, abs(total)), total


def main(
    transfers: Annotated[int, typer.Option(help="How many, those that come twice included.")] = 10_000_000,
    peers: Annotated[
        str, typer.Option(help="Applications, as in 'kafka_streams,flink'.")
    ] = "kafka_streams,flink",
) -> None:
    """Run each side and count what a reader saw."""
    table = Table(title=f"{transfers:,} transfers, whose sum is zero at any time")
    for column in ("side", "records/s", "looks", "other sums", "highest", "in the end"):
        table.add_column(column, justify="right")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        broker = stack.enter_context(Broker(folder / "kafka"))
        logs.fill(broker.bootstrap_servers, "transfers", transfers, PREFIX)
        records = records_in(broker.bootstrap_servers, f"{PREFIX}transfers")
        job = _job()
        for peer in (each for each in (KAFKA_STREAMS, FLINK) if each.folder in peers.split(",")):
            class_path = peer.build(folder / "peers")
            environment = {"BOOTSTRAP": broker.bootstrap_servers, "BROKER_PID": str(broker.pid)}
            looks, topic = Looks(), _TopicOfBalances(broker.bootstrap_servers, f"{peer.prefix}-w5-")
            with _looking(topic.total, looks):
                (measured,) = peer.run(job, [PREFIX], class_path, folder / "state", environment)
            topic.close()
            table.add_row(peer.title, f"{records / measured['seconds']:,.0f}", *_shown(looks))
        spark = build_session(spark_conf(spark_jars(), master=f"local[{os.cpu_count()}]"))
        lake, looks = Lake(f"file:{folder}/lake"), Looks()
        kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        reader = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        with _looking(lambda: reader.submit(_in_table, lake).result(), looks):
            ours = catch_up(spark, lake, kafka, job.node, records, None)
        table.add_row("Headrace", f"{ours.records_per_second:,.0f}", *_shown(looks))
    Console(width=120).print(table)


def _job() -> Job:
    transfers = hr.Topic(
        f"{PREFIX}transfers",
        key="id STRING",
        value="source STRING, target STRING, amount BIGINT",
        idle_timeout=None,
        replay_guard=hr.ReplayGuard(),
    )
    entries = "array(struct(source AS account, -amount AS change), struct(target AS account, amount AS change)) AS entry"
    changes = transfers.flat_map(entries).select("entry.account AS account", "entry.change AS change")
    balances = changes.group_by("account").aggregate(balance=hr.sum("change")).named("balances")
    return Job("W5", "balances", "transfers", (transfers.name,), "rocks", balances)


def _in_table(lake: Lake) -> int | None:
    """The sum of all balances in our table; None: there is none."""
    try:
        with LakeSql(lake, [_job().node]) as sql:
            total = sql.query(
                "SELECT count(*) AS accounts, CAST(sum(balance) AS BIGINT) AS total FROM balances"
            )
    except HeadraceError:  # there is no table yet
        return None
    return total["total"][0].as_py() if total["accounts"][0].as_py() else None


class _TopicOfBalances:
    """A topic of results, of which a reader keeps the newest balance of each account."""

    def __init__(self, bootstrap: str, beginning: str) -> None:
        self._topic, self._balances = ResultsTopic(bootstrap, beginning), dict[str, int]()

    def total(self) -> int | None:
        """Read until nothing more is committed, and add up."""
        while messages := self._topic.read(QUIET_SECONDS):
            for message in messages:
                key, value = message.key(), message.value()
                if key is not None and value is not None:
                    self._balances[key.decode()] = json.loads(value)["balance"]
        return sum(self._balances.values()) if self._balances else None

    def close(self) -> None:
        """Read no more."""
        self._topic.close()


@contextmanager
def _looking(look: Look, looks: Looks) -> Iterator[None]:
    """Look again and again while the body runs, and once after it."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(LOOK_SECONDS):
            looks.note(look())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    looks.note(look())


def _shown(looks: Looks) -> tuple[str, str, str, str]:
    return f"{looks.all:,}", f"{looks.wrong:,}", f"{looks.highest:,}", f"{looks.last:,}"


if __name__ == "__main__":
    typer.run(main)
