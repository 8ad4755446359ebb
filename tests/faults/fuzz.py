"""Malformed records of a grammar, through a real broker and every format: keys, values, headers and timestamps.

    python tests/faults/fuzz.py BOOTSTRAP LAKE TOPIC --seed 7 --records 10000

The seed decides about the format. Each record is generated with no regard to what becomes of it; the oracles say that. It prints `judged` and a verdict.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

import headrace as hr
from headrace.description.replay import MAX_GAPS
from headrace.lake.paths import Lake
from headrace.spark.jars import spark_jars
from headrace.spark.kafka import KafkaSettings
from headrace.spark.session import build_session, spark_conf
from headrace.streams.stream_runtime import StreamRuntime
from tests.faults.delivered import Delivered, delivered
from tests.faults.fuzz_formats import FORMATS, read_json
from tests.faults.traffic import CHAIN, NOON_MS, YEAR_2100_MS
from tests.faults.verdict import Verdict, judge_node
from tests.faults.victim import CONF
from tests.laws.kernel.json_texts import an_object
from tests.laws.kernel.test_sequence_json import ddl, exactly
from tests.oracle import guard_oracle
from tests.oracle.guard_oracle import Place
from tests.rows import log_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.description import Node

PARTITIONS = 3
DEAD = "dead_letter"
KEY: dict[str, Any] = {"k": "STRING", "n": "INT"}
# The last moment that a timestamp can be written for, and the first that is beyond.
TIMES_MS = (
    1,
    999,
    NOON_MS,
    NOON_MS,
    NOON_MS,
    NOON_MS,
    YEAR_2100_MS,
    253_402_300_799_999,
    253_402_300_800_000,
)
PLAIN_KEY = b'{"k": "a", "n": 1}'
BYTES = (
    b"",
    b"{",
    b"}",
    b"{}",
    b"\xff\xfe",
    b"\x00",
    b"null",
    b"[]",
    b'"a"',
    b"1",
    b"{}{}",
    b"\xc3(",
    b"\xed\xa0\x80",
    b"{" * 3000,
)
CHAINS = ('[["a",0,1]]', '[["a", 0, 12, 3]]', ' [["b",1,5],["c",2,7]] ')
NO_CHAINS = (
    "",
    "[]",
    "{}",
    '[["a",0]]',
    '[["a",0,-1]]',
    '[["a b",0,1]]',
    '[["a",0,1],]',
    "\x00",
    '[["a",01,1]]',
    "[[]]",
    "é",
)


@dataclass(frozen=True)
class Fuzzed:
    """A record as it is produced."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]
    timestamp_ms: int


def format_of(seed: int) -> str:
    """The format of a trial."""
    return [*FORMATS][seed % len(FORMATS)]


def node_of(topic: str, form: str) -> Node:
    """Counts of each key, of whatever can be read."""
    columns = ", ".join(f"`{name}` {ddl(of)}" for name, of in FORMATS[form].columns.items())
    readings = hr.Topic(
        topic,
        key="k STRING, n INT",
        value=columns,
        format=FORMATS[form].format,
        idle_timeout=None,
        replay_guard=hr.ReplayGuard(mode="exact"),
    )
    last = hr.last("l" if "l" in FORMATS[form].columns else "s")
    counts = readings.group_by("k", "n").aggregate(rows=hr.count(), latest=last, longest=hr.max("s"))
    return counts.named(f"fuzzed_{form}")


def records(random: Random, number: int, form: str) -> Iterator[Fuzzed]:
    """So many records of the grammar."""
    for _ in range(number):
        headers: list[tuple[str, str | bytes | None]] = []
        odd = random.random()
        if odd < 0.1:
            headers = [(CHAIN, random.choice(CHAINS + NO_CHAINS))]
        elif odd < 0.2:
            headers = [("", b"\xff"), ("other", None), (CHAIN.upper(), b"[")]
        yield Fuzzed(
            random.randrange(PARTITIONS),
            _bytes(random, an_object(random, KEY).encode("utf-8", "surrogatepass"), PLAIN_KEY),
            _bytes(random, FORMATS[form].make(random), FORMATS[form].plain),
            headers,
            random.choice(TIMES_MS),
        )


def _bytes(random: Random, made: bytes, plain: bytes) -> bytes | None:
    """What was made of the grammar; some have bytes changed, some are cut, some are other things."""
    draw = random.random()
    if draw < 0.3:
        return plain
    if draw < 0.36:
        return None
    if draw < 0.46:
        return random.choice(BYTES)
    if draw < 0.6 and made:
        at = random.randrange(len(made))
        return random.choice(
            [made[:at], made[:at] + bytes([random.randrange(256)]) + made[at + 1 :], made + made[at:]]
        )
    return made


