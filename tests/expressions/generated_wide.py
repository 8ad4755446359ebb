"""Random expressions of values with parts, of bytes, and of functions of which only the type is known here."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.expressions.generated import ATOM, BIT_OR, COMPARISON, Expressions, Text

Form = Callable[[int], str]


class WideExpressions(Expressions):
    """Beside the kinds of `Expressions`: "bytes", "list", "record", "map"."""

    def any(self, depth: int) -> str:
        """An expression of any kind."""
        if self._rng.random() < 0.7:
            return super().any(depth)
        return self.of(self._rng.choice(["bytes", "list", "record", "map"]), depth).sql

    def _one(self, depth: int, *forms: Form) -> Text:
        return Text(self._rng.choice(forms)(depth - 1), ATOM)

    def _sql(self, kind: str, depth: int) -> str:
        return self.of(kind, depth).sql

    def _integer(self, depth: int) -> Text:
        if depth <= 0 or self._rng.random() < 0.8:
            return super()._integer(depth)
        s = self._sql
        return self._one(
            depth,
            lambda d: f"size({s('list', d)})",
            lambda d: f"get({s('list', d)}, {s('integer', 0)})",
            lambda d: f"array_max({s('list', d)})",
            lambda d: f"aggregate({s('list', d)}, 0, (a, e) -> a + e)",
            lambda d: f"{s('map', d)}['a']",
            lambda d: f"length({s('bytes', d)})",
            lambda d: f"pmod({s('integer', d)}, {s('integer', 0)})",
            lambda d: f"locate({s('text', 0)}, {s('text', d)})",
            lambda d: f"bit_count({s('integer', d)})",
            lambda d: f"shiftleft({s('integer', d)}, 1)",
            lambda d: f"date_part('day', {s('time', d)})",
            lambda d: f"array_position({s('list', d)}, {s('integer', 0)})",
        )

    def _number(self, depth: int) -> Text:
        if depth <= 0 or self._rng.random() < 0.9:
            return super()._number(depth)
        s = self._sql
        return self._one(
            depth,
            lambda d: f"sign({s('number', d)})",
            lambda d: f"try_add({s('number', d)}, {s('number', d)})",
            lambda d: f"try_divide({s('number', d)}, {s('number', d)})",
            lambda d: f"bround({s('number', d)}, 1)",
            lambda d: f"extract(SECOND FROM {s('time', d)})",
            lambda d: f"pmod({s('number', d)}, {s('number', d)})",
            lambda d: f"zeroifnull({s('number', d)})",
            lambda d: f"positive({s('number', d)})",
        )

    def _text(self, depth: int) -> Text:
        if depth <= 0 or self._rng.random() < 0.8:
            return super()._text(depth)
        s, rng = self._sql, self._rng
        return self._one(
            depth,
            lambda d: f"{rng.choice(['left', 'right'])}({s('text', d)}, {rng.choice([0, 2, -1])})",
            lambda d: (
                f"{rng.choice(['lpad', 'rpad'])}({s('text', d)}, 5, {s(rng.choice(['text', 'bytes']), 0)})"
            ),
            lambda d: f"overlay({s('text', d)} PLACING {s('text', 0)} FROM 2)",
            lambda d: f"reverse({s(rng.choice(['text', 'integer', 'bytes', 'day']), d)})",
            lambda d: f"hex({s(rng.choice(['text', 'bytes', 'integer']), d)})",
            lambda d: f"array_join({s('list', d)}, ',')",
            lambda d: f"{rng.choice(['initcap', 'btrim', 'soundex', 'typeof'])}({s('text', d)})",
            lambda d: f"date_format({s('time', d)}, 'yyyy-MM')",
            lambda d: f"{s('record', d)}.b",
        )

    def _bool(self, depth: int) -> Text:
        if depth <= 0 or self._rng.random() < 0.9:
            return super()._bool(depth)
        s, kind = self._sql, self._rng.choice(["bytes", "list", "record"])
        left = self.of(kind, depth - 1).within(BIT_OR)
        if self._rng.random() < 0.5:
            return Text(
                f"{left} {self._rng.choice(['=', '<', '<=>'])} {self.of(kind, 0).within(BIT_OR)}", COMPARISON
            )
        return self._one(
            depth,
            lambda d: f"array_contains({s('list', d)}, {s('integer', 0)})",
            lambda d: f"exists({s('list', d)}, e -> e > {s('integer', 0)})",
            lambda d: f"isnull({s('map', d)})",
            lambda d: f"arrays_overlap({s('list', d)}, {s('list', 0)})",
        )

    def _bytes(self, depth: int) -> Text:
        if depth <= 0:
            return self._pick(
                "CAST(s AS BINARY)", "CAST('ab' AS BINARY)", "unhex('ff00')", "CAST(NULL AS BINARY)"
            )
        s, rng = self._sql, self._rng
        return self._one(
            depth,
            lambda d: f"CAST({s('text', d)} AS BINARY)",
            lambda d: f"unhex(hex({s('text', d)}))",
            lambda d: f"left({s('bytes', d)}, 2)",
            lambda d: f"substring({s('bytes', d)}, {rng.choice([-2, 0, 1])}, 2)",
            lambda d: f"{rng.choice(['lpad', 'rpad'])}({s('bytes', d)}, 3)",
            lambda d: f"lpad({s('bytes', d)}, 5, {s('bytes', d)})",
            lambda d: f"concat({s('bytes', d)}, {s('bytes', d)})",
            lambda d: f"overlay({s('bytes', d)} PLACING {s('bytes', d)} FROM 2)",
            lambda d: self._choice("bytes", d).sql,
        )

    def _list(self, depth: int) -> Text:
        if depth <= 0:
            return self._pick("ar", "array(1, 2)", "array(i)", "array(j, NULL)")
        s, rng = self._sql, self._rng
        return self._one(
            depth,
            lambda d: f"array({s('integer', d)}, {s('integer', d)})",
            lambda d: f"transform({s('list', d)}, e -> {rng.choice(['e + 1', 'e * i', '-e', 'e % 2'])})",
            lambda d: f"filter({s('list', d)}, e -> e > {s('integer', 0)})",
            lambda d: (
                f"{rng.choice(['sort_array', 'array_distinct', 'reverse', 'array_compact'])}({s('list', d)})"
            ),
            lambda d: (
                f"{rng.choice(['array_union', 'array_except', 'array_intersect'])}({s('list', d)}, {s('list', d)})"
            ),
            lambda d: f"concat({s('list', d)}, {s('list', d)})",
            lambda d: f"{rng.choice(['array_append', 'array_remove'])}({s('list', d)}, {s('integer', 0)})",
            lambda d: f"array_repeat({s('integer', d)}, 2)",
            lambda d: f"map_values({s('map', d)})",
            lambda d: f"IF({s('bool', d)}, {s('list', d)}, {s('list', d)})",
            lambda d: f"coalesce({s('list', d)}, {s('list', d)})",
        )

    def _record(self, depth: int) -> Text:
        s = self._sql
        if depth <= 0:
            return self._pick("named_struct('a', i, 'b', s)", "named_struct('a', j, 'b', u)")
        return self._one(
            depth,
            lambda d: f"named_struct('a', {s('integer', d)}, 'b', {s('text', d)})",
            lambda d: f"struct({s('number', d)} AS a, {s('text', d)} AS b)",
            lambda d: f"IF({s('bool', d)}, {s('record', d)}, NULL)",
            lambda d: f"coalesce({s('record', d)}, {s('record', d)})",
            lambda d: f"from_json({s('text', d)}, 'a INT, b STRING')",
        )

    def _map(self, depth: int) -> Text:
        s = self._sql
        if depth <= 0:
            return self._pick("map('a', i)", "map('a', 1, 'b', j)")
        return self._one(
            depth,
            lambda d: f"map('a', {s('integer', d)})",
            lambda d: f"map_filter({s('map', d)}, (k, v) -> v > {s('integer', 0)})",
            lambda d: f"map_from_arrays(array('a'), array({s('integer', d)}))",
            lambda d: f"IF({s('bool', d)}, {s('map', d)}, NULL)",
        )


TEXT_MAX = 400


def texts(
    rng: random.Random, number: int, depth: int, kinds: type[Expressions] = WideExpressions
) -> list[str]:
    """So many different expressions. In: depth  at most so many operators within one another."""
    make, made = kinds(rng), dict[str, None]()
    while len(made) < number:
        text = make.any(rng.randint(1, depth))
        if len(text) <= TEXT_MAX:
            made[text] = None
    return [*made]


def fixed() -> list[str]:
    """Functions of which only the type is known, and forms that chance meets seldom: the lines of `fixed.txt`."""
    return Path(__file__).with_name("fixed.txt").read_text(encoding="utf-8").splitlines()
