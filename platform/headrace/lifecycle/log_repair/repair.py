"""Repair of a log that has lost commits, and of tables whose rows another program has changed.

Law: afterwards the chain of commits is whole (see `log.history.chain`), no existing row has changed, and each node's tables
equal a fold of the log.

The repair first undoes changes of rows by other programs, such as a `RESTORE`: in the log, then in each node's tables (see
`lake.commits.undo`). If files that are needed for this are deleted, a node's tables are computed again. The repair of a log
is refused then, and that of a node with rows from before a cut. Then a lost commit of the log comes back

1. from files, if they are still in the table's folder although no version names them: as it was, row by row;
2. else from Kafka: its records are sequenced again, from where the commit before left the log to where the next one began.
   They get the latest commit times between the two, so that no record lies too far ahead that did not. The report counts
   the records that Kafka has compacted away: they do not come back.
   Decisions of a person or of the clock in the lost commit are gone. If the log became complete with it (see
   `Sequencer.read_first_to`), the new commit states that again.

No commit is put back before it is known that all can be, and that nodes can be computed again. Nothing may write meanwhile:
the repair holds the leases of the log, of its nodes and of their backfills all the time. If it is interrupted, run it again:
its mark names the nodes that it owes, and none of these starts before (see `repair_mark`). It looks again after it has set
the fence, so a repair that was paused puts nothing back a second time. If commits cannot be put back, or a node not be
computed again, the other nodes follow the log as it is, and the refusal is raised at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace import lake as lakes
from headrace.description import output_name
from headrace.errors import TerminalError, TransientError
from headrace.lake import small_files
from headrace.lake.care.alter import name_past
from headrace.lake.commits.epochs import foreign_commits
from headrace.lake.commits.undo import FilesGoneError, undo_foreign
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.following import nodes_following
from headrace.lifecycle.log_repair.fill_columns import fill_commits
from headrace.lifecycle.log_repair.lost_commits import LostCommits
from headrace.lifecycle.log_repair.repair_mark import RepairMark
from headrace.lifecycle.rebuilds.irreplaceable_rows import require_replaceable, require_whole_past
from headrace.lifecycle.rebuilds.kept_tables import drop_rebuilds
from headrace.lifecycle.rebuilds.takeover import take_over
from headrace.lifecycle.rewrite_state import rewrite_state, settled
from headrace.log.clock import SystemClock
from headrace.log.history.chain import read_chain
from headrace.log.history.stray_commits import StrayCommits
from headrace.nodes.balances.opening import cut_topics
from headrace.nodes.descriptions.references import resolve_all_references
from headrace.nodes.descriptions.topics import names_of, nodes_below
from headrace.nodes.node_tables import results_writer, settled_ms
from headrace.nodes.progress import Progress
from headrace.nodes.standing.state_commits import last_state_commit
from headrace.nodes.unusable_table import unusable_uri
from headrace.spark.kafka import KafkaTopic, lost_offsets
from headrace.spark.lake_rows import read
from headrace.spark.session import pipeline_session
from headrace.writing.fold_aside import drop_scratch
from headrace.writing.leases.lease_waits import nothing_writes
from headrace.writing.node_logs.node_log import rewrite_node_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.lake import NewFile
    from headrace.lake.paths import Lake
    from headrace.log.clock import Clock
    from headrace.log.history.chain import Gap
    from headrace.spark.kafka import KafkaSettings
    from headrace.writing.leases.lease import Lease

GAPS_MAX = 10_000  # in one run
NOT_PUT_BACK = (
    "No commit was put back. Restore the table's files from a backup, or read the topic into a new lake."
)
Reached = Callable[[int, int | None], object]  # how many of how many


@dataclass(frozen=True)
class Repaired:
    """The work that was done: `of` is the asset, `log/<topic>` or the node's name."""

    of: str
    done: str

    def __str__(self) -> str:
        """In one sentence."""
        return f"{self.of}: {self.done}."


