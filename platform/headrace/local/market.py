"""Positions of imaginary clients in imaginary tickers, drawn from a seed: both sides change, and both lose rows.

The n-th message of either source is a function of the seed; no clock is read.
"""

from __future__ import annotations

import json
import random

from headrace.local.traffic import SEED, Message

POSITIONS, TICKERS, CLIENTS = 500, 40, 60
EXCHANGES = ("Amber", "Basalt", "Cobalt")
CLOSED, DELISTED = 0.05, 0.1  # how often a message is a tombstone


def ticker_of(number: int) -> str:
    """The name of a ticker: `T01`, `T02`, and so on."""
    return f"T{number + 1:02d}"


class Traders:
    """Positions `position-001`, `position-002`, …: opened, changed, moved to another ticker, and closed."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)

    def read(self, now_ms: int) -> Message:
        """One position as of the nominal time `now_ms`, or its end."""
        number = self._random.randrange(POSITIONS)
        position = {
            "client": f"client-{number % CLIENTS + 1:02d}",
            "ticker": ticker_of(self._random.randrange(TICKERS)),
            "amount": self._random.randint(1, 1_000),
        }
        closed = self._random.random() < CLOSED
        value = None if closed else json.dumps(position).encode()
        return Message(f"position-{number + 1:03d}", value, now_ms)


class Listings:
    """Tickers: all are listed first; then one after another moves to another exchange, or is away for a while."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        self._listed = 0
        self._away: int | None = None

    def read(self, now_ms: int) -> Message:
        """One ticker as of the nominal time `now_ms`; no two are away at a time."""
        if self._listed < TICKERS:
            self._listed += 1
            return self._listing(self._listed - 1, now_ms)
        if self._away is not None:
            number, self._away = self._away, None
            return self._listing(number, now_ms)
        number = self._random.randrange(TICKERS)
        if self._random.random() < DELISTED:
            self._away = number
            return Message(ticker_of(number), None, now_ms)
        return self._listing(number, now_ms)

    def _listing(self, number: int, now_ms: int) -> Message:
        value = {
            "exchange": self._random.choice(EXCHANGES),
            "name": f"Company {number + 1}",
            "founded": 1900 + number,
        }
        return Message(ticker_of(number), json.dumps(value).encode(), now_ms)
