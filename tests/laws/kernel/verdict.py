"""The law of every operator: what the kernel makes of a log, however it is cut, is what its oracle makes of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from headrace import oracle
from headrace.description import Node, Relation, WindowedAggregate
from headrace.engine.folding.operators import NodeOperator
from headrace.fold.fates import OPEN, USED
from headrace.fold.kernel import Kernel
from headrace.operators.contract import PLACE
from headrace.operators.registry import operator_for
from headrace.operators.tables.fold import Tables
from tests.laws.kernel.harness import Outcome, run
from tests.laws.kernel.logs import THE_END
from tests.laws.kernel.plans import Plan
from tests.laws.kernel.reading import Reading

Row = Mapping[str, Any]
Fates = Counter[tuple[str, int, str]]
LATE = ("topic", "partition", "offset", "window_start", "window_end")
PER_BUCKET = ("waiting", "open_sizes")  # outputs that are sums over buckets


def each_is_told_from_all_others(node: Node, rows: Sequence[Row]) -> None:
    """No two rows have one identity, where the columns stand for a place of which it is made."""
    asked = operator_for(node)
    names = [name for name in asked.identity if name != PLACE]
    if PLACE in asked.identity:
        names += asked.order
    several = [
        at for at, n in Counter(repr([row.get(name) for name in names]) for row in rows).items() if n > 1
    ]
    assert not several, f"{names}: {several[:3]}"


class Verdict:
    """What the oracle makes of a log. It is worked out once, and compared with each fold."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self.node = reading, reading.node
        self.wanted = oracle.results(reading.node, reading.log)

    def check_late(self) -> None:
        """Compare late records, which the log tells without any fold."""
        late = _late(self.reading.operator.kernel, self.reading)
        if late is not None:
            width = len(next(iter(late), LATE))
            assert late == Counter(missed[:width] for missed in self.wanted.late)

    def check(self, plan: Plan) -> Outcome:
        """Fold the log by the kernel, and compare. Out: what it led to"""
        reading, operator = self.reading, self.reading.operator
        compute = reading.computed.for_kernel if reading.computed else None
        found = run(operator.steps, reading, plan, PER_BUCKET, revised=operator.revises, compute=compute)
        self.compare(operator, found)
        return found

    def compare(self, operator: NodeOperator, found: Outcome) -> None:
        """Compare what a fold led to."""
        rows = found.rows()
        if operator.revises:
            rows = [*found.current(self.node.key).values()]
        else:
            each_is_told_from_all_others(self.node, rows)
        wanted = self.wanted.rows
        if operator.revises and isinstance(
            self.node, WindowedAggregate
        ):  # as a table: of all windows as of now
            wanted = [*wanted, *self.wanted.open]
        same_rows(rows, wanted, without=("__sequence",) if operator.revises else ())
        if "changes" in found.outputs:
            self._compare_changes(found.rows("changes"))
        kernel = operator.kernel
        shown_open = _open_rows(kernel, found)
        if shown_open is not None:
            same_rows(shown_open, self.wanted.open)
        counted = kernel.open_state is not None
        assert _fates(kernel, found) == self._fates(open_as=OPEN if counted else USED)
        if self.wanted.waiting:
            assert _levels(found, self.wanted.waiting) == self.wanted.waiting

    def _compare_changes(self, rows: Sequence[Row]) -> None:
        assert isinstance(self.node, Relation)
        wanted, node = oracle.changes(self.node, self.reading.log), self.node
        values = [name for name in node.columns if name not in node.key]
        found: Counter[str] = Counter()
        for row in rows:
            before = [row[f"__before_{name}"] for name in values] if row["__was_there"] else None
            after = None if row["__deleted"] else [row[name] for name in values]
            found[changed([row[name] for name in node.key], row["__sequence"], before, after)] += 1
        assert found == Counter(
            changed(
                [(before or after or {})[name] for name in node.key],
                at_ms,
                None if before is None else [before[name] for name in values],
                None if after is None else [after[name] for name in values],
            )
            for (_, at_ms), (before, after) in wanted.items()
        )

    def _fates(self, open_as: str) -> Fates:
        """How many records met which, by the oracle."""
        return Counter(
            (topic, partition, open_as if fate == OPEN else fate)
            for (topic, partition, _), fate in self.wanted.fates.items()
        )


def same_rows(found: Iterable[Row], wanted: Iterable[Row], without: Sequence[str] = ()) -> None:
    """The same rows in any order, in the columns that both sides have. Values are the same if they are written so."""
    found, wanted = [*found], [*wanted]
    both = [n for n in wanted[0] if n in found[0] and n not in without] if found and wanted else []
    mine, theirs = (
        Counter(" ".join([written(row[name]) for name in both]) for row in rows) for rows in (found, wanted)
    )
    assert mine == theirs, f"{both}: {mine - theirs} instead of {theirs - mine}"
    assert len(found) == len(wanted)


def changed(key: Sequence[Any], at_ms: int, before: Sequence[Any] | None, after: Sequence[Any] | None) -> str:
    """A change as text."""
    rows = (None if row is None else [*map(written, row)] for row in (before, after))
    return f"{[*map(written, key)]} at {at_ms}: {[*rows]}"


def written(value: Any) -> str:
    """A value as text: 0.0 is told from -0.0, and NaN is itself."""
    return str(value) if isinstance(value, datetime) else repr(value)


def _open_rows(kernel: Kernel, found: Outcome) -> list[Row] | None:
    """The windows that are open, with their values so far; None: there are no windows."""
    is_open = kernel.open_state
    if is_open is None or is_open.windows is None:
        return None
    return list(is_open.windows(_state(found)[is_open.table], found.clock).to_pylist())


def _state(found: Outcome) -> dict[str, pa.Table]:
    return {name: table for tables in found.state for name, table in tables.items()}


def _fates(kernel: Kernel, found: Outcome) -> Fates:
    """What is kept is open or used: the state tells how many records are open."""
    counted: Fates = Counter()
    for (topic, partition, fate), records in found.fates.items():
        counted[topic, partition, "used" if fate == "kept" else fate] += records
    is_open = kernel.open_state
    if is_open is not None and is_open.table in _state(found):
        for row in is_open.records(_state(found)[is_open.table], found.clock).to_pylist():
            *place, records = row.values()
            counted[(*place, "open")] += records
            counted[(*place, "used")] -= records
    assert min(counted.values(), default=0) >= 0
    return +counted


def _levels(found: Outcome, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """How much waits in a partition after each commit; what changes nothing is not told."""
    told = {(row["__partition"], row["__ingested_ms"]): row for row in found.rows("waiting")}
    levels: dict[tuple[int, int], tuple[int, int]] = {}
    last = defaultdict[int, tuple[int, int]](lambda: (0, 0))
    for p, at in sorted({*wanted, *told}):
        if (p, at) in told:
            last[p] = told[p, at]["records"], told[p, at]["bytes"]
        levels[p, at] = last[p]
    return levels


def _late(kernel: Kernel, reading: Reading) -> Counter[tuple[Any, ...]] | None:
    """Late records, with the window that each came too late for; None: none can be late, or the oracle tells none."""
    if kernel.late_scope is None or isinstance(kernel, Tables):
        return None
    rows, _ = reading.increment({}, dict.fromkeys(reading.topics, THE_END))
    found = kernel.late(rows)
    names = [name for name in LATE if name in found.column_names]  # of lookups there are no windows
    shown = found.to_pylist()
    assert all(row["late_by_ms"] >= 0 for row in shown)
    return Counter(tuple(_ms(row[name]) for name in names) for row in shown)


def _ms(value: Any) -> Any:
    return round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value
