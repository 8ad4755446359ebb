"""What a commit costs through `lake/`, and what a long life of a table costs those who open, read, extend and view it.

`python -m benchmarks.lake commits` and `python -m benchmarks.lake life`. Nothing of Spark is measured but reading.

Commits come here as fast as they can, in a stream a few times a second. So the tables here keep their past for a shorter
time, in the same ratio: they hold as many commit files and tombstones as those of a stream. Each line says how many.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from benchmarks.long_life import A_SECOND, SCHEMA, WRITER, grow, seconds, shape_of, write_rows
from headrace import lake
from headrace.lake import kinds
from headrace.local.object_store import ObjectStore
from headrace.writing.scheduling import Turns
from headrace.writing.table_upkeep import TableUpkeep

if TYPE_CHECKING:
    from headrace.lake import LakeTable

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
KINDS: dict[str, Mapping[str, str]] = {
    "log": kinds.log(("ingested_at", "n")),
    "state": kinds.state(("n",)),
    "results": kinds.RESULTS,
}
PAST = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
WINDOW = 200  # commits that a figure is of


class Appender:
    """Appends one row a commit, and does upkeep between the commits, as a stream's session does beside them."""

    def __init__(self, table: LakeTable, kind: str) -> None:
        """Take the table over."""
        self.table = table
        self._writer = lake.TableWriter(table, lake.APPENDER, carries=[WRITER])
        last = lake.last_commit(table, WRITER)
        self.next = 0 if last is None else int(last.record["next"])
        paths = lambda: [table.uri]  # noqa: E731
        packed = {"log": "logs", "results": "appended", "state": "appended"}[kind]
        self._upkeep = TableUpkeep(paths, Turns(1), **{packed: paths})

    def append(self, commits: int) -> list[float]:
        """Commit so many times; how long each commit took, in ms. Writing its file does not count, nor does upkeep."""
        took = []
        for _ in range(commits):
            file = write_rows(self.table.uri, self.next, 1)
            self.next += 1
            began = time.perf_counter()
            self._writer.append([file], {"writer": WRITER, "next": self.next})
            took.append((time.perf_counter() - began) * 1e3)
            self._upkeep._keep_all()
        return took


def _made(uri: str, kind: str, rate: float) -> LakeTable:
    """A new table of a kind, whose past is as long as that of a stream's table: `rate` commits come in a second here."""
    settings = {**kinds.PINNED, **KINDS[kind]}
    for name in PAST:
        scaled = max(1, round(seconds(settings[name]) * A_SECOND / rate))
        settings[name] = f"interval {scaled} seconds"
    return lake.create(uri, SCHEMA, settings)


def _rate(root: str) -> float:
    """Commits in a second, upkeep included, as a first table shows."""
    appender = Appender(lake.create(f"{root}/first", SCHEMA), "log")
    appender.append(20)
    began = time.perf_counter()
    appender.append(100)
    return 100 / (time.perf_counter() - began)


def _told(took: list[float]) -> str:
    return f"median {statistics.median(took):.1f} ms, p99 {np.percentile(took, 99):.1f} ms"


@app.command()
def commits(
    where: Annotated[str, typer.Option(help="`file`, `s3` or both.")] = "file,s3",
    kind: Annotated[str, typer.Option(help="log, state or results.")] = "log",
    at: Annotated[str, typer.Option(help="After how many commits.")] = "1,1000,20000",
) -> None:
    """How long a commit takes in a new table and after many commits, on a local disk and on an S3 server beside it."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for place in where.split(","):
            with _root(place, Path(folder)) as root:
                rate = _rate(root)
                appender = Appender(_made(f"{root}/{kind}", kind, rate), kind)
                for number in map(int, at.split(",")):
                    appender.append(max(0, number - 1 - appender.next))
                    took, table = appender.append(WINDOW), appender.table
                    kept = sum(
                        name.endswith(".json") for name in lake.small_files.names(f"{table.uri}/_delta_log")
                    )
                    typer.echo(
                        f"{place}, {kind}: after {number:>6,} commits {_told(took)}; "
                        f"{len(table.snapshot().files):,} live files, {kept:,} commit files"
                    )


@contextmanager
def _root(place: str, folder: Path) -> Iterator[str]:
    if place == "file":
        yield f"file:{folder}/lake"
        return
    with ObjectStore(folder / "s3") as store:
        store.start().wait_ready()
        os.environ |= store.environment
        yield f"{store.root}/lake"


@app.command()
def life(
    kind: Annotated[str, typer.Option(help="log, state or results.")] = "log",
    through: Annotated[int, typer.Option(help="Commits in all.")] = 600_000,
    by_lake: Annotated[int, typer.Option(help="Of these, made through `lake/`.")] = 20_000,
    spark: Annotated[bool, typer.Option(help="Read by Spark and DuckDB, too.")] = True,
) -> None:
    """A table with many commits behind it beside a new one with the same rows in as many files."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        root = f"file:{folder}"
        rate = _rate(root)
        appender = Appender(_made(f"{root}/old", kind, rate), kind)
        began = time.monotonic()
        took = appender.append(by_lake)
        typer.echo(
            f"{kind}, {by_lake:,} commits by lake/ in {time.monotonic() - began:,.0f} s, {_told(took)}"
        )
        typer.echo(f"  {shape_of(appender.table)}")
        old = grow(appender.table, through, rate)
        typer.echo(f"  {shape_of(old)}")
        Appender(old, kind).append(2 * WINDOW)
        typer.echo(f"  {shape_of(old)}, after {2 * WINDOW} more by lake/")
        new = _new_one(f"{root}/new", old, kind, rate)
        typer.echo(f"  beside it, new: {shape_of(new)}")
        for what, (of_old, of_new) in _beside(old, new, kind, spark=spark).items():
            typer.echo(
                f"  {what:<34} old {of_old:8.1f} ms, new {of_new:8.1f} ms, {of_old / of_new:.2f} times"
            )


