"""A broker, topics that are filled when they are needed, one Spark session, and what the topics say."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from benchmarks.catch_up import Measured, backfill_seconds, catch_up
from benchmarks.delayed import delayed
from benchmarks.described.topics import FILLS, Fill, fill
from benchmarks.floor import copied_topics
from benchmarks.spark_source import source_options
from headrace.description import with_unnamed
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.lake.storage import is_local, local_path
from headrace.local.object_store import ObjectStore
from headrace.local.servers.broker import Broker
from headrace.local.servers.broker_config import HOST
from headrace.local.spark_cluster import SparkCluster
from headrace.nodes.descriptions.topics import topics_of
from headrace.sequence.log_columns import DEAD_LETTER, RECORD
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.lake_rows import read_table
from headrace.spark.session import build_session, spark_conf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.described import Description
    from headrace.observe.views import Views

S3, STANDALONE = "s3", "standalone"
CHAIN = "filter(headers, header -> header.key = 'source-chain')[0].value"
KAFKA = (
    "partition",
    "offset",
    "unix_millis(timestamp) AS ms",
    "CAST(key AS STRING) AS key",
    "CAST(value AS STRING) AS value",
    f"CAST({CHAIN} AS STRING) AS chain",
)
SHOWN = 6  # rows that differ


@dataclass(frozen=True)
class Outcome:
    """A run whose result is right.

    rows  that people see
    """

    measured: Measured
    rows: int
    backfill_seconds: float

    @property
    def in_and_out_per_second(self) -> float:
        """Records and rows over wall-clock seconds."""
        return (self.measured.records + self.rows) / self.measured.seconds

    @property
    def backfill_per_second(self) -> float:
        """Records over the seconds of a backfill."""
        return self.measured.records / self.backfill_seconds


@dataclass
class Workbench:
    """Runs descriptions. One at a time.

    records  of each topic, about
    root     URI of the folder for lakes
    fills    the records of each topic
    """

    spark: SparkSession
    kafka: KafkaSettings
    folder: Path
    records: int
    root: str
    fills: Mapping[str, Fill] = field(default_factory=lambda: FILLS)
    _counts: dict[str, int] = field(default_factory=dict)
    _wanted: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._truth = duckdb.connect(str(self.folder / "truth.duckdb"))
        self._truth.execute("SET memory_limit = '3GB'; SET threads = 2; SET preserve_insertion_order = false")

    def prepare(self, description: Description) -> int:
        """Fill its topics and work out what its rows must be. Out: how many records its topics have."""
        for topic in description.topics:
            if topic not in self._counts:
                self._counts[topic] = self._fill(topic)
        if description.name not in self._wanted and not description.by_commit:
            self._wanted[description.name] = self._work_out(description)
        return sum(self._counts[topic] for topic in description.topics)

    def run(self, description: Description, name: str, *, backfill: bool = True) -> Outcome:
        """Catch up in a new lake, check the result, and compare it with a backfill.

        In:     name  of the run, unlike those before
        Raises: TerminalError when rows, fates or the backfill are wrong
        """
        records, lake, rows = self.prepare(description), Lake(f"{self.root}/{name}"), []

        def check(views: Views) -> None:
            rows.append(self._require_right(description, lake, views, records))

        try:
            measured = catch_up(self.spark, lake, self.kafka, description.node, records, check)
            seconds = backfill_seconds(self.spark, lake, description.node) if backfill else 0.0
        finally:
            if is_local(lake.root):
                shutil.rmtree(local_path(lake.root), ignore_errors=True)
        return Outcome(measured, rows[0], seconds)

    def floor(self, description: Description, name: str) -> Measured:
        """Copy the topics of a description to Parquet, as `benchmarks.floor` says. In: name  of the run."""
        records, place = self.prepare(description), self.folder / "copies" / name
        topics = [*topics_of(with_unnamed([description.node])).values()]
        try:
            return copied_topics(self.spark, place, self.kafka, topics, records)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def require_rows(self, description: Description, rows: DataFrame) -> None:
        """Compare rows that another engine has made with what a description's must be.

        Raises: TerminalError when they differ
        """
        self._show("found", _in_ms(rows))
        self._require_rows(description, self._wanted[description.name])

    def _fill(self, topic: str) -> int:
        fill(self.kafka.bootstrap_servers, topic, self.fills[topic](self.records))
        reader = self.spark.read.format("kafka").options(
            **source_options(self.kafka), subscribe=topic, includeHeaders=True
        )
        self._show(topic, reader.load().selectExpr(*KAFKA))
        return self._count(topic)

    def _work_out(self, description: Description) -> str:
        name = f"wanted_{description.node.required_name}"
        description.rows(self._truth).to_table(name)
        return name

    def _require_right(self, description: Description, lake: Lake, views: Views, records: int) -> int:
        for topic in description.topics if description.by_commit else ():
            log = read_table(self.spark, lake.log(topic)).where(F.col("kind").isin(RECORD, DEAD_LETTER))
            committed_ms = F.unix_millis("ingested_at").alias("committed_ms")
            self._show(f"{topic}_log", log.select("partition", "offset", committed_ms))
        wanted = self._wanted.get(description.name)
        if wanted is None:
            self._truth.execute(f"DROP TABLE IF EXISTS wanted_{description.node.required_name}")
            wanted = self._work_out(description)
        self._show("found", _in_ms(views.read(description.node)))
        self._require_rows(description, wanted)
        if not description.chained:
            self._require_fates(description, views, records)
        return self._count("found")

    def _require_rows(self, description: Description, wanted: str) -> None:
        names = [f'"{name}"' for name in self._truth.table(wanted).columns]
        found = f"SELECT {', '.join(names)} FROM ({description.found})"
        sides = {"topics": f"SELECT * FROM {wanted}", "Headrace": found}
        for side, other in (("topics", "Headrace"), ("Headrace", "topics")):
            differing = f"({sides[side]}) EXCEPT ALL ({sides[other]})"
            first = self._truth.sql(f"SELECT * FROM ({differing}) LIMIT {SHOWN}").fetchall()
            if first:
                count = self._value(f"SELECT count(*) FROM ({differing})")
                raise TerminalError(
                    f"{description.name}: {count:,} rows have only the {side}, {', '.join(names)}.",
                    detail="\n".join(str(row) for row in first),
                )

    def _require_fates(self, description: Description, views: Views, records: int) -> None:
        ledger = views.ledger(description.node).groupBy("fate").agg(F.sum("records").alias("records"))
        found = {row["fate"]: row["records"] for row in ledger.collect()}
        wanted = {fate: self._value(sql) for fate, sql in description.fates.items()}
        if sum(found.values()) != records or any(found.get(fate, 0) != n for fate, n in wanted.items()):
            raise TerminalError(f"{description.name}: of {records:,} records {found}, not {wanted}.")

    def _show(self, view: str, frame: DataFrame) -> None:
        """Let SQL see a frame."""
        files = self.folder / "views" / view
        frame.write.mode("overwrite").parquet(f"file:{files}")
        self._truth.execute(
            f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM read_parquet('{files}/*.parquet')"
        )

    def _count(self, view: str) -> int:
        return self._value(f"SELECT count(*) FROM {view}")

    def _value(self, sql: str) -> int:
        found = self._truth.sql(sql).fetchone()
        assert found is not None
        return int(found[0])


@contextmanager
def workbench(
    records: int, lake: str = "", master: str = "", fills: Mapping[str, Fill] = FILLS
) -> Iterator[Workbench]:
    """A workbench in a temporary folder, with a broker of its own.

    In: lake    where lakes lie: a URI; `s3`, for an S3 server on this machine; empty, for the temporary folder
        master  as `session_on` takes it
        fills   the records of each topic
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        root = root_of(lake, folder, stack)
        broker = stack.enter_context(Broker(folder / "kafka"))
        spark = session_on(master, root, folder, stack)
        stack.callback(spark.stop)
        kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        yield Workbench(spark, kafka, folder, records, root, fills)


