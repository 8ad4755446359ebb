"""The replay guard as it was after a commit of a log, where no record of a commit has it any more.

Law (L13): positions follow from the log's rows. A guard also compares the bytes of records, which the log has decoded.
These are the last records of each path or root and, with `ordinals="order"`, the outputs of the last input. They are read
again from Kafka. A record that Kafka no longer has is compared with none.
With `ordinals="order"` Kafka has to have all outputs of the last input, or none: a service sends them one after another.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from headrace.errors import TerminalError
from headrace.log.decisions.learn_guard import learn
from headrace.log.schema_store import SchemaStore
from headrace.sequence.formats import RecordFormat
from headrace.sequence.log_columns import DEAD_LETTER, RECORD
from headrace.sequence.log_state import LogState
from headrace.sequence.replays.exact import ExactGuard
from headrace.sequence.replays.guards import new_guard
from headrace.sequence.replays.monotone import MonotoneGuard
from headrace.sequence.replays.numbering import number_outputs
from headrace.sequence.replays.recent import RECENT_MAX
from headrace.sequence.sequence_records import RECORDS, Read, Sequencer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, Row

    from headrace.description import Topic
    from headrace.sequence.replays.guards import Guard
    from headrace.sequence.replays.numbering import Run

Stretch = tuple[int, int, int]
"""A partition, and its first and last offset."""


@dataclass(frozen=True)
class GuardAtGap:
    """Learns the guard of one topic from its log and from Kafka.

    log   the path of the log's table
    read  reads records, as `RECORDS`, of a stretch of each partition; those that Kafka no longer has are missing
    """

    topic: Topic
    log: str
    read: Callable[[Mapping[int, tuple[int, int]]], pa.Table]

    def after(self, rows: DataFrame) -> Guard | None:
        """The guard after rows of the log. In: rows  all through a commit, since the resets of their roots."""
        guard = new_guard(self.topic.replay_guard)
        if guard is None:
            return None
        positions = rows.where((F.col("kind") == RECORD) & F.col("path").isNotNull())
        match learn(guard, rows):
            case MonotoneGuard(runs=None) as learned:
                return self._with_marks(learned, _last_of_paths(positions), [])
            case MonotoneGuard() as learned:
                return self._with_marks(learned, _last_of_paths(positions), _dead_letters(rows))
            case ExactGuard() as learned:
                return self._with_recent(learned, positions)

    def _with_marks(
        self, learned: MonotoneGuard, paths: Sequence[Row], dead: Sequence[Stretch]
    ) -> MonotoneGuard:
        """The guard with the digests of the records at its highest positions, and with the runs of their outputs."""
        numbers = learned.runs is not None
        marks = _stretches(paths, "mark", "mark")
        outputs = _stretches(paths, "began", "last") if numbers else []
        records = self._records([*marks, *outputs, *_following(dead, paths)])
        highest = dict(learned.highest)
        runs: dict[str, Run] = {}
        for path in paths:
            name, partition = path["path"], path["partition"]
            at_mark = self._read(_from(records, partition, path["mark"], path["mark"]))
            if at_mark.records.num_rows:
                one, two = at_mark.contents.digests(np.zeros(1, np.int64))[0].tolist()
                highest[name] = highest[name]._replace(digests=(one, two))
            if numbers and (run := self._run(_from(records, partition, path["began"]), path)) is not None:
                runs[name] = run
        return MonotoneGuard(highest, runs if numbers else None)

    def _run(self, records: pa.Table, path: Row) -> Run | None:
        """The last run of a path. In: records  of its partition since the run of its last row began."""
        read = self._read(records)
        if read.chains is None:
            return None
        numbered, runs = number_outputs(read.chains, read.contents, {})
        offsets = read.records["offset"].to_numpy()
        last = np.flatnonzero(offsets == path["last"])
        ends = np.cumsum(numbered.hops) - 1
        if len(last) and numbered.ordinals[ends[last[0]]] != path["ordinal"]:
            raise TerminalError(
                f"Topic '{self.topic.name}': Kafka no longer has all outputs of the last input, so its guard cannot "
                "number the others.",
                detail=f"Path {path['path']}: offsets {path['began']} to {path['last']} of partition {path['partition']}.",
                hint="Restore the files of the log from a backup.",
            )
        return runs.get(path["path"]) if len(last) else None

    def _with_recent(self, learned: ExactGuard, positions: DataFrame) -> ExactGuard:
        """The guard with the digests of the records that were taken last of each root partition."""
        last: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for row in _last_of_roots(positions):
            last[row["root_topic"], row["root_partition"]].append((row["partition"], row["offset"]))
        records = self._records([(p, at, at) for of in last.values() for p, at in of])
        recent = {
            root: reduce(self._judged, (_from(records, p, at, at) for p, at in of), ExactGuard()).recent
            for root, of in last.items()
        }
        return replace(learned, recent={root: of[root] for root, of in recent.items() if root in of})

    def _judged(self, guard: ExactGuard, records: pa.Table) -> ExactGuard:
        read = self._read(records)
        if read.chains is None or not read.records.num_rows:
            return guard
        return guard.judge(read.chains, np.ones(read.records.num_rows, bool), read.contents)[1]

    def _read(self, records: pa.Table) -> Read:
        """Records as a sequencer reads them: their chains and their bytes."""
        store = SchemaStore(self.log, self.topic)
        while True:
            of = RecordFormat.of(self.topic, store.known)
            read = Sequencer(of).read(records, LogState(), 0)
            if not read.decoded.asked:
                return read
            store.learn(read.decoded.asked)

    def _records(self, stretches: Iterable[Stretch]) -> pa.Table:
        """The records of some stretches, by partition and offset; one stretch of each partition is read at once."""
        of: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for partition, first, last in sorted(stretches):
            joined = of[partition]
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
            else:
                joined.append((first, last))
        rounds = max(map(len, of.values()), default=0)
        tables = [
            self.read({p: parts[number] for p, parts in of.items() if number < len(parts)})
            for number in range(rounds)
        ]
        records = pa.concat_tables([RECORDS.empty_table(), *tables]).combine_chunks()
        return records.sort_by([("partition", "ascending"), ("offset", "ascending")])


def _from(records: pa.Table, partition: int, first: int | None, last: int | None = None) -> pa.Table:
    """The records of a partition from an offset on, or through another one."""
    if first is None:
        return records.slice(0, 0)
    wanted = pc.and_(pc.equal(records["partition"], partition), pc.greater_equal(records["offset"], first))
    if last is not None:
        wanted = pc.and_(wanted, pc.less_equal(records["offset"], last))
    return records.filter(wanted)


def _stretches(paths: Sequence[Row], first: str, last: str) -> list[Stretch]:
    """The stretch of each path that has one."""
    return [(path["partition"], path[first], path[last]) for path in paths if path[first] is not None]


def _last_of_paths(positions: DataFrame) -> list[Row]:
    """For each path, which ends in one partition: `mark`, `began` and `last`, offsets.

    mark   of the record at its highest position
    began  of the first output of the input of its last row; `ordinal`: the number of that row
    last   of its last row
    """
    ordinal = F.try_element_at("ordinals", F.lit(-1))
    return (
        positions.groupBy("path", "partition")
        .agg(
            F.max(F.when(~F.col("replay"), F.col("offset"))).alias("mark"),
            F.max(F.when(ordinal == 0, F.col("offset"))).alias("began"),
            F.max("offset").alias("last"),
            F.max_by(ordinal, "offset").alias("ordinal"),
        )
        .orderBy("path")
        .collect()
    )


def _last_of_roots(positions: DataFrame) -> list[Row]:
    """The records that were taken last of each root partition, in the order in which they were."""
    order = [F.col(name) for name in ("ingested_at", "partition", "offset")]
    newest = Window.partitionBy("root_topic", "root_partition").orderBy(*(each.desc() for each in order))
    last = positions.where(~F.col("replay")).withColumn("place", F.row_number().over(newest))
    return last.where(F.col("place") <= RECENT_MAX).orderBy(*order).collect()


def _dead_letters(rows: DataFrame) -> list[Stretch]:
    dead = rows.where(F.col("kind") == DEAD_LETTER).select("partition", "offset").collect()
    return [(row["partition"], row["offset"], row["offset"]) for row in dead]


def _following(dead: Sequence[Stretch], paths: Sequence[Row]) -> list[Stretch]:
    """The dead letters after the last row of a path: they may be outputs, too."""
    last: dict[int, int] = {}
    for path in paths:
        last[path["partition"]] = min(path["last"], last.get(path["partition"], path["last"]))
    return [each for each in dead if each[1] > last.get(each[0], each[1])]
