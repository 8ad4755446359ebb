"""One run of one job on all sides, from a process that has done nothing yet: `benchmarks.compared` starts it.

Each side has one JVM. The topics that warm up come first, then those that are measured; nothing else runs in between. So the
first run of each is cold, the second warm. Results are held against the topics afterwards.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from benchmarks import oracle
from benchmarks.catch_up import catch_up
from benchmarks.floor import copied_topics
from benchmarks.jobs import PREFIX, WARM_UP_PREFIX, Job, jobs
from benchmarks.native import native_windows
from benchmarks.peers.applications import FLINK, KAFKA_STREAMS
from benchmarks.spark_source import source_options
from headrace.errors import TerminalError
from headrace.lake.paths import Lake
from headrace.local.servers.topics import records_in
from headrace.observe.views import Views
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.catch_up import Measured

THEIRS, OURS, NATIVE, COPY = (
    "Kafka Streams",
    "Headrace",
    "Structured Streaming",
    "the reader, topic to Parquet",
)
COLD, WARM = "cold", "warm"


@dataclass(frozen=True)
class Run:
    """What one run of one side came to.

    cost      CPU seconds for a million records
    verdict   on its results, in words; `right`: whether they are what the topics say
    thirds    records per second of each third of the records; none: not known
    """

    side: str
    state: str
    records: int
    rate: float
    cost: float
    peak_mib: float
    written_mib: float
    verdict: str = ""
    right: bool = True
    thirds: Sequence[float] = ()


def main(
    name: Annotated[str, typer.Argument(help="Of the job.")],
    bootstrap: Annotated[str, typer.Option(help="The broker.")],
    broker_pid: Annotated[int, typer.Option(help="Its process.")],
    class_paths: Annotated[str, typer.Option(help="Of the peers' applications, by folder, as JSON.")],
    folder: Annotated[Path, typer.Option(help="A new one.")],
) -> None:
    """Run one job and print its runs as JSON."""
    warming, measured = (
        next(job for job in jobs(prefix) if job.name == name) for prefix in (WARM_UP_PREFIX, PREFIX)
    )
    prefixes = (WARM_UP_PREFIX, PREFIX)
    paths, environment = json.loads(class_paths), {"BOOTSTRAP": bootstrap, "BROKER_PID": str(broker_pid)}
    theirs = {
        each.title: each.run(measured, prefixes, paths[each.folder], folder, environment)
        for each in (KAFKA_STREAMS, FLINK)
        if each.folder in paths
    }
    spark = build_session(spark_conf(spark_jars(), master=f"local[{os.cpu_count()}]"))
    bench = _Bench(spark, KafkaSettings(bootstrap_servers=bootstrap), folder)
    runs = bench.headrace([(COLD, warming), (WARM, measured)])
    for title, measurements in theirs.items():
        for state, job, found in zip((COLD, WARM), (warming, measured), measurements, strict=True):
            runs.append(bench.judged(title, job, state, found))
    runs += bench.references(warming, measured)
    print(json.dumps([asdict(run) for run in runs]))


class _Bench:
    """Runs jobs in a Spark session and judges results."""

    def __init__(self, spark: SparkSession, kafka: KafkaSettings, folder: Path) -> None:
        self._spark, self._kafka, self._folder = spark, kafka, folder
        self._known: dict[tuple[str, ...], DataFrame] = {}

    def headrace(self, stages: Sequence[tuple[str, Job]]) -> list[Run]:
        """Our runs, one right after the other; checked only then."""
        found = []
        for state, job in stages:
            lake, records = self._lake(state), self._count(job)
            found.append(catch_up(self._spark, lake, self._kafka, job.node, records, None))
        verdicts = [self._require_right(job, state) for state, job in stages]
        return [
            _run(OURS, state, measured, verdict)
            for (state, _), measured, verdict in zip(stages, found, verdicts, strict=True)
        ]

    def judged(self, title: str, job: Job, state: str, theirs: dict[str, Any]) -> Run:
        """A run of a peer, with what is wrong in its results."""
        verdict, right, records = "", True, self._count(job)
        if job.wanted is not None:
            wanted = self._wanted(job)
            latest = oracle.latest_of(self._records(theirs["kept"]))
            found = oracle.parsed(latest, StructType(wanted.schema.fields[1:]))
            verdict, right = _judged(found, wanted)
        rate, cost = records / theirs["seconds"], theirs["cpu_s"] / records * 1e6
        return Run(title, state, records, rate, cost, theirs["peak_rss_mib"], 0.0, verdict, right)

    def references(self, warming: Job, measured: Job) -> list[Run]:
        """The floor of the reader, and of windows plain Spark, warm as well."""
        runs = []
        for job in (warming, measured):
            place = self._folder / f"copy-{job.topics[0]}"
            copied = copied_topics(self._spark, place, self._kafka, job.node.topics, self._count(job))
        runs.append(_run(COPY, WARM, copied, ""))
        if measured.name == "W2":
            for job in (warming, measured):
                place = self._folder / f"native-{job.topics[0]}"
                native, found = native_windows(
                    self._spark, place, self._kafka, job.topics[0], self._count(job)
                )
            runs.append(_run(NATIVE, WARM, native, _judged(found, self._wanted(measured))[0]))
        return runs

    def _require_right(self, job: Job, state: str) -> str:
        views = Views(self._spark, self._lake(state))
        if job.wanted is None:
            require_accounted(job, views, self._count(job))
            return "complete"
        require_equal(job, views, self._wanted(job))
        return "equal"

    def _lake(self, state: str) -> Lake:
        return Lake(f"file:{self._folder}/lake-{state}")

    def _count(self, job: Job) -> int:
        return sum(records_in(self._kafka.bootstrap_servers, topic) for topic in job.topics)

    def _wanted(self, job: Job) -> DataFrame:
        assert job.wanted is not None
        if job.topics not in self._known:
            self._known[job.topics] = job.wanted(*(self._records(name) for name in job.topics)).persist()
        return self._known[job.topics]

    def _records(self, topic: str) -> DataFrame:
        """What has been committed to a topic, keys and values as text."""
        reader = self._spark.read.format("kafka").options(
            **source_options(self._kafka), subscribe=topic, includeHeaders=True
        )
        records = reader.option("kafka.isolation.level", "read_committed").load()
        return records.withColumns({name: F.col(name).cast("string") for name in ("key", "value")})


def require_equal(job: Job, views: Views, wanted: DataFrame) -> None:
    """Compare our table with what the topics say.

    Raises: TerminalError with the first rows that differ.
    """
    ours = views.read(job.node).selectExpr(f"{job.key} AS key", *wanted.columns[1:])
    first = [
        f"{'topics' if row[oracle.MISSING] > 0 else 'Headrace'}: {row.asDict()}"
        for row in oracle.differences(ours, wanted).orderBy("key").limit(6).collect()
    ]
    if first:
        raise TerminalError(f"{job.name}: the results are not what the topics say.", detail="\n".join(first))


def require_accounted(job: Job, views: Views, records: int) -> None:
    """Of batches, which depend on the wall clock: every record is in one, closed or open.

    Raises: TerminalError when it is not.
    """
    ledger = views.ledger(job.node).groupBy("fate").agg(F.sum("records").alias("records"))
    fates = {row["fate"]: row["records"] for row in ledger.collect()}
    closed = views.read(job.node).agg(F.sum("records"), F.max("records")).first()
    assert closed is not None
    if fates.get("used", 0) + fates.get("open", 0) != records or (closed[0] or 0) != fates.get("used"):
        raise TerminalError(f"{job.name}: {records} records, but {fates} and {closed[0]} in batches.")


def _run(side: str, state: str, measured: Measured, verdict: str) -> Run:
    return Run(
        side,
        state,
        measured.records,
        measured.records_per_second,
        measured.cpu_per_million,
        measured.peak_mib,
        measured.written_mib,
        verdict,
        thirds=[*measured.thirds],
    )


def _judged(found: DataFrame, wanted: DataFrame) -> tuple[str, bool]:
    """What to say of results, and whether they are right."""
    missing = F.col(oracle.MISSING)
    more, fewer = F.sum(F.greatest(missing, F.lit(0))), F.sum(F.greatest(-missing, F.lit(0)))
    counted = oracle.differences(found, wanted).select(F.coalesce(F.greatest(more, fewer), F.lit(0))).first()
    assert counted is not None
    wrong = counted[0]
    return (f"{wrong:,} of {wanted.count():,} are wrong", False) if wrong else ("equal", True)


if __name__ == "__main__":
    typer.run(main)
