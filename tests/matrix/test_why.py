"""The laws of `why` and `why-not` on random logs, for a node of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from headrace.engine.slices import log_parts
from headrace.errors import TerminalError
from headrace.explain import scope_size
from headrace.explain.keyed_evidence import KeyedEvidence
from headrace.explain.recomputation import Recomputation, place_of
from headrace.explain.record_fate import fate_of_record
from headrace.explain.row_cause import Cause, ExplainedNode, causes_of
from headrace.fold.fates import FATES
from headrace.lifecycle.evidence.local_evidence import LocalEvidence
from headrace.nodes.descriptions.topics import with_nodes_read
from headrace.operators.key_scope import reads_all
from headrace.oracle.values import identity
from headrace.testing import TestDriver
from tests.matrix.kinds import name_of, nodes

pytestmark = [pytest.mark.fast, pytest.mark.slow]
KINDS = sorted(nodes())
BEGIN_MS, MINUTE_MS, DAY_MS = 1_700_000_000_000, 60_000, 86_400_000


@pytest.fixture(scope="module", params=[1])
def driver(request: pytest.FixtureRequest) -> Iterator[TestDriver]:
    driver, random = TestDriver([*nodes().values()]), Random(request.param)
    for step in range(4):
        for _ in range(9):
            value: Any = {"value": random.randrange(12), "place": random.choice(["north", "south", None])}
            driver.pipe(
                "events",
                key=random.choice(["a", "b", "c", None]),
                value=random.choice([value] * 9 + [None]),
                timestamp_ms=BEGIN_MS + step * 2 * MINUTE_MS + random.randrange(-20, 12) * 15_000,
            )
        driver.pipe(
            "places",
            key=random.choice(["north", "south"]),
            value={"city": f"city{step}"},
            timestamp_ms=BEGIN_MS + step * 2 * MINUTE_MS,
        )
        driver.advance_wall_clock("2 minutes")
        driver.cut()
    for topic, key in (("events", "z"), ("places", "west")):  # the day closes
        driver.pipe(topic, key=key, value={"place": "west", "city": "w"}, timestamp_ms=BEGIN_MS + 2 * DAY_MS)
    driver.advance_wall_clock("2 minutes")
    driver.cut()
    yield driver
    driver.close()


@pytest.mark.parametrize("kind", KINDS)
def test_unnamed_records_do_not_matter_and_deciding_ones_do(driver: TestDriver, kind: str) -> None:
    name = name_of(kind)
    node = driver._nodes[name]
    rows = driver.rows(name)
    assert rows, "the log makes no row of this kind"
    explained = ExplainedNode(driver._session, driver.lake, node, large=False)
    for row in (rows[0], rows[-1]):
        asked = {n: row[n] for n in node.key or ("key",) if n in row}
        try:
            causes = causes_of(driver._session, driver.lake, node, asked)
        except Exception as error:  # too many rows of a key: ask for one by all its columns
            if "rows with" not in str(error):
                raise
            asked = {n: row[n] for n in node.columns if not isinstance(row[n], list | dict)}
            causes = causes_of(driver._session, driver.lake, node, asked)
        assert causes
        for cause in causes:
            refuted(explained, asked, cause)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not reads_all(nodes()[kind])])
def test_logs_that_are_read_part_by_part_give_the_same_answer(
    driver: TestDriver, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = driver._nodes[name_of(kind)]
    rows = driver.rows(node.required_name)
    asked = [
        {n: row[n] for n in node.columns if not isinstance(row[n], list | dict)}
        for row in (rows[0], rows[-1])
    ]
    whole = [causes_of(driver._session, driver.lake, node, one) for one in asked]
    places = [("events", 0, offset) for offset in (3, 20, 34)]
    fates = [fate(driver, node, place) for place in places]
    monkeypatch.setattr(scope_size, "LOCAL_BYTES", -1)
    monkeypatch.setattr(log_parts, "PART_ROWS", 3)
    evidence = ExplainedNode(driver._session, driver.lake, node, large=False).evidence
    assert isinstance(evidence, KeyedEvidence)
    assert [causes_of(driver._session, driver.lake, node, one) for one in asked] == whole
    if kind == "Merged":  # a record of the second stream may change rows of any key
        with pytest.raises(TerminalError, match="its logs and tables have"):
            fate(driver, node, places[0])
        return
    assert [fate(driver, node, place) for place in places] == fates


@pytest.mark.parametrize("kind", KINDS)
def test_the_commits_of_logs_that_are_read_part_by_part_are_those_of_all_rows(
    driver: TestDriver, kind: str
) -> None:
    node = driver._nodes[name_of(kind)]
    evidence = ExplainedNode(driver._session, driver.lake, node, large=False).evidence
    part_by_part = KeyedEvidence.read(driver._session, driver.lake, evidence.node, evidence.of)
    assert isinstance(evidence, LocalEvidence)
    assert part_by_part.history() == evidence.history()


def fate(driver: TestDriver, node: Any, place: tuple[str, int, int]) -> Any:
    return fate_of_record(
        driver._session, driver.lake, with_nodes_read(node), (driver._topics[place[0]], *place[1:])
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_fate_of_a_record_is_the_one_that_the_kernel_counts(driver: TestDriver, kind: str) -> None:
    node = driver._nodes[name_of(kind)]
    kernel = {
        (row["topic"], row["partition"], row["offset"]): {"open": "used"}.get(fate, fate)
        for fate in FATES
        for row in driver.records(node.required_name, fate)
    }
    tables = {identity(row.get(n) for n in node.columns) for row in driver.rows(node.required_name)}
    for place in sorted(kernel)[::6]:
        if place[0] not in ("events", "places"):
            continue
        topic = driver._topics[place[0]]
        of = fate_of_record(driver._session, driver.lake, with_nodes_read(node), (topic, *place[1:]))
        (own,) = (each for each in of.nodes if each.node == node.required_name)
        assert {"open": "used"}.get(own.fate, own.fate) == kernel[place]
        if own.fate == "used" and not own.reason:
            assert {identity(row[n] for n in node.columns) for row in own.rows} <= tables
        assert all(miss.late_ms >= 0 and miss.counts_from_ms > 0 for miss in own.missed)


def refuted(explained: ExplainedNode, asked: dict[str, Any], cause: Cause) -> None:
    assert cause.proved
    sought = explained.sought(asked)
    keys = explained.keys(sought)
    again = Recomputation(explained.scope, explained.scope.log(keys), keys, sought.values.to_pylist()[0])
    named = {(r.topic, r.partition, r.offset): r for r in cause.records}
    every = {place_of(r) for _, r in again.records()}
    shown = {n: cause.row[n] for n in explained.node.columns}
    assert again.is_equal(shown, every - named.keys())
    if named:
        assert not again.is_equal(shown, every)
    for place, record in named.items():
        assert record.deciding is not None
        assert again.is_equal(shown, {place}) is not record.deciding