def session_on(master: str, root: str, folder: Path, stack: ExitStack) -> SparkSession:
    """A session of Spark.

    In: master  its URL; `standalone`, for a master and two workers of one core each, as processes of this machine; empty:
                all cores of this machine
        root    where lakes lie
    """
    if master != STANDALONE:
        master = master or f"local[{os.cpu_count()}]"
        return build_session(spark_conf(spark_jars(), master=master, lake=root))
    cluster = stack.enter_context(SparkCluster(folder / "spark", workers=2, cores=1, memory="1g"))
    ours = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    }
    return build_session(spark_conf(spark_jars(), master=cluster.master, lake=root) | ours)


def root_of(lake: str, folder: Path, stack: ExitStack, delay_ms: float = 0.0) -> str:
    """Where lakes lie. In: lake  as `workbench` takes it; delay_ms  with `s3`: what is added to each request."""
    if lake == S3:
        store = stack.enter_context(ObjectStore(folder / "s3"))
        endpoint = stack.enter_context(delayed(store.endpoint, delay_ms))
        os.environ |= {**store.environment, "AWS_ENDPOINT_URL": endpoint}
        return f"{store.root}/lakes"
    return f"{lake.rstrip('/')}/{folder.name}" if lake not in ("", "file") else f"file:{folder}/lakes"


def _in_ms(rows: DataFrame) -> DataFrame:
    """Times as numbers, which every reader takes for the same."""
    times = [field.name for field in rows.schema if isinstance(field.dataType, TimestampType)]
    return rows.withColumns({name: F.unix_millis(name) for name in times}) if times else rows
