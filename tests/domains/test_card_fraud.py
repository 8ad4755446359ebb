"""Fraud rules on card payments: a blocked card, and three small payments that are followed by a large one."""

from decimal import Decimal
from functools import partial

import headrace as hr

payments = hr.Topic(
    "card_payments",
    key="card_id STRING",
    value="amount DECIMAL(12,2) NOT NULL, merchant STRUCT<id: STRING NOT NULL, country: STRING>, paid_at TIMESTAMP NOT NULL",
    timestamp="paid_at",
)
blocked = hr.Topic("blocked_cards", key="card_id STRING", value="reason STRING")


class CardRules(hr.Processor):
    """Warns of a card at most once an hour."""

    def __init__(self, large):
        self.large = large

    def init(self, context):
        self.context = context
        self.small, self.warned = context.store("small"), context.store("warned")
        self.blocked = context.global_table("blocked")

    def process(self, record):
        if self.blocked.get(record["card_id"]) is not None:
            self.warn("blocked card", record)
        elif record["amount"] < 5:
            self.small.put((self.small.get() or 0) + 1)
            self.context.schedule("10 minutes", self.forget_small, once=True)
        elif record["amount"] >= self.large and (self.small.get() or 0) >= 3:
            self.warn("card testing", record)

    def warn(self, rule, record):
        if self.warned.get() is None:
            self.warned.put(rule)
            self.context.schedule("1 hour", self.end_silence, once=True)
            self.context.forward(
                card_id=record["card_id"],
                rule=rule,
                amount=record["amount"],
                country=record["merchant"]["country"],
                at=record.timestamp,
            )

    def forget_small(self, moment):
        self.small.delete()

    def end_silence(self, moment):
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
    .named("card_alerts", description="Payments that look like fraud, at most one an hour and card.")
)
alerts_per_country = (
    alerts.group_by("country", "rule").aggregate(alerts=hr.count(), amount=hr.sum("amount")).named("alerts_per_country")
)
