"""Each expression of a description, with the columns that it stands over: evaluated by a term, and by Spark.

Law: the rows are of the columns' types. Some hold ordinary values and those that the expressions name; the others are at
the edges of types. So conditions hold and fail, and nothing depends on what a test happens to send.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.cloudpickle import register_pickle_by_value
from sqlglot import exp

from headrace.description import expression_types
from headrace.description.arrow_types import arrow_type
from headrace.description.expressions import parse_expression, syntax_tree
from headrace.description.record_metadata import runnable
from headrace.expressions import Rows, SparkNeededError
from tests.docs.documents import WITH_CODE, compiled, python_blocks
from tests.expressions import boundary_rows
from tests.expressions.compared import EQUAL, LEFT_TO_SPARK, TYPED, UNKNOWN, Difference, differing_row
from tests.expressions.spark_answers import answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Columns = tuple[tuple[str, str], ...]  # names in lower case, and types
Described = tuple[str, Columns]
DOCUMENTS = "documents"
ROWS = 40
NOT_ASKED = "headers, or refused by Spark"
EDGES: dict[pa.DataType, list[Any]] = {
    **dict(boundary_rows.COLUMNS.values()),
    pa.timestamp("us"): [at and at.replace(tzinfo=None) for at in boundary_rows.TIMES],
}


@contextmanager
def recorded() -> Iterator[set[Described]]:
    """The expressions that are typed meanwhile."""
    known, look_up = set[Described](), expression_types._known

    def noted(sql: str, columns: Columns) -> tuple[str | None, bool]:
        known.add((sql, columns))
        return look_up(sql, columns)

    expression_types._known = noted  # type: ignore[assignment]
    try:
        yield known
    finally:
        expression_types._known = look_up


def described_by(names: Sequence[str]) -> set[Described]:
    """The expressions of the descriptions that modules make, in a process that has not imported them.

    In: names  of modules; DOCUMENTS: the code of the documents
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "described")
        subprocess.run(
            [sys.executable, "-m", __name__, str(file), *names], check=True, stdout=subprocess.DEVNULL
        )
        known: set[Described] = pickle.loads(file.read_bytes())
        return known


def _write(file: str, *names: str) -> None:
    with recorded() as known:
        for name in names:
            if name == DOCUMENTS:
                _run_documents()
            else:
                import_module(name)
    Path(file).write_bytes(pickle.dumps(known))


def _run_documents() -> None:
    """Run the code of the documents up to its tests."""
    for path in WITH_CODE:
        module = ModuleType("example")
        sys.modules[module.__name__] = module
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        for block in python_blocks(path):
            if not block.notest:
                exec(compiled(block, path), vars(module))


