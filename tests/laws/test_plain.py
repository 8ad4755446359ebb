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
from headrace.log.plain.decode import TYPES, OddError, parse_objects
from headrace.log.sequencer import Sequencer
from headrace.spark.frames import local_frame
from headrace.spark.session import pipeline_session
from headrace.testing.piped import PipedTopic

if TYPE_CHECKING:
    from collections.abc import Sequence
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
TEXTS_AT_ONCE = 300

# A text is made of many small decisions, which Hypothesis would make alike.
RANDOMS = st.integers(0, 2**32).map(Random)
LETTERS = ["", "a", "é", "漢", "😀", "{", "}", '"', "\\", "/", ",", "\n", "\x00", "\x7f", "null", "1", " "]
INTEGERS = ["0", "1", "-3", "32767", "-32768", "32768", "2147483647", "2147483648", "9223372036854775807"]
INTEGERS += ["-9223372036854775808", "9223372036854775808", "1" * 30]
NUMBERS = [
    "-0",
    "0.0",
    "-0.0",
    "1e5",
    "1E-400",
    "1e400",
    "0.1",
    "1.",
    ".5",
    "01",
    "+1",
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
]
NUMBERS += [
    "9007199254740993",
    "0." + "3" * 40,
    "1" * 999,
    "1" * 1001,
    "5e-324",
    "2.2250738585072011e-308",
    "1.5",
    "-2e3",
]
ODD = [
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\u0000"',
    "'single'",
    '"NaN"',
    '"1"',
    "True",
    "[]",
    "{}",
    '[1, {"s": 2}]',
    "[1,]",
]
ODD += ['{"d": 1, "d": 2}', "[" * 1001 + "]" * 1001, "[" * 400 + "]" * 400, "/* */ 1"]
NAMES = ["s", "b", "h", "i", "l", "d", "a b.c", "other", "S"]
BLANKS = ["", "", "", " ", "\n", "\t", "\r\n"]


def a_text(random: Random) -> str:
    text = "".join(random.choices(LETTERS, k=random.randrange(4)))
    return json.dumps(text, ensure_ascii=random.random() < 0.5)


def a_number(random: Random) -> str:
    return random.choice(
        [random.choice(NUMBERS), repr(random.uniform(-1e6, 1e6)), f"{random.gauss(0, 1e-300)!r}"]
    )


def anything(random: Random) -> str:
    makers = (a_text, a_number, lambda r: r.choice(ODD), lambda r: r.choice(INTEGERS), lambda r: "null")
    return random.choice(makers)(random)


def fitting(name: str, random: Random) -> str:
    if random.random() < 0.1:
        return "null"
    match name:
        case "s" | "a b.c":
            return a_text(random)
        case "b":
            return random.choice(["true", "false"])
        case "h" | "i" | "l":
            return random.choice(INTEGERS[: {"h": 5, "i": 7, "l": 10}[name]])
        case "d":
            return a_number(random)
    return anything(random)


def an_object(random: Random) -> bytes:
    """A text that is a JSON object, or nearly."""
    names = random.choices(NAMES, k=random.randrange(6))
    names = names if random.random() < 0.1 else list(dict.fromkeys(names))
    blank = random.choice(BLANKS)
    fields = [
        f"{blank}{json.dumps(name)}{blank}:{blank}{fitting(name, random) if random.random() < 0.9 else anything(random)}"
        for name in names
    ]
    text = "{" + f"{blank},".join(fields) + blank + "}"
    match random.randrange(12):
        case 0:
            text += random.choice(["{}", " ", "}", ",{}", "\n{}", "x}"])
        case 1:
            text = text.replace("}", ",}", 1)
        case 2:
            at = random.randint(0, len(text))
            text = (
                text[:at]
                + random.choice(["{", "}", '"', "\\", ",", "\x01", "\ufeff", "é", "/**/"])
                + text[at:]
            )
    return text.encode("utf-8", "replace")


@given(random=RANDOMS)
def test_what_arrow_takes_spark_types_alike(spark: SparkSession, random: Random) -> None:
    values = [an_object(random) for _ in range(TEXTS_AT_ONCE)]
    fields = [pa.field(column.name, TYPES[column.type]) for column in TYPED.value_columns]
    taken = {number: row for number, value in enumerate(values) if (row := parsed(value, fields)) is not None}
    rows = [(None, value, "typed", 0, number, EPOCH, None) for number, value in enumerate(values)]
    decoded = (
        Decoder(TYPED)
        .decode(local_frame(spark, rows, KAFKA), NOW_MS)
        .select("offset", "kind", "reason", "value")
    )
    spark_says = {row["offset"]: row for row in decoded.collect()}
    assert len(taken) > TEXTS_AT_ONCE // 10
    for number, row in taken.items():
        assert spark_says[number]["kind"] == "record", (values[number], spark_says[number]["reason"])
        assert exactly(row) == exactly(spark_says[number]["value"].asDict()), values[number]


