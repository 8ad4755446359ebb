"""Aggregates as users write them, for the laws of the kernel."""

from __future__ import annotations

from typing import Any

import headrace as hr


class Span(hr.Aggregate):
    """From the lowest number to the highest; some numbers it does not take."""

    state = "low BIGINT, high BIGINT"
    result = "BIGINT"

    def init(self) -> Any:
        return {"low": None, "high": None}

    def add(self, state: Any, *values: Any) -> Any:
        (value,) = values
        if value is None:
            return state
        if value % 7 == 3:
            raise ValueError(value)
        return self.merge(state, {"low": value, "high": value})

    def merge(self, one: Any, other: Any) -> Any:
        lows, highs = ([s[n] for s in (one, other) if s[n] is not None] for n in ("low", "high"))
        return {"low": min(lows, default=None), "high": max(highs, default=None)}

    def finish(self, state: Any) -> Any:
        return None if state["low"] is None else state["high"] - state["low"]


class Pairs(hr.Aggregate):
    """The different pairs of a key and a number, as texts, sorted; `most` of them."""

    state = "pairs ARRAY<STRUCT<key: STRING, number: BIGINT>>"
    result = "ARRAY<STRING>"

    def __init__(self, most: int) -> None:
        self.most = most

    def init(self) -> Any:
        return {"pairs": []}

    def add(self, state: Any, *values: Any) -> Any:
        key, number = values
        return self.merge(state, {"pairs": [{"key": key, "number": number}]})

    def merge(self, one: Any, other: Any) -> Any:
        found = {(each["key"], each["number"]) for each in (*one["pairs"], *other["pairs"])}
        return {"pairs": [{"key": key, "number": n} for key, n in sorted(found, key=repr)]}

    def finish(self, state: Any) -> Any:
        return [f"{each['key']}:{each['number']}" for each in state["pairs"][: self.most]]


class Shown(hr.Aggregate):
    """A sum of last digits as a number and as a text. Ints stand where a DOUBLE is declared; one number gives no state."""

    state = "total DOUBLE"
    result = "STRUCT<total: DOUBLE, text: STRING>"

    def init(self) -> Any:
        return {"total": 0}

    def add(self, state: Any, *values: Any) -> Any:
        (value,) = values
        if value is None:
            return state
        return {"total": "much" if value % 7 == 2 else state["total"] + value % 1000}

    def merge(self, one: Any, other: Any) -> Any:
        return {"total": one["total"] + other["total"]}

    def finish(self, state: Any) -> Any:
        return {"total": int(state["total"]), "text": str(state["total"])}
