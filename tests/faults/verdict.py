"""What a life has left behind, against what Kafka delivered: the log, the books, each node's table, each sink.

- conservation: every record that Kafka delivered is in the log once, with the kind and the stream time that plain Python gives it;
- the books of each node balance, and are those of a fold of the whole log in one go;
- each table is the one that the oracle makes of the log;
- each sink holds the rows of its node's table, each once;
- the Iceberg mirror of each table holds the rows of the version that it names, however old that is.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.rows import dict_row

import headrace as hr
from headrace import lake as lakes
from headrace.engine.slices.log_slices import LogSlice, whole_log
from headrace.lifecycle.oracle_check import verify_keys
from headrace.mirror.equality import iceberg_equals_delta
from headrace.mirror.mirrors import Mirrors
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.rows import state_views
from headrace.nodes.rows.state_frames import StateTables
from headrace.observe.local_views import LocalViews
from headrace.observe.views import Views, counted_fates
from headrace.sequence.log_columns import DEAD_LETTER, RECORD
from headrace.spark.rows.json_rows import as_json
from headrace.writing.fold_aside import folded_logs
from tests.faults.delivered import Delivered, delivered
from tests.faults.pipeline import pipeline, table
from tests.oracle import guard_oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.engine.state_files import StateSource
    from headrace.lake.paths import Lake
    from headrace.nodes.bound_operator import BoundOperator
    from headrace.nodes.progress import Progress

ALL = 100_000  # keys: more than there are
DAY_MS = 86_400_000
Position = tuple[int, int]


@dataclass
class Verdict:
    """What was found.

    records      that Kafka delivered
    rows         that were compared, over tables and sinks
    lost         records not in the log, and rows that a table or a sink lacks
    doubled      records in the log twice, and rows that a table or a sink should not have, or has twice
    unaccounted  records on which the books of a node do not agree with its log, or with a fold of the log in one go
    words        about each of these
    """

    records: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    unaccounted: int = 0
    words: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.words

    def compare(self, what: str, wanted: Counter[Any], found: Counter[Any]) -> None:
        """Count what differs."""
        missing, extra = wanted - found, found - wanted
        self.rows += wanted.total()
        self.lost += missing.total()
        self.doubled += extra.total()
        for word, rows in (("lacks", missing), ("has, and should not,", extra)):
            if rows:
                self.words.append(f"{what} {word} {rows.total()}: {list(rows)[:3]}")


def judge(
    spark: SparkSession,
    lake: Lake,
    prefix: str,
    bootstrap: str,
    names: Sequence[str],
    *,
    revised: bool = False,
    gone: str | None = None,
) -> Verdict:
    """Judge all that some nodes and their logs have left behind.

    In: revised  whether the nodes are those of the revised pipeline
        gone     a file of records, by topic, that Kafka delivered and has deleted since (see `remember`)
    """
    verdict, nodes = Verdict(), pipeline(prefix, bootstrap, revised=revised)
    remembered: dict[str, list[Delivered]] = pickle.loads(Path(gone).read_bytes()) if gone else {}
    read = {topic for name in names for topic in nodes[name].topics}
    for topic in sorted(read, key=lambda topic: topic.name):
        records = [*delivered(bootstrap, topic.name), *remembered.get(topic.name, [])]
        sent = {(record.partition, record.offset): record for record in records}
        judge_log(verdict, lake, topic, [sent[at] for at in sorted(sent)])
    for name in names:
        judge_node(verdict, spark, lake, nodes[name])
        judge_sinks(verdict, spark, lake, nodes[name], prefix, bootstrap)
        judge_mirror(verdict, lake, nodes[name].required_name)
    return verdict


def judge_mirror(verdict: Verdict, lake: Lake, name: str) -> None:
    """The mirror as the stream has left it, and once more after a round."""
    mirror = Mirrors(lake).of_node(name)
    if mirror is None:
        return
    for _ in range(2):
        answer = None if mirror.mirrored() is None else iceberg_equals_delta(mirror)
        if answer is not None and not answer.equal:
            verdict.words.append(f"mirror of {name}: {answer.sentence}")
        mirror.follow(2)


def judge_log(verdict: Verdict, lake: Lake, topic: hr.Topic, sent: Sequence[Delivered]) -> None:
    """Every record is in the log once, of the kind and at the stream time that plain Python gives it."""
    uri = lake.log(topic.name)
    log = whole_log(uri).rows(lakes.open_table(uri).columns)
    columns = ("partition", "offset", "kind", "replay")
    times = (_ms(log[name]) for name in ("ingested_at", "timestamp", "stream_time"))
    of_rows = zip(*times, *(log[name].to_pylist() for name in columns), strict=True)
    rows = sorted(
        ((at, *row, event, stream) for at, event, stream, *row in of_rows if row[2] != "control"),
        key=lambda row: (row[0], row[1], -1 if row[2] is None else row[2]),
    )
    found = Counter((row[1], row[2]) for row in rows if row[2] is not None)
    verdict.records += len(sent)
    verdict.compare(f"log of {topic.name}", Counter((s.partition, s.offset) for s in sent), found)
    kinds = _kinds(topic, sent)
    seen = {(row[1], row[2]): (row[3], bool(row[4]), row[5]) for row in rows if row[2] is not None}
    verdict.compare(f"kinds in {topic.name}", Counter(kinds.items()), Counter(seen.items()))
    stood = Counter((row[0], row[1], row[2], row[6]) for row in rows)
    verdict.compare(f"stream times in {topic.name}", Counter(_stream_times(rows)), stood)


def _ms(times: pa.ChunkedArray) -> list[int | None]:
    """Times in ms since 1970; none of them lies before."""
    return list(pc.divide(times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1000).to_pylist())


def _kinds(topic: hr.Topic, sent: Sequence[Delivered]) -> dict[Position, tuple[str, bool, int]]:
    """Of each record whether it is dead, whether it is a replay, and its event time."""
    latest_ms = time.time_ns() // 1_000_000 + DAY_MS
    dead = {(s.partition, s.offset) for s in sent if _is_dead(s) or s.timestamp_ms > latest_ms}
    replays, ambiguous = set[Position](), set[Position]()
    if topic.replay_guard is not None:
        arrivals = [
            guard_oracle.Delivery(
                s.partition,
                s.offset,
                [tuple(entry) for entry in json.loads(s.chain)] if s.chain else None,
                (s.partition, s.offset) in dead,
                (s.key, s.value),
            )
            for s in sent
        ]
        refused = guard_oracle.monotone(topic.name, [arrivals])
        replays, ambiguous = refused.replays, refused.ambiguous
    return {
        (at := (s.partition, s.offset)): (
            "dead_letter" if at in dead | ambiguous else "record",
            at in replays,
            s.timestamp_ms,
        )
        for s in sent
    }


def _is_dead(sent: Delivered) -> bool:
    """Whether the value is no JSON; those of this traffic fit their types otherwise."""
    try:
        json.loads(sent.value or b"null")
    except ValueError:
        return True
    return False


def _stream_times(rows: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    """The stream time of each row, and of ticks what they say: the highest so far, from the lowest at the last commit's end on."""
    now: dict[int, int] = {}
    lowest, at = None, None
    for ingested, partition, offset, kind, replay, event, stream in rows:
        if ingested != at:
            lowest, at = min(now.values(), default=None), ingested
        if kind == "tick":
            now[partition] = stream
        elif kind == "record" and not replay:
            now[partition] = max(ms for ms in (event, now.get(partition, lowest)) if ms is not None)
        yield ingested, partition, offset, now.get(partition)


