"""Fraud rules on card payments: a blocked card, and three small payments that are followed by a large one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial

import pytest

import headrace as hr
from headrace.testing import TestDriver

pytestmark = pytest.mark.fast

payments = hr.Topic(
    "card_payments",
    key="card_id STRING",
    value="amount DECIMAL(12,2) NOT NULL, merchant STRUCT<id: STRING NOT NULL, country: STRING>, "
    "paid_at TIMESTAMP NOT NULL",
    timestamp="paid_at",
)
blocked = hr.Topic("blocked_cards", key="card_id STRING", value="reason STRING")


class CardRules(hr.Processor):
    """Warns of a card at most once an hour."""

    def __init__(self, large: Decimal) -> None:
        self.large = large

    def init(self, context: hr.Context) -> None:
        self.context = context
        self.small, self.warned = context.store("small"), context.store("warned")
        self.blocked = context.global_table("blocked")

    def process(self, record: hr.Record) -> None:
        if self.blocked.get(record["card_id"]) is not None:
            self.warn("blocked card", record)
        elif record["amount"] < 5:
            self.small.put((self.small.get() or 0) + 1)
            self.context.schedule("10 minutes", self.forget_small, once=True)
        elif record["amount"] >= self.large and (self.small.get() or 0) >= 3:
            self.warn("card testing", record)

    def warn(self, rule: str, record: hr.Record) -> None:
        if self.warned.get() is None:
            self.warned.put(rule)
            self.context.schedule("1 hour", self.end_silence, once=True)
            merchant = record["merchant"]
            self.context.forward(
                card_id=record["card_id"],
                rule=rule,
                amount=record["amount"],
                country=None if merchant is None else merchant["country"],
                at=record.timestamp,
            )

    def forget_small(self, moment: dt.datetime) -> None:
        self.small.delete()

    def end_silence(self, moment: dt.datetime) -> None:
        self.warned.delete()


alerts = (
    payments.group_by()
    .process(
        partial(CardRules, large=Decimal(500)),
        output="card_id STRING, rule STRING, amount DECIMAL(12,2), country STRING, at TIMESTAMP",
        stores=[
            hr.value_store("small", "n INT"),
            hr.value_store("warned", "rule STRING"),
            hr.global_table("blocked", blocked.table()),
        ],
        stream_wait="1 hour",
    )
    .to(hr.KafkaSink("card_alerts"))
    .named("card_alerts")
)
alerts_per_country = (
    alerts.group_by("country", "rule")
    .aggregate(alerts=hr.count(), amount=hr.sum("amount"))
    .named("alerts_per_country")
)


def test_a_card_that_is_tried_or_blocked_is_one_alert_an_hour() -> None:
    driver = TestDriver([alerts, alerts_per_country])

    def pay(card: str | None, minute: int, amount: float, country: str | None = "DE") -> None:
        merchant = {"id": "m1", "country": country}
        at = f"2026-01-01T{10 + minute // 60}:{minute % 60:02d}:00Z"
        driver.pipe("card_payments", key=card, value={"amount": amount, "merchant": merchant, "paid_at": at})

    driver.pipe("blocked_cards", key="stolen", value={"reason": "stolen"})
    driver.cut()
    for minute in (0, 1, 2):
        pay("tried", minute, 1.5)
        pay("slow", minute, 1.5)
    pay(None, 2, 900)  # no card: a group like others
    pay("stolen", 3, 20, country=None)
    driver.cut()
    pay("tried", 4, 600)
    pay("tried", 5, 700)  # within the hour: no second alert
    pay("slow", 13, 600)  # the small ones are forgotten at minute 12
    driver.crash("after outputs")
    driver.cut()
    driver.pipe("blocked_cards", key="stolen", value=None)
    no_merchant = {"amount": 3, "merchant": {"country": "DE"}, "paid_at": "2026-01-01T10:14:00Z"}
    driver.pipe("card_payments", key="tried", value=no_merchant)
    driver.cut()
    pay("stolen", 70, 20)
    for minute in (70, 70, 71, 72):
        pay("tried", minute, 2)
    pay("tried", 73, 500)
    pay("tried", 20, 500)  # late, and still within ten minutes of the small ones as the log goes
    driver.cut()

    rows = sorted(driver.rows("card_alerts"), key=lambda row: row["at"])
    assert [
        (row["card_id"], row["rule"], row["amount"], row["country"], row["at"].minute) for row in rows
    ] == [
        ("stolen", "blocked card", Decimal("20.00"), None, 3),
        ("tried", "card testing", Decimal("600.00"), "DE", 4),
        ("tried", "card testing", Decimal("500.00"), "DE", 13),
    ]
    (dead,) = driver.dead_letters("card_payments")
    assert "merchant" in dead["reason"]
    assert [(*row.values(),) for row in driver.rows("alerts_per_country")] == [
        (None, "blocked card", 1, Decimal("20.00")),
        ("DE", "card testing", 2, Decimal("1100.00")),
    ]
    for name in ("card_alerts", "alerts_per_country"):
        driver.check(name)
    driver.close()
