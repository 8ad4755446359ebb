"""Repair of a log that has lost commits, and of tables whose rows another program has changed.

Law: afterwards the chain of commits is whole (see `headrace.log.chain`), no existing row has changed, and each node's tables
equal a fold of the log.

The repair first undoes changes of rows by other programs, such as a `RESTORE`: in the log, then in each node's tables (see
`headrace.lake.undo`). If files that are needed for this are deleted, a node's tables are computed again. The repair of a log
is refused then, and that of a node with rows from before a cut. Then a lost commit of the log comes back

1. from files, if they are still in the table's folder although no version names them: as it was, row by row;
2. else from Kafka: its records are sequenced again, from where the commit before left the log to where the next one began.
   They get the latest commit times between the two, so that no record lies too far ahead that did not. The report counts
   the records that Kafka has compacted away: they do not come back.
   Decisions of a person or of the clock in the lost commit are gone. If the log became complete with it (see
   `Sequencer.read_first_to`), the new commit states that again.

No commit is put back before it is known that all can be put back. Nothing may write meanwhile: the repair holds the leases
of the log, of its nodes and of their backfills all the time. If it is interrupted, run it again. It looks again after it has
set the fence, so a repair that was paused puts nothing back a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace import lake as lakes
from headrace.description import output_name, with_unnamed
from headrace.errors import TerminalError, TransientError
from headrace.lake import small_files
from headrace.lake.undo import FilesGoneError, undo_foreign
from headrace.lifecycle.anew import settled, write_state_anew
from headrace.lifecycle.backfill import Backfill
from headrace.lifecycle.fill_columns import fill_commits
from headrace.lifecycle.guard_at_gap import GuardAtGap
from headrace.lifecycle.irreplaceable_rows import require_replaceable, require_whole_past
from headrace.lifecycle.read_kafka_again import KafkaAgain
from headrace.lifecycle.takeover import take_over
from headrace.log.chain import read_chain
from headrace.log.clock import SystemClock
from headrace.log.commit_row import CommitRow, write_commit_row
from headrace.log.control import control_rows
from headrace.log.decision_rows import Decision, write_decisions
from headrace.log.moves import completion, idleness
from headrace.log.record_writer import RecordWriter
from headrace.log.resets import resets_in, since_last_reset
from headrace.log.stray_commits import StrayCommits
from headrace.nodes.node_tables import read_progress, results_writer, settled_ms, undescribed
from headrace.nodes.references import all_found_in
from headrace.nodes.topics import nodes_below
from headrace.nodes.unusable_table import unusable_uri
from headrace.sequence.log_columns import COMPLETE, CONTROL, IDLE, log_schema
from headrace.sequence.log_state import LastRow, PartitionState
from headrace.spark.kafka import KafkaTopic, lost_offsets
from headrace.spark.kafka_client import KafkaReader, spark_refused
from headrace.spark.kafka_source import read_offsets
from headrace.spark.lake_rows import read
from headrace.spark.one_task import arrow_schema
from headrace.spark.session import pipeline_session
from headrace.writing.lease_waits import nothing_writes
from headrace.writing.node_log import rewrite_node_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headrace.description import Node, Topic
    from headrace.lake import NewFile
    from headrace.lake.paths import Lake
    from headrace.log.chain import Gap
    from headrace.log.clock import Clock
    from headrace.log.record_writer import WrittenRecords
    from headrace.sequence.log_state import LogState
    from headrace.sequence.replays.guards import Guard
    from headrace.spark.kafka import KafkaSettings
    from headrace.writing.lease import Lease

GAPS_MAX = 10_000  # in one run


@dataclass(frozen=True)
class Repaired:
    """The work that was done: `of` is the asset, `log/<topic>` or the node's name."""

    of: str
    done: str

    def __str__(self) -> str:
        """In one sentence."""
        return f"{self.of}: {self.done}."