@dataclass
class Outcomes:
    """How many expressions came out how, and what differs, in words."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def compare(spark: SparkSession, described: Iterable[Described], seed: int = 7) -> Outcomes:
    """Evaluate all expressions both ways, over ordinary rows and over edges.

    An expression counts as equal if it is so over ordinary rows: over edges only Spark may be proven.
    """
    made = Outcomes()
    for columns, texts in _frames(described):
        of_each: dict[str, list[str]] = {text: [] for text in texts}
        for edges in (False, True):
            rows = _rows(columns, texts, random.Random(seed), edges=edges)
            for text, theirs in answers(spark, rows, texts):
                try:
                    of_each[text].append(_outcome(text, rows, theirs))
                except Difference as difference:
                    made.differences.append(f"{text} over {columns}: {difference.words}")
                    of_each[text].append("different")
        for outcomes in of_each.values():
            made.counts[outcomes[0] if outcomes else NOT_ASKED] += 1
    return made


def _frames(described: Iterable[Described]) -> Iterator[tuple[dict[str, pa.DataType], list[str]]]:
    """Columns, and the expressions that read no others; expressions share columns where names and types agree."""
    frames: list[tuple[dict[str, pa.DataType], list[str]]] = []
    for sql, columns in sorted(described):
        known = dict(columns)
        read = {name.lower() for name in parse_expression(sql, "an expression").columns}
        own = {name: arrow_type(of) for name, of in known.items() if name in read}
        own |= expression_types._OF_RECORDS
        text = runnable(sql)
        if text.reads_headers:
            continue
        frame, texts = next(
            (each for each in frames if all(each[0].get(name, of) == of for name, of in own.items())),
            ({}, []),
        )
        if not texts:
            frames.append((frame, texts))
        frame.update(own)
        if text.sql not in texts:
            texts.append(text.sql)
    yield from frames


def _outcome(text: str, rows: pa.Table, theirs: pa.Array) -> str:
    term = expression_types.term_over(text, {each.name: each.type for each in rows.schema})
    if term is None:
        return UNKNOWN
    if term.evaluate is None:
        return TYPED
    try:
        ours = term.over(Rows.of(rows))
    except SparkNeededError:
        return LEFT_TO_SPARK
    if (words := differing_row(ours, theirs)) is not None:
        raise Difference(words)
    return EQUAL


def _rows(
    columns: dict[str, pa.DataType], texts: Sequence[str], rng: random.Random, *, edges: bool
) -> pa.Table:
    literals = _literals(texts)
    arrays = [
        pa.array([_value(of, rng, literals, edges=edges) for _ in range(ROWS)], of) for of in columns.values()
    ]
    return pa.Table.from_arrays(arrays, names=[*columns])


def _literals(texts: Sequence[str]) -> list[str]:
    """The values that expressions name."""
    named: dict[str, None] = {}
    for text in texts:
        for each in syntax_tree(text, "an expression").find_all(exp.Literal):
            named[str(each.this)] = None
    return [*named] or ["1"]


def _value(of: pa.DataType, rng: random.Random, literals: Sequence[str], *, edges: bool) -> Any:
    """A value of a type, or null. A STRUCT with a field that is never null is never null: Arrow's casts ask for that."""
    if rng.random() < 0.1 and not _is_complete(of):
        return None
    if pa.types.is_list(of):
        return [_value(of.value_type, rng, literals, edges=edges) for _ in range(rng.randrange(4))]
    if pa.types.is_struct(of):
        return {
            each.name: _value(each.type, rng, literals, edges=edges)
            if each.nullable
            else _plain(each.type, rng, literals)
            for each in of
        }
    if pa.types.is_map(of):
        keys = {
            rng.choice(literals) if pa.types.is_string(of.key_type) else _plain(of.key_type, rng, literals)
            for _ in range(3)
        }
        return [(key, _value(of.item_type, rng, literals, edges=edges)) for key in sorted(keys, key=str)]
    if edges and of in EDGES:
        return rng.choice(EDGES[of])
    return _plain(of, rng, literals)


def _is_complete(of: pa.DataType) -> bool:
    return pa.types.is_struct(of) and not all(each.nullable for each in of)


def _plain(of: pa.DataType, rng: random.Random, literals: Sequence[str]) -> Any:
    literal, number = rng.choice(literals), Decimal(rng.randrange(-20, 2_000))
    with suppress(ArithmeticError):
        number = Decimal(literal) if rng.random() < 0.5 and Decimal(literal).is_finite() else number
    if pa.types.is_boolean(of):
        return rng.random() < 0.5
    if pa.types.is_binary(of):
        return literal.encode()
    if pa.types.is_integer(of):
        edge = 1 << of.bit_width - 1
        return max(-edge, min(edge - 1, int(number) + rng.choice([-1, 0, 0, 1])))
    if pa.types.is_floating(of):
        return float(number) + rng.choice([-0.5, 0.0, 0.0, 0.25])
    if pa.types.is_decimal(of):
        whole = of.precision - of.scale
        scaled = number.scaleb(-1) % Decimal(10) ** whole if whole else Decimal(0)
        return round(scaled, of.scale)
    at = datetime(2026, 11, 28, 12, 30, 15, 250_000, UTC) + timedelta(
        seconds=float(rng.randrange(-(9**8), 9**8))
    )
    if pa.types.is_timestamp(of):
        return at if of.tz else at.replace(tzinfo=None)
    if pa.types.is_date(of):
        return date(at.year, at.month, at.day)
    text = rng.choice(
        [literal, literal.upper(), f"{literal} {number}", str(number), "a/b/c", "an ordinary text"]
    )
    return text.encode() if pa.types.is_binary(of) else text


if __name__ == "__main__":
    _write(*sys.argv[1:])