class Repair:
    """Repairs one topic's log and the tables of the nodes that read it.

    on_stage     called as each stage begins, with what it does
    on_put_back  called after each gap: how many of how many lost commits are back
    on_folded    called after each increment of a node: how many of how many records are folded
    """

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        nodes: Sequence[Node],
        topic: Topic,
        kafka: KafkaSettings,
        *,
        clock: Clock | None = None,
    ) -> None:
        """In: nodes  all that there are."""
        self._spark, self._lake, self._topic = pipeline_session(spark), lake, topic
        self._nodes = nodes_below(topic, resolve_all_references(lake, nodes))
        self._kafka = KafkaTopic.of(topic, kafka)
        self._clock, self._path = clock or SystemClock(), lake.log(topic.name)
        self._lost = LostCommits(self._spark, lake, topic, kafka)
        self.on_stage: Callable[[str], object] = lambda stage: None
        self.on_put_back: Reached = lambda done, of: None
        self.on_folded: Reached = lambda done, of: None

    def run(self) -> Iterator[Repaired]:
        """Repair; says of one gap and one node after the other what was done.

        Raises: LeaseTakenError, before anything is changed, while a stream, backfill, rebuild or maintenance runs;
                TerminalError, before a commit is put back, when Kafka lacks what is gone, or is another topic;
                TransientError or FencedError when another process repairs the log, too
        """
        log, topic = f"log/{self._topic.name}", self._topic.name
        readers = [*dict.fromkeys([*names_of(self._nodes), *self._following([topic])])]
        with nothing_writes(self._spark, self._lake, self._topic, readers, self._clock) as leases:
            mark = RepairMark(self._lake, topic, leases[log])
            if foreign_commits(lakes.open_table(self._path)):
                # A node that folded such rows may have passed over rows, or taken others.
                self._owe(mark, self._beyond(readers, -1))
            yield from _undone(self._path, log, log)
            beyond = self._beyond(readers, settled_ms(self._lake, self._topic))
            self._owe(mark, beyond)
            if mark.owed:  # the log went back, or a repair was broken off
                name_past(self._maintainer(), self._signed())
            trouble: TerminalError | None = None
            try:
                yield from self._gaps_closed(readers, mark)
            except TerminalError as error:  # nodes follow the log as it is
                trouble = error
            for node in self._nodes:
                try:
                    yield from self._mended(node, mark, leases[node.required_name])
                except TerminalError as error:
                    trouble = trouble or error
        for name in sorted(mark.owed.difference(names_of(self._nodes))):
            yield Repaired(name, f"not described here: run headrace repair {topic} with its pipeline, too")
        if trouble is not None:
            raise trouble

    def _owe(self, mark: RepairMark, names: Collection[str]) -> None:
        """Note nodes that have folded a log which is about to change, and drop their half-built rebuilds and folds."""
        mark.owe(names)
        for name in names:
            drop_rebuilds(self._lake, name)
            drop_scratch(self._lake, name)

    def _maintainer(self) -> lakes.TableWriter:
        return lakes.TableWriter(
            lakes.open_table(self._path), lakes.MAINTAINER, carries=[f"log/{self._topic.name}"]
        )

    def _signed(self) -> dict[str, Any]:
        """The record of a commit of the log."""
        return _signed(self._path, f"log/{self._topic.name}")

    def _following(self, logs: Sequence[str]) -> list[str]:
        """The nodes of the lake that follow from logs, whatever pipeline describes them."""
        return nodes_following(self._lake, logs)

    def _beyond(self, nodes: Sequence[str], ms: int) -> set[str]:
        """Those of the nodes that have read the topic's log beyond a commit time, and those that follow from these."""
        commits = {name: last_state_commit(self._lake, name) for name in nodes}
        read_ms = {
            name: Progress.from_json(commit.record["progress"]).upto_ms.get(self._topic.name, 0)
            for name, commit in commits.items()
            if commit is not None
        }
        own = [name for name, upto_ms in read_ms.items() if upto_ms > ms]
        return {*own, *self._following([f"{name}@" for name in own])} & read_ms.keys()

    def _gaps_closed(self, readers: Sequence[str], mark: RepairMark) -> Iterator[Repaired]:
        """Put back all commits that are gone, or none. Raises: TerminalError, before any is put back."""
        self.on_stage("Looks for lost commits.")
        gaps = self._gaps()
        if not gaps:
            return
        stray = StrayCommits(self._path, self._topic)
        lost = [(gap, stray.between(gap)) for gap in gaps]
        self._require_in_kafka([gap for gap, files in lost if files is None])
        concerned = self._beyond(readers, min(gap.after_ms for gap in gaps))
        for node in self._nodes:
            if node.required_name in concerned | mark.owed:
                require_whole_past(self._lake, node)
        maintainer = self._maintainer()
        self._require_still(gaps)
        self._owe(mark, concerned)
        name_past(maintainer, self._signed())
        self.on_stage("Puts the lost commits back.")
        done, commits = 0, sum(gap.commits for gap in gaps)
        self.on_put_back(done, commits)
        for gap, files in lost:
            yield self._put_back(gap, files, maintainer)
            done += gap.commits
            self.on_put_back(done, commits)
        name_past(maintainer, self._signed())  # what was read in between is of neither

    def _mended(self, node: Node, mark: RepairMark, lease: Lease) -> Iterator[Repaired]:
        """Undo what others did to a node's tables; compute them again where that cannot be, or a log is another."""
        name, output = node.required_name, output_name(node)
        files_gone = self._lake.repairing(name)
        lost = small_files.exists(files_gone)  # a repair that was broken off had noticed that
        own_log = self._lake.log(output)
        for uri, writer in (
            (self._lake.table(name), results_writer(node)),
            (self._lake.state(name), f"node/{name}"),
            (unusable_uri(self._lake, node), f"unusable/{name}"),
            (own_log, f"log/{output}"),
        ):
            if uri == own_log and foreign_commits(lakes.open_table(uri)):
                self._owe(mark, self._following([f"{name}@"]))
            try:
                yield from _undone(uri, writer, name)
            except FilesGoneError as error:
                require_replaceable(self._lake, node, uri, error.detail)
                lost = True
                mark.owe([name])
                small_files.write_json(files_gone, {"table": uri})
                if writer.startswith("unusable/"):  # it only repeats what the log tells
                    small_files.delete(uri)
                    lakes.forget(uri)
        if not lost and (name not in mark.owed or last_state_commit(self._lake, name) is None):
            mark.strike(name)  # it has folded nothing
            return
        require_whole_past(self._lake, node)
        self._owe(mark, self._following([f"{name}@"]))
        if not lost:
            settled(self._spark, self._lake, node)
        take_over(self._lake, name)
        self.on_stage(f"Computes the tables of {name} again.")
        verdicts = Backfill(self._spark, self._lake, node, whole=lost).run(
            on_folded=self.on_folded, lease=lease, correct=False
        )
        self.on_stage(f"Writes the state and the log of {name} again.")
        if lost and not any(verdict.swapped for verdict in verdicts):
            self._accept_results(node)
        rewrite_state(self._spark, self._lake, node)
        rewrite_node_log(self._lake, node)
        small_files.delete(files_gone)
        mark.strike(name)
        yield Repaired(name, "its tables were computed again from the log")

    def _accept_results(self, node: Node) -> None:
        """Commit that the results are right as they are: others rewrote them, and changed no row."""
        table, writer = lakes.open_table(self._lake.table(node.required_name)), results_writer(node)
        maintainer = lakes.TableWriter(table, lakes.MAINTAINER, carries=[writer], mends=True)
        maintainer.append([], {"writer": f"repair/{node.required_name}", **lakes.carried(table, [writer])})

    def _require_in_kafka(self, gaps: Sequence[Gap]) -> None:
        needed = [gap for gap in gaps if gap.offsets]
        if not needed:
            return
        self._require_known_guard()
        known, found = needed[0].before.after.topic_id, self._kafka.topic_id()
        if known is not None and found is not None and known != found:
            raise TerminalError(
                f"Topic '{self._topic.name}' was deleted and created again: Kafka no longer has the lost records.",
                hint="Restore the table's files from a backup.",
            )
        earliest = self._kafka.earliest({p for gap in needed for p in gap.offsets})
        lost = [lost_offsets({p: first for p, (first, _) in gap.offsets.items()}, earliest) for gap in needed]
        if any(lost):
            raise TerminalError(
                f"Topic '{self._topic.name}': Kafka has deleted records that the log has lost.",
                detail="; ".join(
                    ", ".join(gap.stretches) for gap, gone in zip(needed, lost, strict=True) if gone
                ),
                hint=NOT_PUT_BACK,
            )

    def _require_known_guard(self) -> None:
        """Whether a record is a replay follows from all records before it: also from those that a retention has cut off."""
        if self._topic.replay_guard is not None and self._topic.name in cut_topics(self._lake):
            raise TerminalError(
                f"Topic '{self._topic.name}': its log was cut, so nobody knows which of the lost records are replays.",
                hint=NOT_PUT_BACK,
            )

    def _gaps(self) -> Sequence[Gap]:
        return read_chain(read(self._spark, self._path), at_most=GAPS_MAX).gaps

    def _require_still(self, gaps: Sequence[Gap]) -> None:
        """Called behind the fence: another repair has left a trace here, if this process was paused."""
        if self._gaps() != gaps:
            raise TransientError(
                f"Topic '{self._topic.name}': another process has put commits back into its log meanwhile.",
                hint="Run it again: it does what is missing.",
            )

    def _put_back(self, gap: Gap, files: Sequence[NewFile] | None, maintainer: lakes.TableWriter) -> Repaired:
        """Commit what is gone between two commits, in one commit."""
        records, stray = 0, files is not None
        if files is None:
            files, records = self._lost.from_kafka(gap)
        files = fill_commits(self._spark, self._path, self._topic, files, gap.after_ms, stray=stray)
        maintainer.append(files, self._signed())
        source = "from files that no version named" if stray else _read_from_kafka(gap, records)
        what = ", ".join(gap.stretches) or "no record"
        commits = f"{gap.commits:,} commit{'s' if gap.commits > 1 else ''}"
        return Repaired(f"log/{self._topic.name}", f"{commits} put back ({what}), {source}")