class Repair:
    """Repairs one topic's log and the tables of the nodes that read it."""

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
        self._nodes = nodes_below(topic, all_found_in(lake, nodes))
        self._described = {node.required_name for node in with_unnamed(nodes)}
        self._settings, self._kafka = kafka, KafkaTopic.of(topic, kafka)
        self._clock, self._path = clock or SystemClock(), lake.log(topic.name)
        self._schema = arrow_schema(log_schema(topic))

    def run(self) -> Iterator[Repaired]:
        """Repair; says of one gap and one node after the other what was done.

        Raises: LeaseHeldError, before anything is changed, while a stream, backfill, rebuild or maintenance runs;
                TerminalError, before a commit is put back, when Kafka lacks what is gone, or is another topic;
                TransientError or FencedError when another process repairs the log, too
        """
        with nothing_writes(self._spark, self._lake, self._topic, self._nodes, self._clock) as backfills:
            log = f"log/{self._topic.name}"
            undone = [*_undone(self._path, log, log)]
            yield from undone
            gaps = self._gaps()
            stray = StrayCommits(self._path, self._topic) if gaps else None
            found = [(gap, stray.between(gap) if stray is not None else None) for gap in gaps]
            self._require_in_kafka([gap for gap, files in found if files is None])
            if found:
                maintainer = lakes.TableWriter(lakes.open_table(self._path), lakes.MAINTAINER, carries=[log])
                self._require_still(gaps)
                for gap, files in found:
                    yield self._put_back(gap, files, maintainer)
            # A node that folded a log which others had changed may have passed over rows, or taken others.
            since_ms = 0 if undone else min((gap.after_ms for gap in gaps), default=None)
            anew: set[str] = set()
            for node in self._nodes:
                reads_anew = any(each.name in anew for each in node.topics)
                done = [*self._mended(node, since_ms, backfills[node.required_name], reads_anew=reads_anew)]
                if done:
                    anew.add(output_name(node))
                yield from done
        if gaps:
            for name in undescribed(self._lake, self._described):
                yield Repaired(name, "not described here: if it reads the topic, repair it there too")

    def _mended(
        self, node: Node, since_ms: int | None, lease: Lease, *, reads_anew: bool
    ) -> Iterator[Repaired]:
        """Undo what others did to a node's tables; compute them anew where that cannot be, or a log is another.

        In: reads_anew  whether a node that it reads was mended
        """
        name = node.required_name
        mark = self._lake.repairing(name)
        lost = small_files.exists(mark)  # a repair that was broken off had found files gone
        for uri, writer in (
            (self._lake.table(name), results_writer(node)),
            (self._lake.state(name), f"node/{name}"),
            (unusable_uri(self._lake, node), f"unusable/{name}"),
            (self._lake.log(output_name(node)), f"log/{output_name(node)}"),
        ):
            try:
                yield from _undone(uri, writer, name)
            except FilesGoneError as error:
                require_replaceable(self._lake, node, uri, error.detail)
                lost = True
                small_files.write_json(mark, {"table": uri})
                if writer.startswith("unusable/"):  # it only repeats what the log tells
                    small_files.delete(uri)
                    lakes.forget(uri)
        if not lost and not reads_anew and not self._is_concerned(node, since_ms):
            return
        require_whole_past(self._lake, node)
        if not lost:
            settled(self._spark, self._lake, node)
        take_over(self._lake, name)
        verdicts = Backfill(self._spark, self._lake, node, whole=lost).run(lease=lease, correct=False)
        if lost and not any(verdict.swapped for verdict in verdicts):
            self._accept_results(node)
        write_state_anew(self._spark, self._lake, node)
        rewrite_node_log(self._lake, node)
        small_files.delete(mark)
        yield Repaired(name, "its tables were computed again from the log")

    def _accept_results(self, node: Node) -> None:
        """Commit that the results are right as they are: others rewrote them, and changed no row."""
        table, writer = lakes.open_table(self._lake.table(node.required_name)), results_writer(node)
        maintainer = lakes.TableWriter(table, lakes.MAINTAINER, carries=[writer], mends=True)
        maintainer.append([], {"writer": f"repair/{node.required_name}", **lakes.carried(table, [writer])})

    def _is_concerned(self, node: Node, since_ms: int | None) -> bool:
        """Whether a node has read beyond what was lost, or beyond what the log now holds."""
        if not lakes.exists(self._lake.state(node.required_name)):
            return False
        read_ms = read_progress(self._lake, node).upto_ms.get(self._topic.name, 0)
        end_ms = settled_ms(self._lake, self._topic)
        return read_ms > min(end_ms, end_ms if since_ms is None else since_ms)

    def _require_in_kafka(self, gaps: Sequence[Gap]) -> None:
        needed = [gap for gap in gaps if gap.offsets]
        if not needed:
            return
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
                hint="No commit was put back. Restore the table's files from a backup, or read the topic into a new lake.",
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
        writer, table = f"log/{self._topic.name}", lakes.open_table(self._path)
        records, stray = 0, files is not None
        if files is None:
            files, records = self._from_kafka(gap)
        files = fill_commits(self._spark, self._path, self._topic, files, gap.after_ms, stray=stray)
        maintainer.append(files, {"writer": f"repair/{writer}", **lakes.carried(table, [writer])})
        source = "from files that no version named" if stray else _read_from_kafka(gap, records)
        what = ", ".join(gap.stretches) or "no record"
        commits = f"{gap.commits:,} commit{'s' if gap.commits > 1 else ''}"
        return Repaired(writer, f"{commits} put back ({what}), {source}")

    def _from_kafka(self, gap: Gap) -> tuple[list[NewFile], int]:
        """Files of the commits that are gone; the first of them gets all records."""
        before, files, records = gap.before.after, [], 0
        times = _commit_times(gap)
        after = before.after(times[0], [])
        if gap.offsets:
            written = self._sequence_anew(gap, before, times[0])
            files, records = list(written.files), written.records
            after = before.after(times[0], written.ends)
        ends = {
            p: replace(after.partitions[p], next_offset=offset)
            if p in after.partitions
            else PartitionState(offset)
            for p, offset in gap.later.previous.items()
        }
        after = replace(after, partitions={**after.partitions, **ends})
        if self._was_completed(gap):
            files.append(self._decided(after, completion(after)))
            after = after.completed()
        if self._was_idle(gap, after):
            files.append(self._decided(after, idleness(after)))
            after = replace(after, idle=True)
        previous = gap.before.next
        for number, at_ms in enumerate(times):
            row = CommitRow(
                after if number == 0 else after.after(at_ms, []), previous, 0 if number else records
            )
            files.append(write_commit_row(self._path, self._schema, self._topic.name, row))
            previous, after = row.next, row.after
        return files, records

    def _was_completed(self, gap: Gap) -> bool:
        """Whether a commit that is gone said that the log is complete."""
        if gap.before.after.complete or not gap.later.after.complete:
            return False
        return not control_rows(read(self._spark, self._path), COMPLETE)

    def _was_idle(self, gap: Gap, after: LogState) -> bool:
        """Whether a commit that is gone said that the topic is idle."""
        later = gap.later.after
        if after.idle or not later.idle:
            return False
        return later.ingested_at_ms not in {ms for ms, _ in control_rows(read(self._spark, self._path), IDLE)}

    def _decided(self, after: LogState, entries: Mapping[LastRow, str | None]) -> NewFile:
        rows = [Decision(row.partition, row.stream_ms, entry) for row, entry in entries.items()]
        name, at_ms = self._topic.name, after.ingested_at_ms
        return write_decisions(self._path, self._schema, name, CONTROL, at_ms, rows)

    def _sequence_anew(self, gap: Gap, before: LogState, at_ms: int) -> WrittenRecords:
        raw = read_offsets(self._spark, self._topic, self._settings, gap.offsets)
        work, guard = RecordWriter(self._topic, self._path, self._schema), self._guard_at(gap.after_ms)
        try:
            return work.write(raw, before, guard, at_ms)
        except Exception as error:
            if not spark_refused(error):
                raise
        records = KafkaReader(self._topic.name, self._kafka.settings).read(gap.offsets)
        return work.write(records, before, guard, at_ms)

    def _guard_at(self, at_ms: int) -> Guard | None:
        """The replay guard as it was after a commit."""
        log = read(self._spark, self._path).where(F.col("ingested_at") <= F.timestamp_millis(F.lit(at_ms)))
        guard = GuardAtGap(self._topic, self._path, self._still_in_kafka)
        return guard.after(log.where(since_last_reset(resets_in(log))))

    def _still_in_kafka(self, offsets: Mapping[int, tuple[int, int]]) -> pa.Table:
        """The records of these stretches that Kafka still has."""
        earliest = self._kafka.earliest(set(offsets))
        left = {p: (max(first, earliest.get(p, first)), last) for p, (first, last) in offsets.items()}
        stretches = {p: each for p, each in left.items() if each[0] <= each[1]}
        return KafkaAgain(self._spark, self._topic, self._settings).stretches(stretches)


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


def _undone(uri: str, writer: str, of: str) -> Iterator[Repaired]:
    """Undo what somebody else did to the rows of a table; of `writer` the newest record stays known."""
    done = undo_foreign(lakes.open_table(uri), {"writer": f"repair/{writer}"}, [writer])
    if done:
        table = "its log" if of.startswith("log/") else f"its table at {uri}"
        yield Repaired(of, f"{table} has the rows of before again, {', '.join(done)} is undone")


def _commit_times(gap: Gap) -> list[int]:
    """Commit times for what is gone: what later commits remember of one, else the last moments before the next commit."""
    end_ms = gap.later.after.ingested_at_ms
    rows = (state.row_at_ms for state in gap.later.after.partitions.values())
    known = [at_ms for at_ms in rows if gap.after_ms < at_ms < end_ms]
    if gap.commits == 1 and known:
        return [max(known)]
    return [end_ms - number for number in range(gap.commits, 0, -1)]
