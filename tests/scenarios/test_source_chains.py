"""Records that a service sends again, and that nodes without state send on: the guard behind these knows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.scenarios.timeline import MINUTE, fates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.sinks import Delivery
    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = pytest.mark.spark

ORDERS = hr.Topic("orders", key="id STRING", value="text STRING", idle_timeout=None)
PARTS = hr.Topic(
    "parts", value="part STRING", idle_timeout=None, replay_guard=hr.ReplayGuard(header="source-chain")
)
TAKEN = PARTS.named("taken")
PLACES = (
    ORDERS.where("record_offset() <> 1")
    .select(
        "concat(record_topic(), '/', record_partition(), '/', record_offset()) AS place",
        "record_source_chain() AS chain",
        "CAST(record_header('source-chain') AS STRING) = record_source_chain() AS same",
        "size(record_headers()) AS headers",
        "unix_millis(record_timestamp()) AS at_ms",
        "record_ingested_at() > record_timestamp() AS later",
    )
    .named("places")
)


class Topic:
    """A sink that is a topic: what it is given is piped into the driver, in order."""

    name = "parts"

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        found = rows.orderBy("__sequence", "__place").collect()
        self.rows += [(row["part"], row["__chain"]) for row in found]

    def send(self, driver: TestDriver) -> list[Any]:
        sent, self.rows = self.rows, []
        for part, chain in sent:
            driver.pipe("parts", value={"part": part}, headers={"source-chain": chain}, timestamp_ms=MINUTE)
        driver.cut()
        return [json.loads(chain) for _, chain in sent]


def test_a_record_sent_again_is_known_behind_nodes_without_state(drive: Drive) -> None:
    plain, mapped = Topic(), Topic()
    upper = ORDERS.select("id", "upper(text) AS part").to(plain).named("upper")
    # The words are a step without a name, whose log carries the chain.
    words = (
        ORDERS.flat_map("split(text, ' ') AS part").where("part <> 'nuts'").to(mapped).named("order_words")
    )
    driver = drive(upper, words, TAKEN, PLACES)
    came = hr.source_chain(None, "shop", 2, 40)

    def pipe(text: str, chain: bytes | None) -> None:
        headers = {} if chain is None else {"source-chain": chain}
        driver.pipe("orders", key="k", value={"text": text}, headers=headers, timestamp_ms=MINUTE)

    pipe("bolts nuts screws", came)
    pipe("rivets", None)
    driver.cut()
    chains = {tuple(map(tuple, hops[:-1])): hops[-1][:2] for hops in plain.send(driver)}
    assert chains == {
        (("shop", 2, 40), ("orders", 0, 0)): ["upper", 0],
        (("orders", 0, 1),): ["upper", 0],
    }
    found = mapped.send(driver)
    assert [[hop[:1] + hop[3:] for hop in hops[:-2]] for hops in found] == [
        [["shop"], ["orders", 0]], [["shop"], ["orders", 2]], [["orders", 0]],
    ]  # fmt: skip
    assert {hops[-2][0][:8] for hops in found} == {"unnamed_"}
    assert {hops[-1][0] for hops in found} == {"order_words"}
    assert fates(driver.ledger("taken")) == {"used": 5}
    pipe("bolts nuts screws", came)  # the service had not committed, and sends it again
    pipe("washers", hr.source_chain(None, "shop", 2, 41))
    driver.cut()
    plain.send(driver)
    mapped.send(driver)
    assert fates(driver.ledger("taken")) == {"used": 7, "replay": 1 + 2}
    assert [tuple(row) for row in driver.read("places").orderBy("place").collect()] == [
        ("orders/0/0", came.decode(), True, 1, MINUTE, True),
        ("orders/0/2", came.decode(), True, 1, MINUTE, True),
        ("orders/0/3", '[["shop",2,41]]', True, 1, MINUTE, True),
    ]
    assert fates(driver.ledger("places")) == {"used": 3, "filtered": 1}
    for node in (upper, words):
        name = node.required_name
        assert sorted(driver.backfill(name).collect()) == sorted(driver.read(name).collect()), name
