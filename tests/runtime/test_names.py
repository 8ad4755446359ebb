"""Columns with odd names, each of them somewhere: streamed, backfilled, verified, checked, shown and erased like others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.description import WindowedAggregate, quote
from headrace.lifecycle.backfill import Backfill, verify
from headrace.lifecycle.erasure import Erasure
from headrace.observe.views import Views
from headrace.quality import Thresholds, check_node
from headrace.sinks import Delivery
from headrace.sinks.refusals import record_refusals
from headrace.spark.lake_rows import read
from headrace.testing import TestDriver
from tests.laws.kernel.names import nodes, topics
from tests.runtime.test_maps import tamper

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from headrace.description import Node

pytestmark = [pytest.mark.spark, pytest.mark.slow]
LENIENT = Thresholds(late_ratio_max=1.0, orphan_ratio_max=1.0, unmatched_ratio_max=1.0)
ODD = "a`'\"b.c ü%s{},;(x)=\\$:SELECT"
NUMBER, REFERS = f"{ODD}`n", f"{ODD}.r"
# Under these names the kernel folds nodes of every kind (`tests/laws/kernel/test_names.py`); the others are read with the long tests.
KINDS = ("sessions", "joins", "batches")
OTHERS = ("tumbling", "sliding", "totals", "waits", "groups", "timed_lookups")


class Refusing:
    """A sink that refuses every row."""

    name = "refusing"

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        refused = [(row["__sequence"], row["__ordinal"], "no") for row in rows.collect()]
        record_refusals(rows, delivery, refused, "the store")


class Correctable:
    """A sink that holds nothing, and remembers how it was corrected."""

    name = "correctable"
    corrected: ClassVar[list[Row]] = []

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        pass

    def correct(self, rows: DataFrame, delivery: Delivery, through: int) -> None:
        self.corrected[:] = rows.collect()


def described() -> dict[str, Node]:
    """Nodes of every kind, one with steps before it, one with a selection."""
    known = nodes(ODD)
    (t, u), other = topics(ODD), f"`{ODD}"
    stepped = (
        t.where(f"{quote(NUMBER)} >= 0")
        .with_column(other, f"concat({quote(ODD)}, '`')")
        .select(quote(ODD), f"{quote(other)} AS `at`", f"{quote(NUMBER)} AS `in_log`")
        .group_by("at", ODD)
        .window(hr.tumbling("8 seconds"), grace=0)
        .aggregate(**{f"{ODD}|": hr.sum("in_log")})
        .suppress(hr.until_window_closes())
        .to(Refusing())
        .to(Correctable())
    )
    values = (f"left.{quote(NUMBER)} AS `joined`", f"right.{quote('R' + ODD)} AS {quote(ODD + ' x')}")
    selected = t.table().join(u.table(), on=REFERS, select=values)
    found = {kind: known[kind] for kind in (*KINDS, *OTHERS)}
    return found | {"stepped": stepped.named("stepped"), "selected": selected.named("selected")}


NODES = described()


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[TestDriver]:
    yield from driven(spark, (*KINDS, "stepped", "selected"))


@pytest.fixture(scope="module")
def others(spark: SparkSession) -> Iterator[TestDriver]:
    yield from driven(spark, OTHERS)


def driven(spark: SparkSession, kinds: Sequence[str]) -> Iterator[TestDriver]:
    """Some records of two keys, and a late one."""
    driver = TestDriver([NODES[kind] for kind in kinds], spark)
    for second in range(0, 40, 4):
        value = {NUMBER: second, REFERS: "k"}
        for key in ("gone", "stays"):
            driver.pipe("t", key=key, value=value, timestamp_ms=second * 1_000)
        driver.pipe("u", key="k", value={f"{ODD} n": second, f"R{ODD}": "r"}, timestamp_ms=second * 1_000)
        if second == 20:
            driver.cut()
    driver.pipe("t", key="stays", value=value, timestamp_ms=1)
    driver.cut()
    yield driver
    driver.close()


@pytest.mark.parametrize("of", ["driver", pytest.param("others", marks=pytest.mark.long)])
def test_every_reader_takes_them(request: pytest.FixtureRequest, tmp_path: Path, of: str) -> None:
    driver: TestDriver = request.getfixturevalue(of)
    views = Views(driver.spark, driver._lake)
    for kind, node in driver._nodes.items():
        rows = views.read(node)
        assert {*rows.columns} >= {*node.columns}, kind
        assert rows.count() >= 1, kind
        driver.updates(node.required_name)
        if isinstance(node, WindowedAggregate):
            views.open_windows(node).collect()
            assert views.late(node).count(), kind
        driver.check(node.required_name)
        results = check_node(driver.spark, driver._lake, node, str(tmp_path / "docs"), thresholds=LENIENT)
        assert all(each.passed for each in results), [each.sentence for each in results if not each.passed]


def test_what_differs_is_found_and_swapped_and_a_key_is_erased(driver: TestDriver, tmp_path: Path) -> None:
    spark, lake, some = driver.spark, driver._lake, [NODES[kind] for kind in ("stepped", "sessions", "joins")]
    tamper(driver, NODES["stepped"], f"{ODD}|", F.lit(-1).cast("bigint"))
    (found,) = (
        check for check in check_node(spark, lake, NODES["stepped"], str(tmp_path)) if not check.passed
    )
    assert (found.name, f"{ODD}|" in found.sentence) == ("backfill_equals_stream", True)
    Backfill(spark, lake, NODES["stepped"]).run()
    assert {row[f"{ODD}|"] for row in Correctable.corrected} <= {*range(80)}, "the recomputed rows"
    assert {row[ODD] for row in Correctable.corrected} == {"gone", "stays"}
    assert verify(spark, lake, NODES["stepped"])[0].equal
    tamper(driver, NODES["stepped"], f"{ODD}|", F.lit(-1).cast("bigint"))
    refused = lake.refused("stepped", "refusing")
    assert any("gone" in row["row"] for row in read(spark, refused).collect())
    list(Erasure(spark, lake, some, topics(ODD)[0], "gone").run())
    assert not any("gone" in row["row"] for row in read(spark, refused).collect())
    for node in some:
        rows = Views(spark, lake).read(node).collect()
        assert {row[ODD] for row in rows} == {"stays"}
        assert all(each.equal for each in verify(spark, lake, node))