@given(random=RANDOMS)
def test_objects_parsed_together_are_what_each_is_by_itself(random: Random) -> None:
    values = [an_object(random) for _ in range(20)]
    fields = [pa.field(column.name, TYPES[column.type]) for column in TYPED.value_columns]
    alone = [(value, row) for value in values if (row := parsed(value, fields)) is not None]
    if alone:
        raw = pa.array([None, *(value for value, _ in alone)], pa.binary())
        assert exactly(parse_objects(raw, fields).to_pylist()) == exactly([None, *(row for _, row in alone)])
    odd = next((value for value in values if parsed(value, fields) is None), None)
    if odd is not None:
        with pytest.raises(OddError):
            parse_objects(pa.array([*(value for value, _ in alone), odd], pa.binary()), fields)


def a_chain(random: Random) -> bytes | None:
    """A text that is a chain, or nearly; None: no header."""
    if random.random() < 0.1:
        return None
    entries = [
        [
            random.choice(["a", "b-1", "c._"]),
            random.randrange(3),
            random.choice([0, 7, 12, 10**17]),
            random.randrange(2),
        ]
        for _ in range(random.randrange(5))
    ]
    ordinals = random.random() < 0.2
    separators = (",", ":") if random.random() < 0.8 else (", ", ": ")
    text = json.dumps(
        [entry[: 4 if ordinals and random.random() < 0.5 else 3] for entry in entries], separators=separators
    )
    if random.random() < 0.2:
        at = random.randint(0, len(text))
        text = (
            text[:at]
            + random.choice(["]", "[", '"', "0", " ", ",", "é", "-"])
            + text[at + random.randrange(2) :]
        )
    return text.encode()


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
    assert len(taken) > TEXTS_AT_ONCE // 10
    for number, (route, offset) in taken.items():
        row = spark_says[number]
        root = route[0] if route else ("guarded", 1)
        assert row["kind"] == "record", texts[number]
        assert (row["root_topic"], row["root_partition"]) == root
        assert row["root_offset"] == (offset if route else number)
        assert row["ordinals"] == [-1] * len(route)
        assert row["path"] == ARROW.join(f"{name}/{at}" for name, at in (*route, ("guarded", 1)))


@given(data=st.data())
def test_a_log_of_plain_records_has_the_rows_that_spark_would_write(
    spark: SparkSession, tmp_path: Path, data: st.DataObject
) -> None:
    session, clock, folder = (
        pipeline_session(spark, interpreted=True),
        ManualClock(NOW_MS),
        tmp_path / str(next(NUMBER)),
    )
    piped = PipedTopic(GUARDED, {})
    plain = Sequencer(session, GUARDED, f"file:{folder}/plain", clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequencer_module, "is_plain", lambda *_: False)
        spark_alone = Sequencer(session, GUARDED, f"file:{folder}/spark", clock)
    for _ in range(3):
        for _ in range(data.draw(st.integers(1, 30))):
            record = data.draw(plain_records)
            piped.add(*record)
        raw = piped.take(session)
        assert raw is not None
        written = plain._plain
        assert written is not None
        assert plain.append(raw) == spark_alone.append(raw)
        assert written._odd == 0
        clock.set(clock.now_ms() + 1_000)
        assert plain.state == spark_alone.state
        assert plain._guard == spark_alone._guard
    tables = [session.read.format("delta").load(f"file:{folder}/{name}") for name in ("plain", "spark")]
    found, wanted = (
        sorted(exactly([row.asDict(recursive=True) for row in table.collect()]), key=str) for table in tables
    )
    assert found == wanted
    assert tables[0].schema == tables[1].schema
    reopened = Sequencer(session, GUARDED, f"file:{folder}/plain", clock)
    assert (reopened.state, reopened._guard) == (plain.state, plain._guard)


plain_records = st.tuples(
    st.sampled_from(["k", "é", ""]),
    st.one_of(
        st.none(),
        st.builds(lambda n, x: {"n": n, "x": x}, st.integers(0, 50), st.one_of(st.none(), st.integers(1, 9))),
    ),
    st.integers(0, 50),
    st.integers(0, 2),
    st.one_of(
        st.just({}),
        st.just({"trace": b"\x00"}),
        st.lists(
            st.tuples(st.sampled_from(["root", "other"]), st.integers(0, 1), st.integers(0, 12)).map(list),
            min_size=1,
            max_size=3,
        ).map(lambda chain: {"a": "b", "source-chain": json.dumps(chain, separators=(",", ":"))}),
    ),
)


def parsed(value: bytes, fields: Sequence[pa.Field]) -> dict[str, Any] | None:
    """The object; None: it is odd."""
    try:
        (row,) = parse_objects(pa.array([value], pa.binary()), fields).to_pylist()
    except OddError:
        return None
    return row  # type: ignore[no-any-return]


def chain_of(headers: Sequence[tuple[str, bytes]] | None) -> tuple[tuple[tuple[str, int], ...], int] | None:
    given = None if headers is None else [{"key": name, "value": value} for name, value in headers]
    column = pa.array([given], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    try:
        found = read_chains(column, "source-chain")
    except OddError:
        return None
    return found.routes[found.route[0]], int(found.offsets[0])


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
