"""JSON is read as RFC 8259 and the declared types have it, whichever way it is read, and whatever stands beside it."""

from __future__ import annotations

import datetime as dt
import json
import os
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.description.arrow_types import arrow_type
from headrace.sequence.parse import json_columns
from headrace.sequence.parse.json_columns import ObjectReader
from headrace.sequence.parse.strict_json import DOES_NOT_FIT, MORE_THAN_ONE, Malformed, StrictReader
from tests.laws.kernel.json_texts import COLUMNS, MAPS, an_object
from tests.oracle import json_oracle

pytestmark = pytest.mark.fast

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "8"))
# A text is made of many small decisions, which Hypothesis would make alike.
RANDOMS = st.integers(0, 2**32).map(Random)
WHY = {json_oracle.FITS_NOT: DOES_NOT_FIT, json_oracle.MORE: MORE_THAN_ONE}


def ddl(of: Any) -> str:
    match of:
        case str():
            return of
        case ("DECIMAL", precision, scale):
            return f"DECIMAL({precision},{scale})"
        case ("ARRAY", inner):
            return f"ARRAY<{ddl(inner)}>"
        case ("MAP", inner):
            return f"MAP<STRING, {ddl(inner)}>"
    return "STRUCT<" + ", ".join(f"`{name}`: {ddl(its)}" for name, its in of[1].items()) + ">"


def fields_of(columns: dict[str, Any]) -> list[pa.Field]:
    return [pa.field(name, arrow_type(ddl(of))) for name, of in columns.items()]


READERS = {name: ObjectReader(fields_of(columns)) for name, columns in (("columns", COLUMNS), ("maps", MAPS))}


def exactly(value: Any) -> Any:
    """The value so that equal means the same to the bit; times by their number."""
    match value:
        case float():
            return repr(value)
        case dict():
            return {name: exactly(item) for name, item in value.items()}
        case list():
            return [exactly(item) for item in value]
        case tuple():
            return tuple(exactly(item) for item in value)
        case dt.datetime():
            return value.replace(tzinfo=None)
    return value


def wanted(text: str, columns: dict[str, Any]) -> Any:
    found = json_oracle.read(text, columns)
    return WHY[found] if isinstance(found, str) else exactly(found)


def strictly(reader: StrictReader, text: str, of: pa.DataType) -> Any:
    try:
        return exactly(pa.array([reader.read(text)], of).to_pylist()[0])
    except Malformed as malformed:
        return malformed.why


def outcomes(reader: ObjectReader, texts: list[str]) -> list[Any]:
    read = reader.read(pa.array(texts, pa.string()))
    values = read.structs.to_pylist()
    assert [value is None for value in values] == [row in read.malformed for row in range(len(texts))]
    return [
        read.malformed[row].why if row in read.malformed else exactly(values[row])
        for row in range(len(texts))
    ]


