"""Maintenance: pack small files, and delete files that no reader needs any more. Streams and backfills go on meanwhile.

Laws:
- no row of any table changes, nor any progress: compaction commits change no data, and carry on the records by which
  logs and nodes find their last commit, so that older history may be cleaned;
- a node's tables are maintained under the lease of its backfills, for which the stream's folds wait, too. The stream's own
  upkeep holds no lease: if both replace the same files, the later one finds them gone and does nothing. An append conflicts
  with no compaction;
- a file is deleted when maintenance found it in no version `retention_hours` ago, and finds it in none now (see
  `vacuum`). A reader reads the version that was newest when it began, and no run lives for more than a day (a stream
  rotates, Dagster ends other jobs), which is half the least retention. A backfill
  started by hand may take longer: while one is older than the retention, the logs that it reads are left alone;
- a file that a live snapshot of the Iceberg mirror names stays. The mirror is brought up to date first.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.description import output_name, with_unnamed
from headrace.engine.compact_runs import Packing
from headrace.errors import DescriptionError, TransientError
from headrace.lake import small_files
from headrace.lake.care.merge import FOLDER as CHANGES_FOLDER
from headrace.lake.care.upkeep import compact, small
from headrace.lake.care.vacuum import vacuum as vacuum_files
from headrace.lifecycle.forsaken_logs import drop_registrations, former_logs
from headrace.lifecycle.forsaken_steps import forsaken_steps, remove_step
from headrace.lifecycle.rebuilds.former import drop_outdated
from headrace.log.clock import SystemClock
from headrace.mirror.mirrors import Mirrors
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.evolution import OtherDescriptionError
from headrace.nodes.descriptions.references import resolve_all_references
from headrace.nodes.descriptions.topics import topics_of
from headrace.nodes.node_tables import read_progress, results_writer
from headrace.nodes.refused_tables import refused_tables
from headrace.nodes.unusable_table import unusable_uri
from headrace.spark.on_demand import on_demand
from headrace.spark.session import pipeline_session
from headrace.writing.fold_aside import drop_scratch
from headrace.writing.leases.lease import Lease, LeaseTakenError, lease_taken_ms, take_lease
from headrace.writing.leases.lease_waits import take_lease_patiently
from headrace.writing.state_upkeep import StateUpkeep
from headrace.writing.table_upkeep import pack_log

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node, OtherNodeError, Topic
    from headrace.lake import DataFile, LakeTable, TableWriter
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock

RETENTION_HOURS = 168.0
RETENTION_HOURS_MIN = 48.0
RUN_HOURS_MAX = 24.0
CLOCKS_DIFFER_MS = 3_600_000
HOUR_MS = 3_600_000
PATIENCE_SECONDS = 60  # for a fold that is under way


@dataclass(frozen=True)
class Size:
    """Files and what they hold."""

    files: int
    bytes: int


NOTHING = Size(0, 0)


@dataclass(frozen=True)
class Upkept:
    """The work on one table.

    of       the asset: `log/<topic>` or the node's name
    what     which of its tables: log, results, state, unusable, or `refused by <sink>`; or a step without a name, or the
             former tables of a node that was changed, all of which was removed
    before   the newest version's files; `after` likewise
    stored_before  all files on disk, older versions and Delta's log included; `stored_after` likewise
    skipped  why nothing was done; None: it was
    """

    of: str
    what: str
    before: Size
    after: Size
    stored_before: Size
    stored_after: Size
    skipped: str | None = None


class Maintenance:
    """Maintains the tables of some nodes and of the logs that they read."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        nodes: Sequence[Node],
        *,
        retention_hours: float = RETENTION_HOURS,
        clock: Clock | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """In: retention_hours of files that left the newest version.

        Raises: DescriptionError when it is shorter than a run may need.
        """
        if retention_hours < RETENTION_HOURS_MIN:
            raise DescriptionError(
                f"maintenance: a retention of {retention_hours:g} hours could delete files that a run still reads.",
                hint=f"Give at least {RETENTION_HOURS_MIN:g} hours: a run may last {RUN_HOURS_MAX:g}.",
            )
        self._spark, self._lake = on_demand(spark, pipeline_session), lake
        self._left_out: list[tuple[Node, OtherNodeError]] = []

        def leave_out(node: Node, error: OtherNodeError) -> None:
            self._left_out.append((node, error))

        self._nodes = tuple(with_unnamed(resolve_all_references(lake, nodes, leave_out)))
        self._retention_hours, self._clock = retention_hours, clock or SystemClock()
        self._patience_seconds = patience_seconds
        self._mirrors = Mirrors(lake)

    def run(self, *, compact: bool = True, vacuum: bool = True) -> Iterator[Upkept]:
        """Maintain one table after the other; says of each what was done, or why nothing was."""
        for node, error in self._left_out:
            none = (NOTHING, NOTHING, NOTHING, NOTHING)
            yield Upkept(node.required_name, "all tables", *none, skipped=str(error))
        for topic in topics_of(self._nodes).values():
            yield from self._log(topic, compact, vacuum)
        for node in self._nodes:
            yield from self._node(node, compact, vacuum)
        if vacuum:
            yield from self._forsaken()
            for reader in drop_registrations(self._lake, self._clock):
                yield Upkept(reader, "reader", NOTHING, NOTHING, NOTHING, NOTHING)
            for name in drop_outdated(self._lake, self._clock.now_ms(), self._take_rebuild):
                yield Upkept(name, "former tables", NOTHING, NOTHING, NOTHING, NOTHING)
            yield from self._mirrors_of_gone()

    def _forsaken(self) -> Iterator[Upkept]:
        """Remove steps without a name, and former logs of nodes, that nothing reads any more."""
        before_ms = self._clock.now_ms() - round(self._retention_hours * HOUR_MS)
        described = {node.required_name for node in self._nodes}
        for step in forsaken_steps(self._lake, described, before_ms, self._clock):
            size, stored = self._sizes(self._lake.table(step))
            remove_step(self._lake, step)
            yield Upkept(step, "step without a name", size, NOTHING, stored, NOTHING)
        for log in former_logs(self._lake, before_ms):
            size, stored = self._sizes(self._lake.log(log))
            small_files.delete(self._lake.log(log))
            lakes.forget(self._lake.log(log))
            yield Upkept(log, "log of a former description", size, NOTHING, stored, NOTHING)

    def _mirrors_of_gone(self) -> Iterator[Upkept]:
        none = (NOTHING, NOTHING, NOTHING, NOTHING)
        try:
            for name in self._mirrors.drop_gone():
                yield Upkept(name, "mirror of a table that is gone", *none)
        except TransientError as error:
            yield Upkept("the Iceberg catalog", "mirrors of tables that are gone", *none, skipped=str(error))

    def _log(self, topic: Topic, compact: bool, vacuum: bool) -> Iterator[Upkept]:
        path, asset = self._lake.log(topic.name), f"log/{topic.name}"
        if not lakes.exists(path):
            return
        readers = self._old_backfills(topic) if vacuum else []
        if readers:
            yield self._left(
                asset, "log", path, f"A backfill of {readers[0]} has been reading it for too long."
            )
        else:
            work = partial(self._compact, path, f"maintenance/{asset}", [asset], is_log=True)
            yield self._upkeep(asset, "log", path, work if compact else None, vacuum)

    def _node(self, node: Node, compact: bool, vacuum: bool) -> Iterator[Upkept]:
        name, lake = node.required_name, self._lake
        output = output_name(node)
        writers = {
            "results": [results_writer(node)],
            "state": [f"node/{name}"],
            "log": [f"log/{output}"],
        }
        refused = {f"refused by {sink}": path for sink, path in refused_tables(lake, name).items()}
        tables = {
            "results": lake.table(name),
            "state": lake.state(name),
            "unusable": unusable_uri(lake, node),
            "log": lake.log(output),
        }
        present = {what: path for what, path in tables.items() if lakes.exists(path)} | refused
        try:
            with self._alone(name):
                drop_scratch(lake, name)  # what a backfill that died has left
                for what, path in present.items():
                    signed, is_log = f"maintenance/{name}", what == "log"
                    work = partial(self._compact, path, signed, writers.get(what, []), is_log=is_log)
                    if what == "state":
                        work = partial(self._pack_state, node)
                    yield self._upkeep(name, what, path, work if compact else None, vacuum)
        except LeaseTakenError as error:
            for what, path in present.items():
                yield self._left(name, what, path, str(error))

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Neither a fold nor a backfill of the node meanwhile."""
        folder, who = self._lake.lease(f"backfill/{name}"), f"Maintenance of '{name}'"
        lease = take_lease_patiently(self._spark, folder, who, self._clock, self._patience_seconds)
        try:
            yield
        finally:
            lease.release()

    def _take_rebuild(self, name: str) -> Lease:
        return take_lease(
            self._spark, self._lake.lease(f"rebuild/{name}"), f"Maintenance of '{name}'", self._clock
        )

    def _old_backfills(self, topic: Topic) -> list[str]:
        """The nodes with a backfill that began before the files to be deleted left the newest version."""
        oldest_ms = self._clock.now_ms() - self._retention_hours * HOUR_MS + CLOCKS_DIFFER_MS
        since = {
            node.required_name: lease_taken_ms(
                self._lake.lease(f"backfill/{node.required_name}"), self._clock
            )
            for node in (*self._nodes, *(each for each, _ in self._left_out))
            if topic in node.topics
        }
        return [name for name, at_ms in since.items() if at_ms is not None and at_ms < oldest_ms]

    def _upkeep(
        self, of: str, what: str, path: str, compact: Callable[[], object] | None, vacuum: bool
    ) -> Upkept:
        before, stored = self._sizes(path)
        if compact is not None:
            compact()
        skipped = self._vacuum(of, what, path) if vacuum else None
        after, stored_after = self._sizes(path)
        return Upkept(of, what, before, after, stored, stored_after, skipped)

    def _vacuum(self, of: str, what: str, path: str) -> str | None:
        """Delete the files of a table that nothing names any more. Out: why none was; None: it was done."""
        try:
            keeps = self._mirrored(of) if what == "results" or of.startswith("log/") else ()
        except Exception as error:
            return f"No file was deleted, for the Iceberg catalog does not say which ones it names: {error}"
        vacuum_files(lakes.open_table(path), self._retention_hours, keeps=keeps)
        # What a merge that was killed has left; none runs now.
        small_files.delete(f"{path}/{CHANGES_FOLDER}")
        return None

    def _mirrored(self, of: str) -> Collection[str]:
        """Bring the mirror of a table up to date, and name the files that its snapshots still need."""
        mirror = self._mirrors.of(of)
        if mirror is None:
            return ()
        mirror.follow(self._mirrors.settings.snapshots_hours)
        mirror.remove_unused()
        return mirror.names()

    def _pack_state(self, node: Node) -> None:
        """Its files are merged by what their rows mean."""
        state = lakes.open_table(self._lake.state(node.required_name))
        upkeep = StateUpkeep(state, bound(self._spark, node).operator, f"node/{node.required_name}")
        with suppress(OtherDescriptionError):  # its stream will rebuild it
            upkeep.pack(read_progress(self._lake, node).clock, Packing(whole=True))

    @staticmethod
    def _compact(path: str, signed: str, writers: Sequence[str], *, is_log: bool = False) -> None:
        table = lakes.open_table(path)

        def record() -> Mapping[str, Any]:
            return {"writer": signed, **lakes.carried(table, writers)}

        if is_log:
            pack = partial(pack_log, table, whole=True, record=record)
            lakes.as_maintainer(table, pack, carries=writers)
            return
        for files in small(table.snapshot()):
            work = partial(_compact_files, table=table, files=files, record=record)
            lakes.as_maintainer(table, work, carries=writers)

    def _left(self, of: str, what: str, path: str, why: str) -> Upkept:
        size, stored = self._sizes(path)
        return Upkept(of, what, size, size, stored, stored, why)

    def _sizes(self, path: str) -> tuple[Size, Size]:
        snapshot = lakes.open_table(path).snapshot()
        return Size(len(snapshot.files), snapshot.bytes), Size(*small_files.usage(path))


def _compact_files(
    writer: TableWriter,
    *,
    table: LakeTable,
    files: Mapping[str, DataFile],
    record: Callable[[], Mapping[str, Any]],
) -> int | None:
    return compact(table, writer, files, record())
