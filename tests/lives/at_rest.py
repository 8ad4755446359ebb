"""The laws of a life that has come to rest, from the lake as a new process reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace import oracle
from headrace.description import is_of_kafka
from headrace.description.suppression import UntilTimeLimit
from headrace.engine.slices.log_slices import LogSlice, Origin, whole_log
from headrace.fold.fates import NOT_RECORDS, USED
from headrace.fold.values.columns import MOMENT
from headrace.lake import forget, open_table
from headrace.lifecycle.evidence.local_evidence import LocalEvidence
from headrace.lifecycle.oracle_check import KeysVerdict, _Check
from headrace.nodes.balances.opening import read_opening
from headrace.nodes.bound_operator import bound
from headrace.nodes.descriptions.references import resolve_references
from headrace.nodes.descriptions.topics import wall_waits
from headrace.nodes.node_tables import frontier_ms
from headrace.nodes.rows.feed_tables import feed_tables
from headrace.nodes.unusable_table import UnusableTable
from headrace.operators.key_scope import KeyScope
from headrace.quality.books import open_books
from headrace.sequence.log_columns import RECORD
from headrace.spark.on_demand import on_demand
from headrace.spark.session import pipeline_session
from headrace.testing.findings import ALL_KEYS, _require_equal
from headrace.writing.delivery.redeliver import can_be_put_right
from headrace.writing.node_logs.node_log import node_log
from tests.lives.broker import CUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node
    from headrace.testing.findings import Rows
    from tests.lives.decisions import LimitSet
    from tests.lives.live import LivesDriver


def faults(life: LivesDriver) -> list[str]:
    """The laws that do not hold, in words; each kind of a fault once for each node."""
    forget()
    found = [*logs(life), *overdue(life)]
    for node in life._nodes.values():
        name = node.required_name
        rows, ledger = life.rows(name), life.ledger(name)
        found += behind(life, node)
        try:
            _require_equal(name, life.backfill(name), rows)
        except AssertionError as error:
            found.append(str(error))
        found += books(life, node, ledger)
        found += store(life, node, rows)
        found += replayed(life, node, ledger)
    for node in life._nodes.values():  # last: it writes
        found += own_log(life, node)
    return found


def logs(life: LivesDriver) -> list[str]:
    """Each record that a producer sent stands in its log once, and no other."""
    found = []
    for name, broker in life._brokers.items():
        if name not in life._topics:  # after a change no node reads it, so nobody writes its log
            continue
        rows = [place for place in _places(life.lake.log(name)) if place[1] is not None]
        sent = [place for place in broker.sent if place not in broker.cut]
        if sorted(rows) != sorted(sent):
            more, missing = Counter(rows) - Counter(sent), Counter(sent) - Counter(rows)
            found.append(f"log of {name}: missing {[*missing][:5]}, more {[*more][:5]}")
    return found


def _places(uri: str) -> list[tuple[int, int]]:
    """Partition and offset of each row of a log; ticks and control rows have no offset."""
    of = {"partition": pa.int32(), "offset": pa.int64()}
    rows = whole_log(uri).read({name: Origin((name,), type) for name, type in of.items()})
    return [*zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)]


def overdue(life: LivesDriver) -> list[str]:
    """Where a deadline of the wall clock has passed, the log has a commit from then on: else somebody would wait for ever."""
    found = []
    for name, topic in life._topics.items():
        waits = {(wait.ms, wait.advance_ms) for wait in wall_waits(topic, [*life._nodes.values()]) if wait.ms}
        if name not in life._brokers:
            continue
        end_ms, now_ms = frontier_ms(life.lake, topic), life._sequencers[name].now_ms()
        copies = [copy for _, copy in life.cut_logs.get(name, ())]
        commits_ms = {ms for uri in (life.lake.log(name), *copies) for ms in _commits_of_records(uri)}
        due_ms = {end for wait in waits for ms in commits_ms for end in _deadlines(ms, *wait)}
        due_ms |= {end for limits in life.limits.values() for end in _set_deadlines(name, commits_ms, limits)}
        if late := [ms for ms in sorted(due_ms) if end_ms < ms <= now_ms]:
            found.append(f"log of {name}: it ends at {end_ms}, it is {now_ms}, and {late[:3]} were due")
    return found


def _set_deadlines(topic: str, commits_ms: set[int], limits: list[LimitSet]) -> set[int]:
    """The deadlines of commits under the limits that were in force at each."""
    set_ms = {limit.at_ms: limit.ms for limit in limits if limit.topic == topic}
    in_force = {ms: max((at_ms for at_ms in set_ms if at_ms <= ms), default=0) for ms in commits_ms}
    return {ms + set_ms[at_ms] for ms, at_ms in in_force.items() if set_ms.get(at_ms)}


def _commits_of_records(uri: str) -> set[int]:
    """The commit times of a log's records."""
    rows = whole_log(uri).read(
        {"ingested_at": Origin(("ingested_at",), MOMENT), "kind": Origin(("kind",), pa.string())}
    )
    at_us = rows["ingested_at"].cast(pa.int64()).to_pylist()
    return {us // 1_000 for us, kind in zip(at_us, rows["kind"].to_pylist(), strict=True) if kind == RECORD}


def _deadlines(commit_ms: int, wait_ms: int, advance_ms: int) -> range:
    """The deadline of a commit; of windows the ends of all that hold it."""
    if not advance_ms:
        return range(commit_ms + wait_ms, commit_ms + wait_ms + 1)
    first = commit_ms + advance_ms - (commit_ms - wait_ms) % advance_ms
    return range(first, commit_ms + wait_ms + 1, advance_ms)


def behind(life: LivesDriver, node: Node) -> list[str]:
    """The node has read its logs to their ends: all of them are settled."""
    name = node.required_name
    read = life._runners[name].progress.upto_ms
    ends = {topic.name: frontier_ms(life.lake, topic) for topic in node.topics}
    late = {topic: end for topic, end in ends.items() if read.get(topic, 0) < end}
    return [f"{name} is behind: it has read {dict(read)}, and the logs end at {ends}"] if late else []


def books(life: LivesDriver, node: Node, ledger: Rows) -> list[str]:
    """The ledger knows each record of Kafka's topics once."""
    name, known = node.required_name, Counter[tuple[str, int]]()
    for row in ledger:
        if row["fate"] not in NOT_RECORDS:
            known[row["topic"], row["partition"]] += row["records"]
    sent = Counter(
        (topic.name, partition)
        for topic in node.topics
        if is_of_kafka(topic)
        for place in life._brokers[topic.name].sent
        for partition in place[:1]
        if place not in life.unread.get(name, {}).get(topic.name, ())
    )
    counted = Counter({at: n for at, n in known.items() if at[0] in life._brokers and n})
    return [f"books of {name}: {dict(counted)} of {dict(sent)}"] if counted != sent else []


def replayed(life: LivesDriver, node: Node, ledger: Rows) -> list[str]:
    """The oracle makes the rows of the table, and the fates of the ledger. It begins with the first record of a log.

    It replays some keys of a time limit, and not the log: so it knows the rows alone.
    """
    spark, node = on_demand(life._session, pipeline_session), resolve_references(life.lake, node)
    wrong: list[str] = []
    if read_opening(life.lake, node).is_at_the_beginning:
        check = _Check(spark, life.lake, node)
    else:
        wrong = accounts(life, node)
        if not _has_read_all(life, node):
            return wrong
        check = _of_whole_logs(life, spark, node)
    if isinstance(node.suppressed_by, UntilTimeLimit):
        return wrong + _differences(check.verdict(ALL_KEYS, 0))
    results = oracle.results(check.node, check.scope.log(None))
    stored = check.evidence.table(check.by, None)
    wrong += _differences(check._compared(0, check.scope.rows(results), stored))
    return wrong + fates(node, results, ledger)


def _has_read_all(life: LivesDriver, node: Node) -> bool:
    """Whether no log was cut before the node began."""
    cut_before = life.unread.get(node.required_name, {}).values()
    return not any(partition == CUT for places in cut_before for partition, _ in places)


def _of_whole_logs(life: LivesDriver, spark: SparkSession, node: Node) -> _Check:
    """The check of a node whose logs were cut, with the rows that are gone: the tables are those of the whole logs."""
    of = bound(spark, node)
    evidence = LocalEvidence.of_tables(spark, life.lake, node, of)
    unusable = UnusableTable(spark, life.lake, node).read()
    parts = [
        feed_tables(spark, of, slices, unusable)
        for slices in _whole_logs(life, node, evidence.progress.upto_ms)
    ]
    tables = {feed: pa.concat_tables([part[feed] for part in parts]) for feed in parts[0]}
    check = object.__new__(_Check)
    check.node, check.evidence = node, replace(evidence, tables=tables)
    check.scope = KeyScope(node, check.evidence, evidence.progress.frontier_ms(node))
    return check


def _whole_logs(life: LivesDriver, node: Node, upto_ms: Mapping[str, int]) -> Iterator[dict[str, LogSlice]]:
    """Stretches of a node's logs that make the whole: from the copies before the cuts, and from the logs themselves."""
    stretches: dict[str, list[LogSlice]] = {}
    for topic in node.topics:
        cuts = [(0, ""), *life.cut_logs.get(topic.name, ())]
        found = [LogSlice.of(copy, before[0], at_ms) for before, (at_ms, copy) in pairwise(cuts)]
        rest = LogSlice.of(life.lake.log(topic.name), cuts[-1][0], upto_ms.get(topic.name, 0))
        stretches[topic.name] = [*found, rest]
    for number in range(max(map(len, stretches.values()))):
        yield {
            name: each[number] if number < len(each) else replace(each[0], files={})
            for name, each in stretches.items()
        }


def accounts(life: LivesDriver, node: Node) -> list[str]:
    """In a log that was cut, the opening balance and the remaining rows account for each record, and so does the table."""
    name, opened = node.required_name, open_books(life.spark, life.lake, node)
    wrong: list[Any] = [each for each in opened.accounts if each.delivered != each.accounted]
    if opened.in_results not in (None, opened.total(USED)):
        wrong.append(f"{opened.in_results} records in its rows, and {opened.total(USED)} were used")
    return [f"accounts of {name}: {wrong[:2]}"] if wrong else []


def _differences(verdict: KeysVerdict) -> list[str]:
    return (
        []
        if verdict.equal
        else ["\n  ".join([f"{verdict.node}: the oracle differs.", *verdict.first_differences])]
    )


def fates(node: Node, replayed: oracle.Results, ledger: Rows) -> list[str]:
    """The ledger tells of each partition as many records of each fate as the oracle, where that replays all of a topic.

    It replays those rows of reference tables that are looked for.
    """
    wanted = Counter((topic, partition, fate) for (topic, partition, _), fate in replayed.fates.items())
    there = Counter(
        {(row["topic"], row["partition"], row["fate"]): row["records"] for row in ledger if row["records"]}
    )
    partly = {topic for topic, _ in _by_topic(there) - _by_topic(wanted)}
    more, less = (
        {at: number for at, number in each.items() if at[0] not in partly}
        for each in (there - wanted, wanted - there)
    )
    return [f"fates of {node.required_name}: {more}, and the oracle has {less}"] if more or less else []


def _by_topic(counts: Counter[tuple[str, int, str]]) -> Counter[tuple[str, str]]:
    """The number of records of each topic."""
    found = Counter[tuple[str, str]]()
    for (topic, _, _), number in counts.items():
        found[topic, "records"] += number
    return found


def own_log(life: LivesDriver, node: Node) -> list[str]:
    """The log of a node is what it would be if it were written anew (L32), rows without their order in files."""
    log = node_log(life.lake, node, is_read=False)
    if log is None:
        return []
    uri = life.lake.log(log.topic.name)
    before = Counter(rows_of(uri))
    log.rewrite()
    anew = Counter(rows_of(uri))
    if before == anew:
        return []
    return [f"log of {node.required_name}: it has {[*before - anew][:2]}, and anew {[*anew - before][:2]}"]


def rows_of(uri: str) -> list[str]:
    """The rows of a node's log, in words."""
    table = open_table(uri)
    columns = {field.name: Origin((field.name,), field.type) for field in table.columns}
    return sorted(repr(row) for row in whole_log(uri).read(columns).to_pylist())


def store(life: LivesDriver, node: Node, rows: Rows) -> list[str]:
    """The sink holds the rows of the table, and was never given another row for the same place."""
    name = node.required_name
    if name not in life.stores:
        return []
    sink = life.stores[name]
    wanted, there = sink.of_table(rows), Counter(sink.table())
    found = [f"sink of {name}: {words}" for words in sink.contradictions[:1] if not sink.corrected]
    missing, more = wanted - there - sink.not_told, there - wanted
    keeps_rows = sink.corrected and not can_be_put_right(sink)
    if missing or (more and not keeps_rows):
        found.append(f"sink of {name}: missing {[*missing][:2]}, more {[*more][:2]}")
    return found
