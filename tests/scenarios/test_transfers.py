"""Money moves between accounts, and none comes or goes: whatever is committed or delivered, balances sum to zero.

Credits and debits are two aggregates of one table of transfers, joined again. Were one of them ever a transfer ahead of the
other, the sum would show it (Jamie Brandon, *Internal consistency in streaming systems*, 2021).
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from tests.laws.recorder import BEGIN_MS, Recorder

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.sinks import Delivery
    from headrace.testing import TestDriver
    from tests.conftest import Drive

pytestmark = pytest.mark.fast

NAMES = [f"a{n}" for n in range(6)]
ACCOUNTS = hr.Topic("accounts", key="account STRING", value="bank STRING")
TRANSFERS = hr.Topic("transfers", key="id STRING", value="payer STRING, payee STRING, amount INT")
CREDITS = TRANSFERS.table().group_by("payee").aggregate(got=hr.sum("amount"))
DEBITS = TRANSFERS.table().group_by("payer").aggregate(gave=hr.sum("amount"))
BALANCES = (
    ACCOUNTS.table()
    .join(CREDITS, on="account", how="left")
    .join(
        DEBITS,
        on="account",
        how="left",
        select=("left.bank AS bank", "coalesce(left.got, 0) - coalesce(right.gave, 0) AS balance"),
    )
)
Transfer = tuple[str, str, int]


class Watching(Recorder):
    """A sink that sums the balances that it holds after each delivery."""

    def __init__(self) -> None:
        super().__init__()
        self.sums: list[int] = []

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        self.take(rows.to_pylist(), delivery)
        self.sums.append(sum(row["balance"] for row in self.table().values()))


def test_after_each_commit_and_each_delivery_balances_sum_to_zero(drive: Drive) -> None:
    sink, random, made = Watching(), Random(7), dict[str, Transfer]()
    driver = drive(BALANCES.to(sink).named("balances"))
    for name in NAMES:
        driver.pipe("accounts", key=name, value={"bank": "b"}, timestamp_ms=BEGIN_MS)
    driver.crash("after outputs")
    for number in range(4):
        for _ in range(12):
            transfer(driver, random, made)
        if number == 1:  # two commits of the log become one micro-batch
            driver.cut([])
            transfer(driver, random, made)
        driver.cut()
        found = {row["account"]: row["balance"] for row in driver.rows("balances")}
        assert found == balances(made)
        assert sum(found.values()) == 0
    assert len(set(found.values())) > 1, "money has moved"
    assert len(sink.sums) == 5, "four micro-batches, the first of them twice"
    assert set(sink.sums) == {0}
    assert {key: row["balance"] for key, row in sink.table().items()} == found
    backfilled = {row["account"]: row["balance"] for row in driver.backfill("balances")}
    assert backfilled == found


def transfer(driver: TestDriver, random: Random, made: dict[str, Transfer]) -> None:
    """A transfer, one that is corrected in payer, payee or amount, or one that is taken back."""
    key = f"t{random.randrange(25)}"
    payer, payee = random.sample(NAMES, 2)
    amount = random.randrange(1, 100)
    value = None if random.random() < 0.2 else {"payer": payer, "payee": payee, "amount": amount}
    partition = int(key.removeprefix("t")) % 2
    driver.pipe("transfers", key=key, value=value, timestamp_ms=BEGIN_MS, partition=partition)
    made.pop(key, None)
    if value is not None:
        made[key] = (payer, payee, amount)


def balances(made: dict[str, Transfer]) -> dict[str, int]:
    """What is left of the transfers, added up."""
    found = Counter(dict.fromkeys(NAMES, 0))
    for payer, payee, amount in made.values():
        found[payer] -= amount
        found[payee] += amount
    return dict(found)