def _new_one(uri: str, old: LakeTable, kind: str, rate: float) -> LakeTable:
    """A table with the files of another, added in one commit."""
    new, snapshot = _made(uri, kind, rate), old.snapshot()
    added = []
    for file in snapshot.files.values():
        added.append(write_rows(uri, int(file.lowest["n"]), file.rows or 0))
    writer = lake.TableWriter(new, lake.APPENDER)
    writer.append(added, {"writer": WRITER, "next": snapshot.rows})
    new.checkpoint()
    return new


def _beside(old: LakeTable, new: LakeTable, kind: str, *, spark: bool) -> dict[str, tuple[float, float]]:
    """Medians in ms of what is done with both, in turn."""
    work: dict[str, Callable[[str], object]] = {
        "open and find the last commit": _open,
        "open by delta-rs": _open_by_delta_rs,
        "read all rows (delta-rs)": _read_by_delta_rs,
        "take over as a new writer": lambda uri: lake.TableWriter(lake.open_table(uri), lake.APPENDER),
    }
    if spark:
        work |= _readers(Path(old.uri.removeprefix("file:")).parent)
    found = {}
    for what, do in work.items():
        took: dict[str, list[float]] = {old.uri: [], new.uri: []}
        for turn in range(6):
            for uri in (old.uri, new.uri):
                began = time.perf_counter()
                do(uri)
                took[uri] += [(time.perf_counter() - began) * 1e3] if turn else []
        found[what] = statistics.median(took[old.uri]), statistics.median(took[new.uri])
    appenders = [Appender(lake.open_table(uri), kind) for uri in (old.uri, new.uri)]
    turns = [[appender.append(20) for appender in appenders] for _ in range(10)]
    of_old, of_new = ([ms for turn in turns for ms in turn[side]] for side in (0, 1))
    found["append, median"] = statistics.median(of_old), statistics.median(of_new)
    found["append, p99"] = float(np.percentile(of_old, 99)), float(np.percentile(of_new, 99))
    return found


def _open(uri: str) -> None:
    lake.forget(uri)
    table = lake.open_table(uri)
    table.snapshot()
    if lake.last_commit(table, WRITER) is None:
        raise ValueError(f"{uri} has no commit of {WRITER}")


def _open_by_delta_rs(uri: str) -> None:
    from deltalake import DeltaTable

    DeltaTable(uri.removeprefix("file:"))


def _read_by_delta_rs(uri: str) -> None:
    from deltalake import DeltaTable

    if not DeltaTable(uri.removeprefix("file:")).to_pyarrow_table(columns=["n"]).num_rows:
        raise ValueError(f"{uri} is empty")


def _readers(folder: Path) -> dict[str, Callable[[str], object]]:
    """Spark with Delta at a path that it has not seen, a view by the lake's snapshot, and DuckDB."""
    import duckdb
    import duckdb_extension_delta

    from headrace.spark.jars import spark_jars
    from headrace.spark.lake_rows import read, read_table
    from headrace.spark.session import build_session, pipeline_session, spark_conf

    session = pipeline_session(build_session(spark_conf(spark_jars(), master=f"local[{os.cpu_count()}]")))
    (extension,) = Path(str(duckdb_extension_delta.__file__)).parent.glob("extensions/*/*.duckdb_extension")
    copies = [0]

    def by_spark(uri: str) -> None:
        copies[0] += 1
        copy = folder / f"copy{copies[0]}"
        os.symlink(uri.removeprefix("file:"), copy)
        read(session, f"file:{copy}").selectExpr("sum(n)").collect()

    def by_duckdb(uri: str) -> None:
        with duckdb.connect(config={"autoinstall_known_extensions": False}) as reader:
            reader.load_extension(str(extension))
            reader.execute(f"SELECT sum(n) FROM delta_scan('{uri.removeprefix('file:')}')").fetchall()

    return {
        "read all rows (Spark, Delta)": by_spark,
        "read all rows (DuckDB)": by_duckdb,
        "view (by the snapshot)": lambda uri: read_table(session, uri).selectExpr("sum(n)").collect(),
    }


if __name__ == "__main__":
    app()