@pytest.mark.parametrize(("name", "columns"), [("columns", COLUMNS), ("maps", MAPS)])
@given(random=RANDOMS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_text_alone_is_what_the_oracle_says(name: str, columns: dict[str, Any], random: Random) -> None:
    reader, strict = READERS[name], StrictReader(fields_of(columns))
    for _ in range(20):
        text = an_object(random, columns)
        says = wanted(text, columns)
        assert outcomes(reader, [text]) == [says], text
        assert strictly(strict, text, pa.struct(fields_of(columns))) == says, text


@pytest.mark.parametrize(("name", "columns"), [("columns", COLUMNS), ("maps", MAPS)])
@given(random=RANDOMS, few=st.sampled_from([1, 2, 5, 48]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_texts_together_are_what_each_is_alone(
    name: str, columns: dict[str, Any], random: Random, few: int
) -> None:
    texts = [an_object(random, columns) for _ in range(random.randrange(60))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_columns, "FEW", few)
        assert outcomes(READERS[name], texts) == [wanted(text, columns) for text in texts]


@given(random=RANDOMS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_two_texts_never_make_up_for_one_another(random: Random) -> None:
    good = '{"s": "a"}'
    parts = [
        "{}",
        "{}{}",
        "{}\n{}",
        "{}\x00}",
        '{"s":',
        '{"s": "}',
        '{"s": "a"}}',
        "{}]}",
        "{,}",
        "{{}",
        "{}//}",
        '{"t":{}',
        "{}\ufeff}",
    ]
    texts = [random.choice([good] * len(parts) + parts) for _ in range(random.randrange(2, 10))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_columns, "FEW", 1)
        texts = [text if text.endswith("}") else text + "}" for text in texts]
        assert outcomes(READERS["columns"], texts) == [wanted(text, COLUMNS) for text in texts]


def test_what_machines_write_is_read_in_columns() -> None:
    ordinary = {
        "s": '"é"', "b": "true", "y": "-1", "h": "5", "i": "5", "l": "5", "f": "1.5", "d": "-1e3", "q": "1.255", "w": '"1.5"',
        "x": '"YWI="', "day": '"2024-05-01"', "ts": '"2024-05-01T12:30:15.123+02:00"', "ntz": '"2024-05-01 12:30:15"',
        "a": "[1, null]", "deep": '[{"at": "2024-05-01T12:30:15Z", "q": 1, "of": ["a"]}, null]',
        "t": '{"u": 1, "v w": {"x": "", "day": null}}', "a b.c": '"\\ud83d\\ude00"', "other": "[{}]",
    }  # fmt: skip
    mapped = {"m": '{"a": 1.5, "b": null}', "n": '{"a": [{"at": "2024-05-01T12:30:15Z"}], "b": []}', "l": "1"}
    mapped["t"] = '{"m": {"a": {}, "b": {"c": "d"}, "e": null}}'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StrictReader, "read", None)
        for name, columns, values in (("columns", COLUMNS, ordinary), ("maps", MAPS, mapped)):
            texts = [
                "{"
                + ",".join(f"{blank}{json.dumps(field)}{blank}:{value}" for field, value in values.items())
                + "}"
                for blank in ("", " ", "\n\t") * 30
            ]
            assert outcomes(READERS[name], texts) == [wanted(text, columns) for text in texts]


@pytest.mark.parametrize("copies", [1, 60])
def test_nesting_has_one_bound_whichever_way_a_text_is_read(copies: int) -> None:
    texts = ['{"o":' + "[" * depth + "]" * depth + "}" for depth in (1, 499, 500, 3000)]
    texts += ['{"o":"' + "[" * 600 + '"}', '{"a":[' + ",".join("1" * 600) + '],"o":[' + "[]," * 600 + "[]]}"]
    fits = [True, True, False, False, True, True]
    found = outcomes(READERS["columns"], texts * copies)
    assert [outcome != DOES_NOT_FIT for outcome in found] == fits * copies
    assert [outcomes(READERS["columns"], [text])[0] != DOES_NOT_FIT for text in texts] == fits


def test_decimals_do_not_overflow_in_silence() -> None:
    """Of digits before and behind the point there may be as many as a type has, or more: at once for all of a chunk."""
    numbers = [
        f"{sign}{d * before}.{d * behind}"
        for sign in ("", "-")
        for d in "19"
        for before in range(1, 60, 3)
        for behind in (1, 9, 10, 11, 20, 21)
    ]
    texts = {number: f'{{"w": {number}, "q": {number[-4:].lstrip(".0") or 0}}}' for number in numbers}
    # Arrow reads these all at once: they have no more digits than it is told.
    at_once = [
        texts[number] for number in numbers if len(number) <= 50 and len(number.partition(".")[2]) <= 20
    ]
    for some in ([*texts.values()] * 2, at_once * 2):
        assert outcomes(READERS["columns"], some) == [wanted(text, COLUMNS) for text in some]
    whole = [f'{{"w": {d * digits}}}' for d in "19" for digits in range(20, 45)] + [
        '{"w": 1e27}',
        '{"w": 1e28}',
        '{"w": 1e37}',
    ]
    assert [outcomes(READERS["columns"], [text])[0] for text in whole] == [
        wanted(text, COLUMNS) for text in whole
    ]
    assert outcomes(READERS["columns"], whole * 3) == [wanted(text, COLUMNS) for text in whole * 3]
