"""Visits to the sites of imaginary customers, drawn from a seed: few are busy, and most are idle most of the time.

The n-th visit is a function of the seed; no clock is read.
"""

from __future__ import annotations

import json
import random

from headrace.local.traffic import SEED, Message

CUSTOMERS, ACTIONS = 60, ("view", "search", "order")


class Visitors:
    """Visitors of customers `customer-01`, `customer-02`, …; the share of each falls with its number."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        self._shares = [1 / (number + 1) ** 1.5 for number in range(CUSTOMERS)]

    def read(self, now_ms: int) -> Message:
        """One visit at the nominal time `now_ms`."""
        number = self._random.choices(range(CUSTOMERS), self._shares)[0]
        customer = f"customer-{number + 1:02d}"
        visit = {
            "customer_id": customer,
            "visitor_id": f"visitor-{self._random.randrange(1000):03d}",
            "action": self._random.choice(ACTIONS),
        }
        return Message(customer, json.dumps(visit).encode(), now_ms)
