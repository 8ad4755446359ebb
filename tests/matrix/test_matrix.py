"""Operations × kinds of nodes × sinks: each cell is lived through, or a sentence says why it cannot occur.

One life holds a node of each kind, and one operation meets all of them. Where the operation may change no row, the tables are
those of a life without it, which the oracle confirms; else they are those of a new lake with the same logs. The ledger knows
each record once, and each sink holds the rows, none of which was given twice.
The sinks go round with the operations, so each pair of an operation and a kind, of a kind and a sink, and of an operation and
a sink occurs. HEADRACE_MATRIX=all lives through the whole product.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from headrace import sinks
from headrace.cli import GROUPS
from headrace.operators.registry import KINDS
from headrace.sinks import CorrectableSink, ReadableSink, Sink
from headrace.sinks.each import EachSink
from headrace.spark.on_demand import is_started
from tests.matrix.cells import SORTS, impossible
from tests.matrix.kinds import kind_of, nodes
from tests.matrix.life import STORES, Life, Tables
from tests.matrix.operations import OPERATIONS, OTHER_COMMANDS

ROTATIONS = range(len(STORES))
WHOLE = os.environ.get("HEADRACE_MATRIX") == "all"
BY_SPARK, HERE = (pytest.mark.spark, pytest.mark.slow), (pytest.mark.fast, pytest.mark.slow)
# Whole lives (`tests/lives`) erase keys, repair logs, change descriptions and go back; `test_planned_rows.py` plans a change of each
# kind, and `tests/sinks/test_every_kind.py` erases a key from each kind.
LONG = ("erase", "apply", "rollback", "repair")


def marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of an operation's cells."""
    own = BY_SPARK if OPERATIONS[name].spark else HERE
    return (*own, pytest.mark.long) if name in LONG else own


CELLS = [
    pytest.param(name, rotation, id=f"{name}-{rotation}", marks=marks(name))
    for place, name in enumerate(OPERATIONS)
    for rotation in (ROTATIONS if WHOLE else [place % len(STORES)])
]


@pytest.fixture(scope="module")
def undisturbed() -> Tables:
    """The tables of a life without any operation, which the oracle confirms."""
    life = Life(None, nodes())
    life.steps(1, 2, 3, 4)
    tables = life.tables()
    assert [kind for kind, rows in tables.items() if len(rows) < 2] == []
    assert life.refuted() | life.unaccounted() | life.wrong_stores(tables) == {}
    life.close()
    return tables


@pytest.mark.parametrize(("name", "rotation"), CELLS)
def test_an_operation_meets_each_kind_of_node_and_each_sink(
    request: pytest.FixtureRequest, undisturbed: Tables, name: str, rotation: int
) -> None:
    operation = OPERATIONS[name]
    spark = request.getfixturevalue("spark") if operation.spark else None
    made = {kind: node for kind, node in nodes().items() if not impossible(name, kind)}
    life = Life(spark, made, rotation, operation.first)
    try:
        operation.begins(life)
        life.steps(1, 2)
        operation.does(life)
        life.steps(*operation.left)
        tables = life.tables()
        wanted = (
            life.tables_of_a_new_lake() if operation.changes else {kind: undisturbed[kind] for kind in made}
        )
        wrong: dict[str, Any] = other_rows(tables, wanted) | life.unaccounted()
        wrong |= life.refuted() if operation.oracle else {}
        wrong |= life.wrong_stores(tables, corrected=not operation.sinks)
    finally:
        started = is_started(life._session)
        life.close()
    assert operation.spark or not started
    assert not wrong, "\n".join(f"{name} × {cell}: {fault}" for cell, fault in wrong.items())


def other_rows(tables: Tables, wanted: Tables) -> dict[str, str]:
    """The kinds with other rows than wanted: the first that should not be there, and that are missing."""
    assert tables.keys() == wanted.keys()
    return {
        kind: f"{len(rows)} rows, not {len(wanted[kind])}; {_less(rows, wanted[kind])} for {_less(wanted[kind], rows)}"
        for kind, rows in tables.items()
        if rows != wanted[kind]
    }


def _less(rows: list[str], others: list[str]) -> list[str]:
    return [*(Counter(rows) - Counter(others))][:2]


@pytest.mark.fast
def test_each_kind_of_node_is_in_the_matrix() -> None:
    assert nodes().keys() == KINDS.keys()
    assert {kind: kind_of(node) for kind, node in nodes().items() if kind_of(node) != kind} == {}


@pytest.mark.fast
def test_each_sink_is_in_the_matrix() -> None:
    """A store stands for each sink, with the same protocols. Their real stores: `tests/sinks/test_every_kind.py`."""
    protocols = {"Sink", "ReadableSink", "CorrectableSink", "Delivery", "DeliveredRow"}
    made = {"each": EachSink}  # by a function
    assert set(sinks.__all__) - protocols == SORTS.keys()
    for name, store in SORTS.items():
        assert store in STORES
        for protocol in (Sink, ReadableSink, CorrectableSink):
            real, ours = (
                {*dir(cls)} >= _members(protocol) for cls in (made.get(name) or getattr(sinks, name), store)
            )
            assert real == ours, f"{name} and {store.__name__}: {protocol.__name__}"


def _members(protocol: type) -> set[str]:
    return {name for each in protocol.__mro__ for name in vars(each) if not name.startswith("_")} - {"name"}


@pytest.mark.fast
def test_each_command_that_changes_or_repairs_is_an_operation_or_has_a_sentence() -> None:
    commands = {*GROUPS["Change"], *GROUPS["Repair"]}
    listed = {command for operation in OPERATIONS.values() for command in operation.commands}
    assert listed | OTHER_COMMANDS.keys() == commands
    assert not listed & OTHER_COMMANDS.keys()


@pytest.mark.fast
def test_each_cell_that_is_not_lived_through_has_a_sentence_and_each_pair_occurs() -> None:
    kinds, lived = sorted(KINDS), set[tuple[str, str, int]]()
    for cell in CELLS:
        name, rotation = str(cell.values[0]), int(str(cell.values[1]))
        there = [kind for kind in kinds if not impossible(name, kind)]
        assert there, f"{name} meets no kind of node"
        lived |= {(name, kind, (place + rotation) % len(STORES)) for place, kind in enumerate(there)}
    for name in OPERATIONS:
        for kind in kinds:
            sentence = impossible(name, kind)
            occurs = any((name, kind) == cell[:2] for cell in lived)
            assert occurs != bool(sentence), f"{name} × {kind}"
            assert not sentence or sentence.endswith("."), sentence
    assert {(kind, sink) for _, kind, sink in lived} == {(k, s) for k in kinds for s in ROTATIONS}
    several = [
        name for name in OPERATIONS if len([k for k in kinds if not impossible(name, k)]) >= len(STORES)
    ]
    assert {(name, sink) for name, _, sink in lived} >= {(n, s) for n in several for s in ROTATIONS}
