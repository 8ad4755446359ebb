"""Readings of imaginary sensors: what real traffic looks like, drawn from a seed.

The n-th reading is a function of the seed and of the nominal times asked for so far; no clock is read.
"""

from __future__ import annotations

import json
import math
import random

from headrace.local.traffic import DAY_MS, MINUTE_MS, SECOND_MS, SEED, Message

SENSORS = 50
FAR_FUTURE_MS = 4_070_908_800_000  # 2099-01-01: a clock set wrong
# How often traffic misbehaves: shares of all records.
LATE = 0.02  # by one to three minutes
VERY_LATE = 0.002  # by up to ten
MALFORMED = NULL_VALUE = 0.001
FAR_FUTURE = 0.0002
FALLS_IDLE_PER_S = 0.01  # some sensor falls silent, for two to ten minutes


class Sensors:
    """A fleet of sensors named sensor-01, sensor-02, …, read one at a time."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        self._idle_until_ms = [0] * SENSORS
        self._last_ms: int | None = None
        self._level = [self._random.uniform(15.0, 30.0) for _ in range(SENSORS)]

    def read(self, now_ms: int) -> Message:
        """Read one sensor that is not idle, at the nominal time `now_ms`."""
        number = self._choose(now_ms)
        self._last_ms = now_ms
        key = f"sensor-{number + 1:02d}"
        return Message(key, self._value(key, number, now_ms), self._timestamp_ms(now_ms))

    def _choose(self, now_ms: int) -> int:
        awake = [number for number in range(SENSORS) if self._idle_until_ms[number] <= now_ms]
        number = self._random.choice(awake or range(SENSORS))
        elapsed_s = (now_ms - (self._last_ms or now_ms)) / SECOND_MS
        if self._happens(FALLS_IDLE_PER_S * elapsed_s):
            self._idle_until_ms[number] = now_ms + self._random.randint(2 * MINUTE_MS, 10 * MINUTE_MS)
        return number

    def _value(self, key: str, number: int, now_ms: int) -> bytes | None:
        if self._happens(NULL_VALUE):
            return None
        daily = 4.0 * math.sin(2 * math.pi * (now_ms % DAY_MS) / DAY_MS)
        value = round(self._level[number] + daily + self._random.gauss(0.0, 0.5), 3)
        text = json.dumps({"sensor_id": key, "value": value})
        if self._happens(MALFORMED):
            text = text[: self._random.randint(1, len(text) - 1)]
        return text.encode()

    def _timestamp_ms(self, now_ms: int) -> int:
        if self._happens(FAR_FUTURE):
            return FAR_FUTURE_MS
        if self._happens(VERY_LATE):
            return now_ms - self._random.randint(3 * MINUTE_MS, 10 * MINUTE_MS)
        if self._happens(LATE):
            return now_ms - self._random.randint(1 * MINUTE_MS, 3 * MINUTE_MS)
        return now_ms - self._random.randint(0, 2 * SECOND_MS)

    def _happens(self, share: float) -> bool:
        return self._random.random() < share