def _read_from_kafka(gap: Gap, records: int) -> str:
    """The records that came back and, in a topic that Kafka compacts, how many did not."""
    lost = sum(last - first + 1 for first, last in gap.offsets.values()) - records
    read = f"{records:,} record{'' if records == 1 else 's'} read from Kafka"
    if not lost:
        return read
    offsets = f"{lost:,} offset{'' if lost == 1 else 's'}"
    return (
        f"{read}; at {offsets} Kafka has no record: it compacted the topic, or they belong to a transaction"
    )


def _signed(log: str, writer: str) -> dict[str, Any]:
    return {"writer": f"repair/{writer}", **lakes.carried(lakes.open_table(log), [writer])}


def _undone(uri: str, writer: str, of: str) -> Iterator[Repaired]:
    """Undo what somebody else did to the rows of a table; of `writer` the newest record stays known."""
    done = undo_foreign(lakes.open_table(uri), {"writer": f"repair/{writer}"}, [writer])
    if not done:
        return
    if writer.startswith("log/"):  # nothing that has read it meanwhile goes on
        maintainer = lakes.TableWriter(lakes.open_table(uri), lakes.MAINTAINER, carries=[writer])
        name_past(maintainer, _signed(uri, writer))
    table = "its log" if of.startswith("log/") else f"its table at {uri}"
    yield Repaired(of, f"{table} has the rows of before again, {', '.join(done)} is undone")
