"""Random expressions as text, with as few parentheses as their grammar needs, so that precedence is compared, too."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

# How tightly the operators of Spark's grammar bind: more is tighter.
OR, AND, NOT, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SUM, PRODUCT, UNARY, ATOM = range(11)


@dataclass(frozen=True)
class Text:
    """An expression. In: binds  how tightly its outermost operator does."""

    sql: str
    binds: int

    def within(self, binds: int) -> str:
        """As an operand of an operator that binds so tightly."""
        return self.sql if self.binds >= binds else f"({self.sql})"


def _minus(of: Text) -> Text:
    operand = of.within(ATOM)
    return Text(f"-({operand})" if operand.startswith("-") else f"-{operand}", UNARY)


class Expressions:
    """Random expressions of a kind of type: "int", "number", "text", "bool", "time", "day"."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def any(self, depth: int) -> str:
        """An expression of any kind."""
        kind = self._rng.choice(
            ["integer", "number", "number", "text", "text", "bool", "bool", "bool", "time", "day"]
        )
        return self.of(kind, depth).sql

    def of(self, kind: str, depth: int) -> Text:
        """An expression of a kind."""
        make: Callable[[int], Text] = getattr(self, f"_{kind}")
        return make(depth)

    def _pick(self, *texts: str) -> Text:
        return Text(self._rng.choice(texts), ATOM)

    def _infix(self, sign: str, binds: int, kind: str, depth: int) -> Text:
        left, right = self.of(kind, depth - 1), self.of(kind, depth - 1)
        return Text(f"{left.within(binds)} {sign} {right.within(binds + 1)}", binds)

    def _call(self, name: str, *kinds: str, depth: int) -> Text:
        return Text(f"{name}({', '.join(self.of(kind, depth - 1).sql for kind in kinds)})", ATOM)

    def _choice(self, kind: str, depth: int) -> Text:
        rng = self._rng
        one, other = self.of(kind, depth - 1).sql, self.of(kind, depth - 1).sql
        when = self._bool(depth - 1).sql
        forms = [
            f"CASE WHEN {when} THEN {one} ELSE {other} END",
            f"CASE WHEN {when} THEN {one} END",
            f"CASE {self.of(kind, depth - 1).sql} WHEN {self.of(kind, depth - 1).sql} THEN {one} ELSE {other} END",
            f"IF({when}, {one}, {other})",
            f"coalesce({one}, {other})",
            f"nvl({one}, {other})",
            f"nullif({one}, {other})",
            f"greatest({one}, {other})",
            f"least({one}, {other}, {one})",
            f"nvl2({self.of('number', depth - 1).sql}, {one}, {other})",
        ]
        return Text(rng.choice(forms), ATOM)

    def _integer(self, depth: int) -> Text:
        rng = self._rng
        if depth <= 0:
            return self._pick(
                "t",
                "h",
                "i",
                "j",
                "l",
                "st.n",
                "ST.N",
                "0",
                "1",
                "2",
                "-1",
                "7",
                "2147483647",
                "2147483648",
                "3L",
                "NULL",
                "ar[0]",
            )
        forms: list[Callable[[], Text]] = [
            lambda: self._infix(rng.choice("+-"), SUM, "integer", depth),
            lambda: self._infix(rng.choice(["*", "%", "DIV"]), PRODUCT, "integer", depth),
            lambda: _minus(self.of("integer", depth - 1)),
            lambda: self._choice("integer", depth),
            lambda: self._call("abs", "integer", depth=depth),
            lambda: self._call(rng.choice(["length", "char_length"]), "text", depth=depth),
            lambda: self._call(
                rng.choice(
                    [
                        "year",
                        "month",
                        "day",
                        "dayofyear",
                        "quarter",
                        "dayofweek",
                        "weekday",
                        "weekofyear",
                        "dayofmonth",
                    ]
                ),
                rng.choice(["time", "day"]),
                depth=depth,
            ),
            lambda: self._call(rng.choice(["hour", "minute", "second"]), "time", depth=depth),
            lambda: Text(
                f"extract({rng.choice(['YEAR', 'MONTH', 'DAY', 'HOUR', 'MINUTE', 'QUARTER', 'WEEK', 'DOY'])} FROM {self.of('time', depth - 1).sql})",
                ATOM,
            ),
            lambda: self._call("datediff", "day", "day", depth=depth),
            lambda: self._call(
                rng.choice(["unix_millis", "unix_seconds", "unix_micros"]), "time", depth=depth
            ),
            lambda: Text(
                f"CAST({self.of(rng.choice(['integer', 'number', 'bool']), depth - 1).sql} AS {rng.choice(['TINYINT', 'SMALLINT', 'INT', 'BIGINT'])})",
                ATOM,
            ),
            lambda: self._pick("size(ar)", "ar[1]"),
        ]
        return rng.choice(forms)()

    def _number(self, depth: int) -> Text:
        rng = self._rng
        if depth <= 0:
            return self._pick(
                "t",
                "i",
                "l",
                "f",
                "x",
                "y",
                "d",
                "w",
                "st.deep.v",
                "1",
                "0",
                "2.5",
                "1e3",
                "0.1",
                "1.5D",
                "-0.0D",
                "100",
                "NULL",
                "x",
                "y",
                "d",
            )
        forms: list[Callable[[], Text]] = [
            lambda: self._infix(rng.choice("+-"), SUM, "number", depth),
            lambda: self._infix(rng.choice("*/%"), PRODUCT, "number", depth),
            lambda: self._infix("*", PRODUCT, "number", depth),
            lambda: _minus(self.of("number", depth - 1)),
            lambda: self._choice("number", depth),
            lambda: self._call("abs", "number", depth=depth),
            lambda: self._call(rng.choice(["ceil", "floor", "round", "sqrt"]), "number", depth=depth),
            lambda: Text(
                f"round({self.of(rng.choice(['number', 'integer']), depth - 1).sql}, {rng.choice([2, 1, 3, 0, 8, -1, -2, -5])})",
                ATOM,
            ),
            lambda: Text(
                f"CAST({self.of(rng.choice(['integer', 'number']), depth - 1).sql} AS {rng.choice(['FLOAT', 'DOUBLE', 'DECIMAL(12,3)', 'DECIMAL(38,2)', 'DOUBLE'])})",
                ATOM,
            ),
            lambda: self._integer(depth),
        ]
        return rng.choice(forms)()

    def _text(self, depth: int) -> Text:
        rng = self._rng
        if depth <= 0:
            return self._pick(
                "s",
                "u",
                "s",
                "u",
                "st.id",
                "`st`.Id",
                "'x'",
                "''",
                "'a'",
                "'it\\'s'",
                '"dq"',
                "'%'",
                "NULL",
                "'é'",
            )
        forms: list[Callable[[], Text]] = [
            lambda: self._call(rng.choice(["upper", "lower", "ucase", "lcase"]), "text", depth=depth),
            lambda: self._call(rng.choice(["trim", "ltrim", "rtrim"]), "text", depth=depth),
            lambda: Text(
                f"{rng.choice(['substring', 'substr'])}({self.of('text', depth - 1).sql}, {rng.choice([-7, -3, -1, 0, 1, 2, 5])}, {rng.choice([-1, 0, 1, 2, 100])})",
                ATOM,
            ),
            lambda: Text(
                f"substring({self.of('text', depth - 1).sql}, {rng.choice([-3, 0, 1, 2, 50])})", ATOM
            ),
            lambda: self._call("concat", "text", rng.choice(["text", "integer", "bool"]), depth=depth),
            lambda: self._infix("||", SUM, "text", depth),
            lambda: Text(
                f"concat_ws({rng.choice(['s', repr(','), repr('')])}, {self.of('text', depth - 1).sql}, {self.of('text', depth - 1).sql})",
                ATOM,
            ),
            lambda: Text(
                f"split_part({self.of('text', depth - 1).sql}, {rng.choice([repr('.'), repr(','), repr('a'), 's'])}, {rng.choice([1, 2, 3, -1, -2])})",
                ATOM,
            ),
            lambda: Text(
                f"replace({self.of('text', depth - 1).sql}, 'a', {rng.choice([repr('bb'), repr('')])})", ATOM
            ),
            lambda: Text(f"CAST({self.of(rng.choice(['integer', 'bool']), depth - 1).sql} AS STRING)", ATOM),
            lambda: self._choice("text", depth),
            lambda: self._pick("s", "u"),
        ]
        return rng.choice(forms)()

    def _bool(self, depth: int) -> Text:
        rng = self._rng
        if depth <= 0:
            return self._pick("b", "c", "TRUE", "FALSE", "b", "c", "NULL")
        kind = rng.choice(["integer", "number", "number", "text", "time", "day", "bool"])
        forms: list[Callable[[], Text]] = [
            lambda: self._infix("AND", AND, "bool", depth),
            lambda: self._infix("OR", OR, "bool", depth),
            lambda: Text(f"NOT {self.of('bool', depth - 1).within(NOT)}", NOT),
            lambda: self._infix(
                rng.choice(["=", "<>", "<", "<=", ">", ">=", "<=>", "!=", "=="]), COMPARISON, kind, depth
            ),
            lambda: self._infix(rng.choice(["=", "<", ">=", "<=>"]), COMPARISON, kind, depth),
            lambda: Text(
                f"{self.of(kind, depth - 1).within(BIT_OR)} IS {rng.choice(['', 'NOT '])}NULL", COMPARISON
            ),
            lambda: Text(
                f"{self.of('bool', depth - 1).within(BIT_OR)} IS {rng.choice(['TRUE', 'FALSE', 'NOT TRUE'])}",
                COMPARISON,
            ),
            lambda: Text(
                f"{self.of(kind, depth - 1).within(BIT_OR)} {rng.choice(['', 'NOT '])}IN ({self.of(kind, depth - 1).sql}, {self.of(kind, 0).sql}, {self.of(kind, 0).sql})",
                COMPARISON,
            ),
            lambda: Text(
                f"{self.of(kind, depth - 1).within(BIT_OR)} {rng.choice(['', 'NOT '])}BETWEEN {self.of(kind, depth - 1).within(BIT_OR)} AND {self.of(kind, 0).within(BIT_OR)}",
                COMPARISON,
            ),
            lambda: Text(
                f"{self.of('text', depth - 1).within(BIT_OR)} {rng.choice(['', 'NOT '])}LIKE {rng.choice(['%', 'a%', '%b', '_', '%a%', 'a_b', '', 'line%', '%é%', '__%'])!r}",
                COMPARISON,
            ),
            lambda: Text(
                f"{rng.choice(['startswith', 'endswith', 'contains'])}({self.of('text', depth - 1).sql}, {rng.choice([repr('a'), repr(''), repr('é'), 's'])})",
                ATOM,
            ),
            lambda: self._call(rng.choice(["isnull", "isnotnull"]), kind, depth=depth),
            lambda: self._call("isnan", "number", depth=depth),
            lambda: self._choice("bool", depth),
        ]
        return rng.choice(forms)()

    def _time(self, depth: int) -> Text:
        rng = self._rng
        if depth <= 0:
            return self._pick("ts", "at", "ts", "TIMESTAMP '2026-11-28 00:00:00'", "NULL")
        forms: list[Callable[[], Text]] = [
            lambda: Text(
                f"date_trunc('{rng.choice(['year', 'quarter', 'month', 'week', 'day', 'hour', 'minute', 'second', 'MILLISECOND'])}', {self.of('time', depth - 1).sql})",
                ATOM,
            ),
            lambda: Text(
                f"{self.of('time', depth - 1).within(SUM)} {rng.choice('+-')} INTERVAL {rng.choice(['1', '30', '90'])} {rng.choice(['SECOND', 'MINUTES', 'HOUR', 'DAYS'])}",
                SUM,
            ),
            lambda: Text(
                f"{rng.choice(['timestamp_millis', 'timestamp_seconds', 'timestamp_micros'])}({rng.choice(['i', 't', '0', '1764288000'])})",
                ATOM,
            ),
            lambda: self._choice("time", depth),
            lambda: Text(f"CAST({self.of('day', depth - 1).sql} AS TIMESTAMP)", ATOM),
            lambda: self._pick("ts", "at"),
        ]
        return rng.choice(forms)()

    def _day(self, depth: int) -> Text:
        rng = self._rng
        if depth <= 0:
            return self._pick("day", "day", "DATE '2024-02-29'", "NULL")
        forms: list[Callable[[], Text]] = [
            lambda: Text(f"CAST({self.of('time', depth - 1).sql} AS DATE)", ATOM),
            lambda: Text(f"to_date({self.of('time', depth - 1).sql})", ATOM),
            lambda: Text(
                f"{rng.choice(['date_add', 'date_sub'])}({self.of('day', depth - 1).sql}, {rng.choice(['1', '30', 't'])})",
                ATOM,
            ),
            lambda: self._choice("day", depth),
            lambda: self._pick("day"),
        ]
        return rng.choice(forms)()
