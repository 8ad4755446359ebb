"""Tightenings of imaginary screws: what stations of a factory report, drawn from a seed.

The n-th report is a function of the seed and of the nominal times asked for so far; no clock is read.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from headrace.local.traffic import Message

CUSTOMERS, SCREWS = ("Ada", "Grace", "Hedy", "Katherine"), 40


@dataclass
class Stations:
    """Stations that tighten screws, `screw-01`, `screw-02`, …, each belonging to one customer."""

    seed: int = 7

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def read(self, now_ms: int) -> Message:
        """One report of one to four tightenings at the nominal time `now_ms`."""
        number = self._random.randrange(SCREWS)
        screw = f"screw-{number + 1:02d}"
        value = {
            "customer": CUSTOMERS[number % len(CUSTOMERS)],
            "screw": screw,
            "count": self._random.randint(1, 4),
            "torque": round(self._random.gauss(25.0, 0.5), 2),
        }
        return Message(screw, json.dumps(value).encode(), now_ms)