def produce(bootstrap: str, topic: str, random: Random, number: int, form: str) -> None:
    """Send so many records, and return when the broker has all of them."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all"})
    for record in records(random, number, form):
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp=record.timestamp_ms,
                    headers=record.headers,
                )
                break
            except BufferError:
                producer.poll(0.5)
    left = producer.flush(120)
    assert left == 0, f"{left} records are not on the broker"


def wanted(sent: Delivered, now_ms: int, form: str) -> tuple[str, Any, Any]:
    """The kind of the log's row, its key and its value, whatever came before."""
    key = None if sent.key is None else read_json(sent.key, KEY)
    value = None if sent.value is None else FORMATS[form].read(sent.value)
    late = sent.timestamp_ms > now_ms
    chain = None if sent.chain is None else sent.chain.decode()
    if isinstance(key, str) or isinstance(value, str) or late or chain in NO_CHAINS:
        return DEAD, None, None
    return "record", exactly(key), exactly(value)


def fuzzed(
    spark: SparkSession, lake: Lake, bootstrap: str, topics: Mapping[str, str], seed: int, number: int
) -> Verdict:
    """Send records, run the stream until it has caught up, and judge: each is in the log once, as the oracles have it.

    In: topics  by the name of their format; each gets so many records
    """
    nodes = {form: node_of(topic, form) for form, topic in topics.items()}
    for form, topic in topics.items():
        produce(bootstrap, topic, Random(seed), number, form)
    runtime = StreamRuntime(
        spark, lake, [*nodes.values()], kafka=KafkaSettings(bootstrap_servers=bootstrap), trigger_ms=100
    )
    runtime.run_until_caught_up(600, poll_seconds=0.1)
    runtime.drain()
    verdict = Verdict()
    for form, topic in topics.items():
        _judge_log(verdict, lake, bootstrap, topic, form)
        judge_node(verdict, spark, lake, nodes[form])
    return verdict


def _judge_log(verdict: Verdict, lake: Lake, bootstrap: str, topic: str, form: str) -> None:
    now_ms, sent = time.time_ns() // 1_000_000 + 3_600_000, delivered(bootstrap, topic)
    verdict.records += len(sent)
    rows = {(s.partition, s.offset): wanted(s, now_ms, form) for s in sent}
    found = [row for row in log_rows(lake.log(topic)) if row["offset"] is not None]
    commits = {(row["partition"], row["offset"]): row["ingested_at"] for row in found}
    refused = _refused(topic, sent, {place for place, (kind, *_) in rows.items() if kind == DEAD}, commits)
    rows |= dict.fromkeys(refused.ambiguous, (DEAD, None, None))
    verdict.compare(
        f"log of {topic}",
        Counter(repr((*place, *row, place in refused.replays)) for place, row in rows.items()),
        Counter(
            repr(
                (row["partition"], row["offset"], row["kind"])
                + ((None, None) if row["kind"] == DEAD else (exactly(row["key"]), exactly(row["value"])))
                + (row["replay"],)
            )
            for row in found
        ),
    )


def _refused(
    topic: str, sent: Iterable[Delivered], dead: set[Place], commits: Mapping[Place, Any]
) -> guard_oracle.Refused:
    """The records that the guard does not take, in the commits that the log made of them."""
    arrivals: dict[Any, list[guard_oracle.Delivery]] = {}
    for s in sent:
        place = s.partition, s.offset
        chain = None if s.chain is None or place in dead else [tuple(each) for each in json.loads(s.chain)]
        arrival = guard_oracle.Delivery(*place, chain, place in dead, (s.key, s.value))
        arrivals.setdefault(commits.get(place), []).append(arrival)
    oracle, refused = guard_oracle.ExactOracle(topic, MAX_GAPS), guard_oracle.Refused(set(), set())
    for _, commit in sorted((at, commit) for at, commit in arrivals.items() if at is not None):
        of = oracle.take(commit)
        refused.replays.update(of.replays)
        refused.ambiguous.update(of.ambiguous)
    return refused


def main() -> None:
    """Fuzz one topic."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "lake", "topic"):
        parser.add_argument(name)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    given = parser.parse_args()
    topics = {format_of(given.seed): given.topic}
    spark = build_session(spark_conf(spark_jars(), lake=given.lake) | CONF, "fuzz")
    found = fuzzed(spark, Lake(given.lake), given.bootstrap, topics, given.seed, given.records)
    print("judged " + json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
