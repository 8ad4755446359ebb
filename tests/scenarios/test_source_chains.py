"""Records that a service sends again, and that nodes without state send on: the guard behind these knows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from tests.scenarios.timeline import MINUTE

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.sinks import Delivery
    from headrace.testing import TestDriver
    from tests.conftest import Drive

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

    def deliver(self, rows: Any, delivery: Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        self.rows += [(row["part"], row["__chain"]) for row in rows.to_pylist()]

    def send(self, driver: TestDriver) -> list[Any]:
        sent, self.rows = self.rows, []
        for part, chain in sent:
            driver.pipe("parts", value={"part": part}, headers={"source-chain": chain}, timestamp_ms=MINUTE)
        driver.cut()
        return [json.loads(chain) for _, chain in sent]


@pytest.mark.spark
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
    assert driver.fates("taken") == {"used": 5}
    pipe("bolts nuts screws", came)  # the service had not committed, and sends it again
    pipe("washers", hr.source_chain(None, "shop", 2, 41))
    driver.cut()
    plain.send(driver)
    mapped.send(driver)
    assert driver.fates("taken") == {"used": 7, "replay": 1 + 2}
    assert [tuple(row.values()) for row in driver.rows("places")] == [
        ("orders/0/0", came.decode(), True, 1, MINUTE, True),
        ("orders/0/2", came.decode(), True, 1, MINUTE, True),
        ("orders/0/3", '[["shop",2,41]]', True, 1, MINUTE, True),
    ]
    assert driver.fates("places") == {"used": 3, "filtered": 1}
    for node in (upper, words):
        name = node.required_name
        driver.check(name)


class Republished:
    """A sink that is the topic `checked`: what it is given is piped into the driver, in order, also what it had before."""

    name = "checked"

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, str]] = []

    def deliver(self, rows: Any, delivery: Delivery) -> None:
        raise AssertionError("few rows start no Spark")

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        self.rows += [(row["screw"], row["turns"], row["__chain"]) for row in rows.to_pylist()]

    def send(self, driver: TestDriver, again: int) -> None:
        """Send the rows that came since; and those before, from a number on, as a producer does that had not committed."""
        for screw, turns, chain in self.rows[again:]:
            driver.pipe(
                "checked",
                key=screw,
                value={"turns": turns},
                headers={"source-chain": chain},
                timestamp_ms=MINUTE // 6,
            )


@pytest.mark.fast
def test_tightenings_that_are_sent_again_count_once_two_hops_behind_their_orders(drive: Drive) -> None:
    """Orders of a service, tightened, checked by a node without state, and counted by the minute."""
    tightenings = hr.Topic(
        "tightenings", key="screw STRING", value="turns INT", idle_timeout=None, replay_guard=None
    )
    checked = hr.Topic(
        "checked", key="screw STRING", value="turns INT", idle_timeout=None, replay_guard=hr.ReplayGuard()
    )
    republished = Republished()
    good = tightenings.where("turns > 0").to(republished).named("good_tightenings")
    turns = (
        checked.group_by("screw")
        .window(hr.tumbling("1 minute"), grace="0 minutes")
        .aggregate(n=hr.count(), total=hr.sum("turns"))
        .suppress(hr.until_window_closes())
        .named("screw_turns")
    )
    driver = drive(good, turns)

    def tighten(*orders: int) -> None:
        for order in orders:
            chain = hr.source_chain(None, "orders", 0, order)
            driver.pipe(
                "tightenings",
                key="a",
                value={"turns": order},
                headers={"source-chain": chain},
                timestamp_ms=MINUTE,
            )
        driver.cut()

    tighten(1, 2)
    republished.send(driver, 0)
    tighten(1, 2, 3, 0, 4)  # the service crashed after order 2, and began again; order 0 came to nothing
    assert [json.loads(chain)[0] for *_, chain in republished.rows] == [
        ["orders", 0, order] for order in (1, 2, 1, 2, 3, 4)
    ]
    assert {len(json.loads(chain)) for *_, chain in republished.rows} == {3}
    republished.send(driver, 1)
    driver.pipe("checked", key="a", value={"turns": 0}, timestamp_ms=MINUTE)
    driver.cut()
    assert [(row["n"], row["total"]) for row in driver.rows("screw_turns")] == [(4, 1 + 2 + 3 + 4)]
    assert driver.fates("screw_turns") == {"used": 4, "replay": 3, "open": 1}
    driver.check("screw_turns")


OTHER = hr.Topic(
    "trucks", value="load STRING", idle_timeout=None, replay_guard=hr.ReplayGuard(header="came-by")
)
WITHIN = hr.Topic(
    "ships", value="load STRING, by STRING", idle_timeout=None, replay_guard=hr.ReplayGuard(None, path="by")
)
LOADS = (
    OTHER.select("load", "record_source_chain() AS chain")
    .merge(WITHIN.select("load", "record_source_chain() AS chain"))
    .where("chain IS NULL OR chain = record_source_chain()")
    .named("loads")
)


@pytest.mark.spark
def test_the_source_chain_of_a_record_is_the_one_that_the_guard_reads(drive: Drive) -> None:
    driver = drive(LOADS)
    driver.pipe(
        "trucks", value={"load": "a"}, headers={"came-by": CAME, "source-chain": b"[]"}, timestamp_ms=MINUTE
    )
    driver.pipe("trucks", value={"load": "b"}, headers={"source-chain": CAME}, timestamp_ms=MINUTE)
    driver.pipe("ships", value={"load": "c", "by": CAME.decode()}, timestamp_ms=MINUTE)
    driver.pipe("ships", value={"load": "d"}, headers={"source-chain": CAME}, timestamp_ms=MINUTE)
    driver.cut()
    found = {row["load"]: row["chain"] for row in driver.rows("loads")}
    assert found == {"a": CAME.decode(), "b": None, "c": CAME.decode(), "d": None}


CAME = hr.source_chain(None, "shop", 2, 40)