def judge_node(verdict: Verdict, spark: SparkSession, lake: Lake, node: Node) -> None:
    """The table is the oracle's; the books balance, and are those of a fold in one go."""
    name = node.required_name
    checked = verify_keys(spark, lake, node, ALL)
    verdict.rows += checked.rows_equal
    if not checked.equal:
        mine = sum(line.startswith("oracle") for line in checked.first_differences)
        verdict.lost += checked.rows_differing if mine else 0
        verdict.doubled += 0 if mine else checked.rows_differing
        verdict.words.append(f"{name} is not the oracle's: {checked.first_differences}")
    stored = LocalViews(spark, lake).stored(node)
    progress, resolved = stored.progress, stored.of.operator.node
    ledger = _fates(stored.of, stored.state, progress)
    with folded_logs(spark, lake, resolved, progress.upto_ms, read_opening(lake, resolved)) as again:
        in_one_go = _fates(stored.of, again.source, again.progress)
    in_logs = _in_logs(lake, resolved.topics, progress.upto_ms)
    for place in sorted({*ledger, *in_logs}):
        fates = ledger.get(place, {})
        wrong = abs(in_logs[place] - sum(fates.values()))
        wrong += sum(abs(fates.get(fate, 0) - number) for fate, number in in_one_go.get(place, {}).items())
        verdict.unaccounted += wrong
        if wrong:
            words = f"{place} has {in_logs[place]} records, {dict(fates)}, and in one go {dict(in_one_go)}"
            verdict.words.append(f"books of {name}: {words}")


