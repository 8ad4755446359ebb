"""Plain records: what Arrow takes, Spark's expressions type alike; and a log of them has the same rows, whoever wrote it.

Two implementations, the same random input, most of it nearly plain. What Arrow calls odd is left to Spark and proves nothing;
each test counts what was taken.
"""

from __future__ import annotations

import datetime as dt
import json
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.log import sequencer as sequencer_module
from headrace.log.chain import ARROW, CHAIN
from headrace.log.clock import ManualClock
from headrace.log.columns import KAFKA
from headrace.log.decode import Decoder
from headrace.log.plain.chain import read_chains
from headrace.log.plain.decode import TYPES, OddError, read_objects
from headrace.log.sequencer import Sequencer
from headrace.spark.frames import local_frame
from headrace.spark.session import pipeline_session
from headrace.testing.piped import PipedTopic
from tests.laws.texts import a_chain, an_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOW_MS = 1_800_000_000_000
NUMBER = count()
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TYPED = hr.Topic("typed", value="s STRING, b BOOLEAN, h SMALLINT, i INT, l BIGINT, d DOUBLE, `a b.c` STRING")
GUARDED = hr.Topic(
    "guarded",
    key="id STRING",
    value="id STRING, n BIGINT, x DOUBLE",
    replay_guard=hr.ReplayGuard(),
    timestamp="n",
)
DIRTY = hr.Topic(
    "dirty",
    key="id STRING NOT NULL",
    value="id STRING, n BIGINT NOT NULL, x DOUBLE",
    replay_guard=hr.ReplayGuard(),
)
KEYED = hr.Topic("keyed", key="k INT, x DOUBLE", value="x DOUBLE, b BOOLEAN NOT NULL")
TEXTS_AT_ONCE = 300

# A text is made of many small decisions, which Hypothesis would make alike.
RANDOMS = st.integers(0, 2**32).map(Random)

FIELDS = [pa.field(column.name, TYPES[column.type]) for column in TYPED.value_columns]


@given(random=RANDOMS)
def test_what_arrow_takes_spark_types_alike_and_what_it_refuses_spark_refuses_for_that_reason(
    spark: SparkSession, random: Random
) -> None:
    values = [an_object(random) for _ in range(TEXTS_AT_ONCE)]
    rows = [(None, value, "typed", 0, number, EPOCH, None) for number, value in enumerate(values)]
    decoded = Decoder(TYPED).decode(local_frame(spark, rows, KAFKA), NOW_MS)
    spark_says = {row["offset"]: row for row in decoded.select("offset", "kind", "reason", "value").collect()}
    taken = {number: found for number, value in enumerate(values) if (found := alone(value)) is not None}
    assert len(taken) > TEXTS_AT_ONCE // 3
    for number, (value, why) in taken.items():
        wanted = spark_says[number]
        if why is None:
            assert wanted["kind"] == "record", (values[number], wanted["reason"])
            assert exactly(value) == exactly(wanted["value"].asDict()), values[number]
        else:
            assert (wanted["reason"] or "").startswith(f"malformed value: {why}"), values[number]


@given(random=RANDOMS)
def test_objects_read_together_are_what_each_is_by_itself(random: Random) -> None:
    values = [an_object(random) for _ in range(60)]
    each = [(value, found) for value in values if (found := alone(value)) is not None]
    together = read_objects(pa.array([None, *(value for value, _ in each)], pa.binary()), FIELDS)
    assert exactly(together.structs.to_pylist()) == exactly([None, *(value for _, (value, _) in each)])
    assert together.malformed == {row: why for row, (_, (_, why)) in enumerate(each, 1) if why is not None}
    odd = next((value for value in values if alone(value) is None), None)
    if odd is not None:
        with pytest.raises(OddError):
            read_objects(pa.array([*(value for value, _ in each), odd], pa.binary()), FIELDS)


@given(random=RANDOMS)
def test_chains_that_arrow_reads_spark_reads_alike(spark: SparkSession, random: Random) -> None:
    texts = [a_chain(random) for _ in range(TEXTS_AT_ONCE)]
    headers = [
        None if text is None else [("x", b"y"), ("source-chain", b"[]"), ("source-chain", text)][number % 3 :]
        for number, text in enumerate(texts)
    ]
    value = b'{"id": "k", "n": 5}'
    rows = [(b"k", value, "guarded", 1, n, EPOCH, given) for n, given in enumerate(headers)]
    decoded = (
        Decoder(GUARDED).decode(local_frame(spark, rows, KAFKA), NOW_MS).select("kind", "offset", *CHAIN)
    )
    spark_says = {row["offset"]: row for row in decoded.collect()}
    taken = {number: chain for number, given in enumerate(headers) if (chain := chain_of(given)) is not None}
    assert len(taken) > TEXTS_AT_ONCE // 2
    for number, (route, offset, ordinals) in taken.items():
        row = spark_says[number]
        root = route[0] if route else ("guarded", 1)
        assert row["kind"] == "record", texts[number]
        assert (row["root_topic"], row["root_partition"]) == root
        assert row["root_offset"] == (offset if route else number)
        assert row["ordinals"] == ordinals[: len(route)]
        assert set(ordinals[len(route) :]) <= {-1}
        assert row["path"] == ARROW.join(f"{name}/{at}" for name, at in (*route, ("guarded", 1)))


