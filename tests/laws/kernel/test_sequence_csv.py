"""Lines of CSV: what Python's own writer writes is read, whatever the chunk; any other bytes are a dead letter."""

from __future__ import annotations

import csv
import gzip
import io
import os
import tracemalloc
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.sequence.decode import Decoder
from headrace.sequence.formats import RecordFormat

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
TEXTS = ("a", "é漢", 'say "x"', "a,b", "\\", "\t", "{}", " ", "\x01", "two\nlines", "-1", "null")
VALUE = "s STRING, n INT, d DOUBLE, b BOOLEAN, c DECIMAL(9,2), day DATE"


def found(topic: hr.Topic, *values: bytes | None) -> list[Any]:
    """The value of each record, or its reason."""
    raw, keys = pa.array(values, pa.binary()), pa.nulls(len(values), pa.binary())
    times = pa.array([1_000] * len(values), pa.int64())
    read = Decoder(RecordFormat.of(topic)).decode(keys, raw, times, 2_000)
    reasons = read.reasons.as_column().to_pylist()
    return [
        v if reason is None else reason for v, reason in zip(read.values.to_pylist(), reasons, strict=True)
    ]


@given(st.integers(0, 2**32).map(Random), st.sampled_from([",", ";", "\t", "|"]))
@settings(max_examples=30 * EXAMPLES, deadline=None)
@pytest.mark.slow
def test_what_is_written_is_read(random: Random, separator: str) -> None:
    topic = hr.Topic(
        "t", value="s STRING, n INT, t STRING, d DOUBLE, b BOOLEAN", format=hr.Csv(separator=separator)
    )
    rows = [
        (random.choice(TEXTS), random.randrange(-99, 99), random.choice(TEXTS), random.choice([0.5, -1e300]), random.choice(["true", "false"]))
        for _ in range(random.randrange(1, 9))
    ]  # fmt: skip
    values = []
    for row in rows:
        out = io.StringIO()
        quoting: Any = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
        csv.writer(
            out, delimiter=separator, quoting=quoting, lineterminator=random.choice(["\n", "\r\n"])
        ).writerow(row)
        values.append(out.getvalue().encode())
    # A quoted "true" is a text; all else is as it was written.
    for row, value, read in zip(rows, values, found(topic, *values), strict=True):
        if isinstance(read, str):
            assert b'"true"' in value or b'"false"' in value
            assert "b is not BOOLEAN" in read
        else:
            assert read == {"s": row[0], "n": row[1], "t": row[2], "d": row[3], "b": row[4] == "true"}
        assert found(topic, value) == [read]


LINES: dict[str, tuple[bytes, Any]] = {
    "all types": (b"a,1,0.5,true,1.005,2024-05-01", ("a", 1, 0.5, True, "1.01", "2024-05-01")),
    "empty fields are null": (b",,,,,", (None, None, None, None, None, None)),
    "a quoted empty text is one": (b'"",1,1,true,1,2024-05-01', ("", 1, 1.0, True, "1.00", "2024-05-01")),
    "what JSON calls not a number": (b"a,1,NaN,true,1,2024-05-01", "NaN"),
    "too few fields": (b"a,1", "it has 2 fields, and there are 6 columns"),
    "too many fields, quoted": (b'"a",1,1,true,1,2024-05-01,', "it has 7 fields, and there are 6 columns"),
    "a number that is none": (b"a,x,1,true,1,2024-05-01", "n is not INT"),
    "a number with a leading zero": (b"a,01,1,true,1,2024-05-01", "n is not INT"),
    "a truth of another kind": (b"a,1,1,TRUE,1,2024-05-01", "b is not BOOLEAN"),
    "a day that is none": (b"a,1,1,true,1,2024-13-01", "day is not DATE"),
    "two lines": (b"a,1,1,true,1,2024-05-01\nb,1,1,true,1,2024-05-01", "more than one line"),
    "a quote within a field": (b'a"b,1,1,true,1,2024-05-01', "a quote is out of place in field 1"),
    "a quote that does not end": (b'"a,1,1,true,1,2024-05-01', "a quote is out of place in field 1"),
    "no UTF-8": (b"\xff,1,1,true,1,2024-05-01", "not UTF-8"),
    "gzip that nobody expects": (gzip.compress(b"a,1,1,true,1,2024-05-01"), "not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_each_line_has_its_outcome(name: str) -> None:
    line, wanted = LINES[name]
    read, none = found(hr.Topic("t", value=VALUE, format=hr.Csv()), line, None)
    assert none is None
    if isinstance(wanted, tuple):
        assert (
            tuple(
                each if each is None or isinstance(each, float | bool | int) else str(each)
                for each in read.values()
            )
            == wanted
        )
    elif wanted == "NaN":
        assert read["d"] != read["d"]
    else:
        assert read.startswith("malformed value: ")
        assert wanted in read


def test_lines_may_be_compressed() -> None:
    topic = hr.Topic("t", value="s STRING, n INT", format=hr.Csv(gzip=True))
    assert found(topic, gzip.compress(b'"a,b",2\n'), b"c,3") == [{"s": "a,b", "n": 2}, {"s": "c", "n": 3}]


@pytest.mark.parametrize(
    ("of", "value", "says"),
    [
        ({"separator": ""}, "a INT", "not one character"),
        ({"separator": '"'}, "a INT", "not one character"),
        ({}, "a ARRAY<INT>", "a field of CSV is one value"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_so_is_refused(of: dict[str, Any], value: str, says: str) -> None:
    with pytest.raises(hr.DescriptionError, match=says):
        _ = hr.Topic("t", value=value, format=hr.Csv(**of)).columns


def test_a_long_text_in_quotes_takes_little_memory() -> None:
    topic = hr.Topic("t", value="id STRING, n INT", format=hr.Csv())
    text = "x," * 100_000 + '"' * 100_000
    line = '"' + text.replace('"', '""') + '",7'
    tracemalloc.start()
    (value,) = found(topic, line.encode())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value == {"id": text, "n": 7}
    assert peak < 20 * len(line)
    assert (
        found(topic, b'"a""b,7', b'"a""b"c,7') == ["malformed value: a quote is out of place in field 1"] * 2
    )