def _fates(
    of: BoundOperator, state: StateSource, progress: Progress
) -> Mapping[tuple[str, int], Mapping[str, int]]:
    """The records of each fate, by topic and partition."""
    waiting = state_views.open_records(of, StateTables(state), progress.clock)
    return counted_fates(progress, [] if waiting is None else waiting.to_pylist())


def _in_logs(lake: Lake, topics: Iterable[hr.Topic], upto_ms: Mapping[str, int]) -> Counter[tuple[str, int]]:
    """The records in logs as far as a node has read them, by topic and partition."""
    counts = Counter[tuple[str, int]]()
    for topic in topics:
        uri = lake.log(topic.name)
        if lakes.exists(uri):
            rows = LogSlice.of(uri, 0, upto_ms.get(topic.name, 0)).rows(lakes.open_table(uri).columns)
            places = zip(rows["partition"].to_pylist(), rows["kind"].to_pylist(), strict=True)
            counts.update(
                (topic.name, partition) for partition, kind in places if kind in (RECORD, DEAD_LETTER)
            )
    return counts


def judge_sinks(
    verdict: Verdict, spark: SparkSession, lake: Lake, node: Node, prefix: str, bootstrap: str
) -> None:
    """What each sink holds is the node's table."""
    for sink in node.sinks:
        frame = Views(spark, lake).read(node)
        if isinstance(sink, hr.KafkaSink):
            wanted = [row[0] for row in frame.select(as_json(node.columns)).collect()]
            held = guarded(bootstrap, sink.topic)
        else:
            wanted = [_plain(row.asDict()) for row in frame.collect()]
            held = [_plain(row) for row in in_postgres(table(prefix, node.required_name))]
        verdict.compare(f"{sink.name} of {node.required_name}", Counter(wanted), Counter(held))


def guarded(bootstrap: str, topic: str) -> list[str]:
    """The values of a sink's topic as a reader with a monotone guard takes them."""
    found, highest = list[str](), dict[tuple[Any, ...], tuple[int, ...]]()
    for record in delivered(bootstrap, topic):
        entry = json.loads(record.chain or b"[]")[0]
        path, at = (entry[0], entry[1], record.partition), tuple(entry[2:])
        if at > highest.get(path, (-1,)):
            highest[path] = at
            found.append((record.value or b"").decode())
    return found


def in_postgres(name: str) -> list[dict[str, Any]]:
    """The rows of a sink's table; none when no delivery has made it."""
    with psycopg.connect(os.environ["HEADRACE_POSTGRES_DSN"]) as connection:
        if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,):
            return []
        cursor = connection.cursor(row_factory=dict_row)
        return cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))).fetchall()


def _plain(row: Mapping[str, Any]) -> str:
    """A row as text, without what is nested: its numbers are in other columns."""
    values = {
        name: value.astimezone(dt.UTC).isoformat() if isinstance(value, dt.datetime) else value
        for name, value in row.items()
        if not name.startswith("__") and not isinstance(value, list | dict)
    }
    return repr(sorted(values.items()))
