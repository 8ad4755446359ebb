"""Four jobs, Headrace and Kafka Streams in turn, on one broker and the same topics.

`make bench PEERS=../shared/peers`. Both results are held against what the topics say (`oracle`). Kafka Streams runs
exactly-once with durable state, in a new JVM each time; the JVM's start is excluded on both sides, its warming up is not.
Headrace's runs share one JVM: the first of each job is shown apart.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table

import headrace as hr
from benchmarks import oracle
from benchmarks.catch_up import catch_up
from benchmarks.native import copied_topics, native_windows
from headrace.errors import TerminalError
from headrace.local.broker import Broker
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.catch_up import Check, Measured
    from headrace.description import Node
    from headrace.observe.views import Views

HEAP = "-Xmx1500m"


@dataclass(frozen=True)
class Job:
    """One of the four.

    log      what `generate.py` calls its topics; `topics` by name
    variant  of the Kafka Streams application: durable state
    key      Kafka Streams' key, of our columns
    wanted   from whole topics, in the order of `topics`: what the results must be, `key` and the columns of Kafka Streams'
             values; None where that depends on the wall clock
    """

    name: str
    log: str
    topics: tuple[str, ...]
    variant: str
    node: Node
    key: str = ""
    wanted: Callable[..., DataFrame] | None = None


def _topic(name: str, key: str, value: str, **options: Any) -> hr.Topic:
    return hr.Topic(f"ks-{name}", key=key, value=value, idle_timeout=None, **options)


visits = _topic("visits", "customerId STRING", "customerId STRING, visitorId STRING, action STRING")
readings = _topic("readings", "sensorId STRING", "sensorId STRING, value BIGINT")
positions = _topic("positions", "id STRING", "client STRING, ticker STRING, amount BIGINT")
tickers = _topic("tickers", "ticker STRING", "exchange STRING, name STRING, founded INT")
tightenings = _topic(
    "tightenings", "key STRING", "customer STRING, screw STRING, count BIGINT", replay_guard=hr.ReplayGuard()
)

batches = (
    visits.group_by("customerId")
    .batch(max_records=100, max_wait="10 seconds", collect=["visitorId", "action"])
    .named("batches")
)
windows = (
    readings.group_by("sensorId")
    .window(hr.tumbling("2 minutes"), grace="2 minutes")
    .aggregate(count=hr.count(), sum=hr.sum("value"))
    .suppress(hr.until_window_closes())
    .named("windows")
)
enriched = positions.table().join(tickers.table(), on="ticker", how="left").named("enriched")
totals = tightenings.group_by("screw").aggregate(sum=hr.sum("count")).named("totals")


JOBS = (
    Job("W1 batched sink", "visits", ("ks-visits",), "mem-log", batches),
    Job(
        "W2 suppressed windows",
        "readings",
        ("ks-readings",),
        "rocks",
        windows,
        "concat_ws('@', sensorId, unix_millis(window_start))",
        oracle.windows_of,
    ),
    Job(
        "W3 foreign-key join",
        "positions",
        ("ks-positions", "ks-tickers"),
        "rocks",
        enriched,
        "id",
        oracle.joined_of,
    ),
    Job(
        "W4 replay-proof totals",
        "tightenings",
        ("ks-tightenings",),
        "rocks",
        totals,
        "screw",
        oracle.totals_of,
    ),
)


class KafkaStreams:
    """The application in `peers`, built in a folder of its own."""

    def __init__(self, peers: Path, folder: Path, broker: Broker) -> None:
        """Build it; the first time Maven fetches what it needs."""
        self._home, self._broker = peers / "kafka_streams", broker
        app = folder / "app"
        shutil.copytree(self._home / "app", app)
        _run(["mvn", "--quiet", "--batch-mode", "package"], cwd=app)
        self._class_path = f"{app}/target/kstreams-anchor-1.jar:{app}/target/lib/*"

    def generate(self, log: str, records: int) -> None:
        """Fill the topics of a log."""
        command = [sys.executable, str(self._home / "generate.py"), log, "--n", str(records)]
        _run([*command, "--bootstrap", self._broker.bootstrap_servers])

    def run(self, job: Job) -> dict[str, Any]:
        """One run of a job: what its harness measured, and `kept`, the topic of its results."""
        environment = {
            "BOOTSTRAP": self._broker.bootstrap_servers,
            "BROKER_PID": str(self._broker.pid),
            "KEEP": "1",
        }
        workload = job.name.split()[0].lower()
        command = ["java", HEAP, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", self._class_path]
        said = _run([*command, "anchor.Main", "bench", workload, job.variant, "eos"], env=environment)
        measured: dict[str, Any] = json.loads(next(x for x in said.splitlines() if x.startswith("{")))
        return measured


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise TerminalError(f"{command[0]} failed.", detail=(done.stdout + done.stderr)[-2000:])
    return done.stdout


def equal_to(wanted: DataFrame, job: Job) -> Check:
    """A check that our table holds what the topics say.

    Raises: TerminalError with the first rows that differ.
    """

    def check(views: Views) -> None:
        ours = views.read(job.node).selectExpr(f"{job.key} AS key", *wanted.columns[1:])
        first = [
            f"{'topics' if row[oracle.MISSING] > 0 else 'Headrace'}: {row.asDict()}"
            for row in oracle.differences(ours, wanted).orderBy("key").limit(6).collect()
        ]
        if first:
            raise TerminalError(
                f"{job.name}: the results are not what the topics say.", detail="\n".join(first)
            )

    return check


def all_accounted(job: Job, records: int) -> Check:
    """A check of batches, which depend on the wall clock: every record is in one, closed or open.

    Raises: TerminalError when it is not.
    """

    def check(views: Views) -> None:
        ledger = views.ledger(job.node).groupBy("fate").agg(F.sum("records").alias("records"))
        fates = {row["fate"]: row["records"] for row in ledger.collect()}
        closed = views.read(job.node).agg(F.sum("records"), F.max("records")).first()
        assert closed is not None
        if fates.get("used", 0) + fates.get("open", 0) != records or closed[0] != fates.get("used"):
            raise TerminalError(f"{job.name}: {records} records, but {fates} and {closed[0]} in batches.")

    return check


def main(
    records: Annotated[int, typer.Option(help="Records of each job; the join has half as many.")] = 1_000_000,
    runs: Annotated[int, typer.Option(help="Runs of each; Headrace has one more, which is shown apart.")] = 2,
    peers: Annotated[Path, typer.Option(envvar="PEERS", help="The folder with kafka_streams.")] = Path(
        "../shared/peers"
    ),
    only: Annotated[str, typer.Option(help="Jobs, as in 'W2,W4'; all of them.")] = "",
) -> None:
    """Run the jobs in turn and print records and CPU seconds, with ratios."""
    console = Console(width=140)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as temporary:
        folder = Path(temporary)
        with Broker(folder / "kafka") as broker:
            streams = KafkaStreams(peers.absolute(), folder, broker)
            spark = build_session(spark_conf(spark_jars(), master=f"local[{os.cpu_count()}]"))
            kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
            for job in (job for job in JOBS if not only or job.name.split()[0] in only.split(",")):
                console.print(f"{job.name}: filling its topics")
                streams.generate(job.log, records // 2 if job.log == "positions" else records)
                console.print(_side_by_side(job, streams, spark, kafka, folder, runs))


def _side_by_side(
    job: Job, streams: KafkaStreams, spark: SparkSession, kafka: KafkaSettings, folder: Path, runs: int
) -> Table:
    table = Table(title=job.name)
    for column in ("run", "records/s", "CPU s / million", "peak MiB", "written MiB", "results"):
        table.add_column(column, justify="right")
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    topics = [_records(spark, kafka, name) for name in job.topics]
    records = sum(topic.count() for topic in topics)
    wanted = None if job.wanted is None else job.wanted(*topics).persist()
    check = all_accounted(job, records) if wanted is None else equal_to(wanted, job)
    for run in range(runs + 1):
        theirs = streams.run(job)
        ours = catch_up(spark, folder / f"lake-{job.log}-{run}", kafka, job.node, records, check)
        name, said, right = "cold" if run == 0 else str(run), "", True
        if wanted is not None:
            latest = oracle.latest_of(_records(spark, kafka, theirs["kept"]))
            said, right = _judged(oracle.parsed(latest, StructType(wanted.schema.fields[1:])), wanted)
        rate, cost = records / theirs["seconds"], theirs["cpu_s"] / records * 1e6
        table.add_row(
            f"Kafka Streams {run}", f"{rate:,.0f}", f"{cost:,.1f}", f"{theirs['peak_rss_mib']:,}", "", said
        )
        table.add_row(f"Headrace {name}", *_figures(ours), "complete" if wanted is None else "equal")
        if wanted is not None and job.node is windows:
            place = folder / f"native-{run}"
            native, found = native_windows(spark, place, kafka, job.topics[0], records)
            table.add_row(f"Structured Streaming {name}", *_figures(native), _judged(found, wanted)[0])
        copied = copied_topics(spark, folder / f"copy-{job.log}-{run}", kafka, job.node.topics, records)
        table.add_row(f"Spark, topic to Parquet {name}", *_figures(copied), "")
        if right:  # a wrong result has no speed
            rates["theirs"].append(rate)
            costs["theirs"].append(cost)
        if run:
            rates["ours"].append(ours.records_per_second)
            costs["ours"].append(ours.cpu_seconds / records * 1e6)
    if not rates["theirs"]:
        table.caption = "no run of Kafka Streams was right"
        return table
    faster = statistics.median(rates["ours"]) / statistics.median(rates["theirs"])
    cheaper = statistics.median(costs["theirs"]) / statistics.median(costs["ours"])
    table.caption = (
        f"warm, against Kafka Streams: {faster:.2f} times the records/s, {cheaper:.2f} times per CPU second"
    )
    return table


def _figures(measured: Measured) -> tuple[str, ...]:
    return (
        f"{measured.records_per_second:,.0f}",
        f"{measured.cpu_seconds / measured.records * 1e6:,.1f}",
        f"{measured.peak_mib:,.0f}",
        f"{measured.written_mib:,.0f}",
    )


def _judged(found: DataFrame, wanted: DataFrame) -> tuple[str, bool]:
    """What to say of results, and whether they are right."""
    missing = F.col(oracle.MISSING)
    more, fewer = F.sum(F.greatest(missing, F.lit(0))), F.sum(F.greatest(-missing, F.lit(0)))
    counted = oracle.differences(found, wanted).select(F.coalesce(F.greatest(more, fewer), F.lit(0))).first()
    assert counted is not None
    wrong = counted[0]
    return (f"{wrong:,} of {wanted.count():,} are wrong", False) if wrong else ("equal", True)


def _records(spark: SparkSession, kafka: KafkaSettings, topic: str) -> DataFrame:
    """What has been committed to a topic, keys and values as text."""
    reader = spark.read.format("kafka").options(**kafka.spark_options(), subscribe=topic, includeHeaders=True)
    records = reader.option("kafka.isolation.level", "read_committed").load()
    return records.withColumns({name: F.col(name).cast("string") for name in ("key", "value")})


if __name__ == "__main__":
    typer.run(main)