def a_record(topic: hr.Topic, random: Random) -> tuple[Any, ...]:
    """What `PipedTopic.add` takes; of `GUARDED` all are records, of others a third are dead letters."""
    key: Any = "k"
    value: Any = None
    headers: Mapping[str, bytes | str] = {}
    timestamp_ms = random.randrange(50)
    if topic is KEYED:
        x = random.choice(["0.5", "NaN", "null", "-1e3"])
        key = random.choice(
            [f'{{"k": {random.randrange(3)}, "x": {x}}}', "{}", "null", "{", '{"k": "1"}']
        ).encode()
        value = random.choice([f'{{"x": {x}, "b": true}}', '{"x": 0.5, "b": false}', '{"b": null}']).encode()
        return key, value, timestamp_ms, random.randrange(3), headers
    value = random.choice([None, *[{"n": random.randrange(50), "x": random.choice([None, 0.5, 7])}] * 4])
    chain = [
        [random.choice(["root", "other"]), random.randrange(2), random.randrange(5), random.randrange(3)]
        for _ in range(random.randrange(1, 3))
    ]
    chain = [entry[: random.choice([3, 3, 4])] for entry in chain]
    header = json.dumps(chain, separators=(",", ":"))
    headers = random.choice([{}, {"trace": b"\x00"}, *[{"a": "b", "source-chain": header}] * 3])
    if topic is DIRTY:
        key = random.choice([*["k", "é", ""] * 9, b"\xff", None])
        trouble = [
            b"{",
            b"\xff{}",
            b"{nonsense}",
            b'{"n": 1}{}',
            b'{"n": "1"}',
            {"n": 1, "id": "k"},
            {"x": 1},
            b' {"n": 2} ',
        ]
        value = random.choice([*[value] * 16, *trouble])
        timestamp_ms = random.choice([*[timestamp_ms] * 9, -1, 4_070_908_800_000, 4_070_908_800_120])
    return key, value, timestamp_ms, random.randrange(3), headers


@pytest.mark.parametrize("topic", [GUARDED, DIRTY, KEYED], ids=lambda topic: topic.name)
@given(random=RANDOMS)
def test_a_log_of_plain_records_has_the_rows_that_spark_would_write(
    spark: SparkSession, tmp_path: Path, topic: hr.Topic, random: Random
) -> None:
    session, clock = pipeline_session(spark, interpreted=True), ManualClock(NOW_MS)
    folder = f"file:{tmp_path}/{next(NUMBER)}"
    piped = PipedTopic(topic, {})
    plain = Sequencer(session, topic, f"{folder}/plain", clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequencer_module, "is_plain", lambda *_: False)
        spark_alone = Sequencer(session, topic, f"{folder}/spark", clock)
    for _ in range(3):
        for _ in range(random.randrange(1, 40)):
            piped.add(*a_record(topic, random))
        raw = piped.take(session)
        assert raw is not None
        assert plain.append(raw) == spark_alone.append(raw)
        assert plain._plain is not None
        assert plain._plain.odd == 0
        assert (plain.state, plain._guard) == (spark_alone.state, spark_alone._guard)
        clock.set(clock.now_ms() + 1_000)
    tables = [session.read.format("delta").load(f"{folder}/{name}") for name in ("plain", "spark")]
    found, wanted = (
        sorted((exactly(row.asDict(recursive=True)) for row in table.collect()), key=str) for table in tables
    )
    assert found == wanted
    assert tables[0].schema == tables[1].schema
    reopened = Sequencer(session, topic, f"{folder}/plain", clock)
    assert (reopened.state, reopened._guard) == (plain.state, plain._guard)


def alone(value: bytes) -> tuple[dict[str, Any] | None, str | None] | None:
    """The object, or why it is malformed; None: it is odd."""
    try:
        found = read_objects(pa.array([value], pa.binary()), FIELDS)
    except OddError:
        return None
    return found.structs[0].as_py(), found.malformed.get(0)


def chain_of(
    headers: Sequence[tuple[str, bytes]] | None,
) -> tuple[tuple[tuple[str, int], ...], int, list[int]] | None:
    given = None if headers is None else [{"key": name, "value": value} for name, value in headers]
    column = pa.array([given], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    try:
        found = read_chains(column, "source-chain")
    except OddError:
        return None
    return found.routes[found.route[0]], int(found.offsets[0]), found.ordinals[0].tolist()


def exactly(content: Any) -> Any:
    """The content so that equal means the same to the bit: floats by their text, bytes as bytes."""
    match content:
        case float():
            return repr(content)
        case dict():
            return {name: exactly(value) for name, value in content.items()}
        case list():
            return [exactly(value) for value in content]
        case bytearray():
            return bytes(content)
        case _:
            return content
