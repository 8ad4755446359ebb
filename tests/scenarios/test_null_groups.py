"""Null is a group, as in SQL; a null key of a table is a dead letter; a null in `on` matches nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.commands import app
from headrace.observe.keyed_reads import KeyedReads
from headrace.testing import TestDriver
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.description import Node

pytestmark = pytest.mark.fast

SALES = hr.Topic(
    "sales", key="sale STRING", value="country STRING, shop INT, amount INT", idle_timeout="1 minute"
)
KEYED = hr.Topic("keyed", key="country STRING", value="amount INT", idle_timeout="1 minute")
SHOPS = hr.Topic("shops", key="country STRING", value="boss STRING")
BY_COUNTRY, BY_KEY = SALES.group_by("country"), KEYED.group_by()
COUNTS = BY_COUNTRY.aggregate(n=hr.count())


class CountProcessor(hr.Processor):
    """Counts the records of a group."""

    def init(self, context: hr.Context) -> None:
        self.context, self.count = context, context.store("count")

    def process(self, record: hr.Record) -> None:
        self.count.put((self.count.get() or 0) + 1)
        self.context.forward(country=self.context.key["country"], n=self.count.get())


NODES: dict[str, tuple[Node, dict[Any, int]]] = {
    "totals": (COUNTS, {None: 3, "it": 2}),
    "totals after steps": (COUNTS.where("n > 2").with_column("twice", "n * 2"), {None: 3}),
    "windows": (
        BY_COUNTRY.window(hr.tumbling("1 hour"), grace="0 seconds").aggregate(n=hr.count()),
        {None: 3, "it": 2},
    ),
    "final windows": (
        BY_COUNTRY.window(hr.tumbling("1 hour"), grace="0 seconds")
        .aggregate(n=hr.count())
        .suppress(hr.until_window_closes()),
        {None: 3, "it": 2},
    ),
    "sessions": (
        BY_KEY.window(hr.session("1 hour"), grace="0 seconds").aggregate(n=hr.count()),
        {None: 3, "it": 2},
    ),
    "sliding": (
        BY_KEY.window(hr.sliding("1 hour"), grace="0 seconds").aggregate(n=hr.count()),
        {None: 3, "it": 2},
    ),
    "time limit": (BY_KEY.aggregate(n=hr.count()).suppress(hr.until_time_limit("1 minute")), {None: 3, "it": 2}),
    "batches": (BY_KEY.batch(max_wait="1 minute", collect=["amount"]), {None: 3, "it": 2}),
    "two columns": (SALES.group_by("country", "shop").aggregate(n=hr.count()), {None: 2, "it": 2}),
    "processor": (
        BY_COUNTRY.process(
            CountProcessor, output="country STRING, n BIGINT", stores=[hr.value_store("count", "n BIGINT")]
        ),
        {None: 3, "it": 2},
    ),
    "groups of a table": (SALES.table().group_by("country").aggregate(n=hr.count()), {None: 3, "it": 2}),
    "groups with picks": (
        SALES.table().group_by("country").aggregate(n=hr.count(), best=hr.max("amount")),
        {None: 3, "it": 2},
    ),
    "left join of totals": (COUNTS.join(SHOPS.table(), on="country", how="left"), {None: 3, "it": 2}),
    "inner join of totals": (COUNTS.join(SHOPS.table(), on="country"), {"it": 2}),
    "outer join of totals": (
        COUNTS.join(BY_COUNTRY.aggregate(sum=hr.sum("amount")), on="country", how="outer"),
        {None: 3, "it": 2},
    ),
    "changes": (COUNTS.changes(), {None: 3, "it": 2}),
    "totals of a left lookup": (
        SALES.select("sale", "country AS at").lookup(SHOPS.table(), on="at").group_by("boss").aggregate(n=hr.count()),
        {None: 3, "anna": 2},
    ),
}  # fmt: skip


NAMES = {kind: kind.replace(" ", "_") for kind in NODES}
LATEST = COUNTS.named("counts").changes().table().named("latest")


@pytest.fixture(scope="module")
def driver() -> Iterator[TestDriver]:
    """All nodes over the same records."""
    nodes = [node.named(NAMES[kind]) for kind, (node, _) in NODES.items()]
    started = TestDriver([*nodes, COUNTS.named("counts"), LATEST])
    play(started)
    yield started
    started.close()


def play(driver: TestDriver) -> None:
    """Records with and without a country, a cut after each; then all windows close."""
    driver.pipe("shops", key="it", value={"boss": "anna"}, timestamp_ms=0)
    driver.cut()
    for minute, (country, shop) in enumerate([(None, 1), ("it", 1), (None, None), ("it", 1), (None, None)]):
        value = {"country": country, "shop": shop, "amount": minute}
        driver.pipe("sales", key=f"s{minute}", value=value, timestamp_ms=minute * MINUTE)
        driver.pipe("keyed", key=country, value={"amount": minute}, timestamp_ms=minute * MINUTE)
        driver.cut()
    driver.advance_wall_clock("4 hours")
    driver.cut()
    driver.advance_wall_clock("4 hours")
    driver.cut()


@pytest.mark.parametrize("kind", NODES)
def test_null_is_a_group(kind: str, driver: TestDriver) -> None:
    name, expected = NAMES[kind], NODES[kind][1]
    found: dict[Any, int] = {}
    for row in driver.rows(name):
        group, n = row.get("country", row.get("boss")), row.get("n", row.get("records"))
        found[group] = max(found.get(group, 0), n or 0)
    assert found == expected
    assert "dead_letter" not in driver.fates(name)
    driver.check(name)


def test_a_null_key_of_a_table_is_a_dead_letter_that_both_ways_show(driver: TestDriver) -> None:
    assert [row["country"] for row in driver.rows("latest")] == ["it"]
    assert driver.fates("latest")["dead_letter"] == 3
    dead = driver.dead_letters("latest")
    assert [(row["reason"], row["node"]) for row in dead] == [("key: country is null", "latest")] * 3


def test_a_row_of_a_null_group_is_read_by_its_key(driver: TestDriver) -> None:
    assert KeyedReads(driver._lake).get(driver._node("counts"), {"country": None}) == {
        "country": None,
        "n": 3,
    }


def test_the_command_line_reads_the_row_of_a_null_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: no text of a key stood for null, so no command could read that row."""
    totals = COUNTS.named("totals")
    driver = TestDriver([totals])
    for country in (None, "null", None):
        driver.pipe("sales", key="s", value={"country": country, "shop": 1, "amount": 2}, timestamp_ms=0)
    driver.cut()
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda module: [totals])
    told = ["--pipeline", __name__, "--lake", driver.lake.root]
    answers = [["get", "totals", "null"], ["get", "totals", "--null", "-", "--", "-"], ["get", "totals", "-"]]
    found = [CliRunner().invoke(app, [*words[:1], *told, *words[1:]]) for words in answers]
    assert [json.loads(each.stdout)["n"] for each in found[:2]] == [1, 2]
    assert found[2].exit_code == 1
    driver.close()
