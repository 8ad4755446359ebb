"""From a syntax tree to a term.

Law: a term is made only of what the differential test has compared with Spark. None means that only Spark knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from headrace.expressions import arithmetic, literals, logic, moments, nested, texts
from headrace.expressions.casts import cast
from headrace.expressions.functions import call
from headrace.expressions.term import Rows, Term, literal, null_of
from headrace.expressions.types import BOOLEAN, DATE, NULL, STRING, TIMESTAMP

_COMPARES = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_PREDICATES = (exp.Like, exp.ILike, exp.RegexpLike, exp.In, exp.Between, exp.Is, exp.Not, exp.Escape)
Columns = Mapping[str, pa.DataType]
Binder = Callable[[exp.Expr, Columns], "Term | None"]


def term_of(tree: exp.Expr, columns: Columns) -> Term | None:
    """The term of a syntax tree; None: only Spark knows its type.

    In: columns  the types of the columns by their names in lower case
    """
    try:
        return bind(tree, columns)
    except (AttributeError, IndexError, ValueError, RecursionError):
        # An odd call gives a tree of sqlglot with parts missing.
        return None


def bind(tree: exp.Expr, columns: Columns) -> Term | None:
    """As `term_of`, of a part of a tree; of an odd call it may raise."""
    if _is_read_otherwise(tree):
        return Term(BOOLEAN) if isinstance(tree, _COMPARES) else None
    binder = _BINDERS.get(type(tree))
    return binder(tree, columns) if binder is not None else call(tree, columns, bind)


def _is_read_otherwise(tree: exp.Expr) -> bool:
    """True if Spark's grammar may bind the operators of a text in another way than sqlglot's; parentheses end the doubt.

    In Spark all comparisons bind alike and from the left, and tighter than LIKE, IN, BETWEEN, IS and NOT; `||` binds as `+`.
    """
    left, right = tree.args.get("this"), tree.args.get("expression")
    if isinstance(tree, _COMPARES):
        return isinstance(left, _PREDICATES) or isinstance(right, (*_PREDICATES, *_COMPARES))
    if isinstance(tree, _PREDICATES):
        inner = [each for each in tree.args.values() if isinstance(each, exp.Expr)]
        return any(isinstance(each, (*_PREDICATES, *_COMPARES)) for each in inner) and not isinstance(
            tree, exp.Not
        )
    if isinstance(tree, exp.DPipe):
        return isinstance(left, exp.Add | exp.Sub) or isinstance(right, exp.Add | exp.Sub)
    if isinstance(tree, exp.BitwiseAnd | exp.BitwiseOr | exp.BitwiseXor):
        return isinstance(left, exp.Binary) or isinstance(right, exp.Binary)
    return False


def _column(tree: exp.Expr, columns: Columns) -> Term | None:
    assert isinstance(tree, exp.Column)
    return _path([part.name for part in tree.parts], columns)


def _path(names: list[str], columns: Columns) -> Term | None:
    name = names[0].lower()
    if name not in columns:
        return None

    def evaluate(rows: Rows) -> pa.Array:
        return rows.columns[name]

    term: Term | None = Term(columns[name], evaluate)
    for field in names[1:]:
        term = nested.field_of(term, field) if term is not None else None
    return term


def _dot(tree: exp.Expr, columns: Columns) -> Term | None:
    of = bind(tree.this, columns)
    name = tree.expression
    return nested.field_of(of, name.name) if of is not None and isinstance(name, exp.Identifier) else None


def _literal(tree: exp.Expr, columns: Columns) -> Term | None:
    text = str(tree.this)
    return literal(text, STRING) if tree.args.get("is_string") else literals.number(text)


def _cast(tree: exp.Expr, columns: Columns) -> Term | None:
    to, of = literals.type_named(tree.args["to"]), bind(tree.this, columns)
    if to is None or of is None:
        return None if to is None else Term(to)
    if of.is_constant and isinstance(tree.this, exp.Literal):
        is_text = isinstance(of.constant, str)
        if is_text and isinstance(tree, exp.Cast) and to in (DATE, TIMESTAMP):
            return literals.moment(of.constant, to) or Term(to)
        if not is_text and isinstance(tree, exp.TryCast):  # sqlglot makes a cast of 1L
            return literals.suffixed(of, to) or cast(of, to) or Term(to)
    return cast(of, to, is_try=bool(tree.args.get("safe"))) or Term(to)


def _concat(tree: exp.Expr, columns: Columns) -> Term | None:
    """Sqlglot makes two texts of one with a doubled quote, which Spark reads as one quote: it alone knows such a text."""
    return _all(texts.concat)(tree, columns) if tree.args.get("safe") else Term(STRING)


def _terms(trees: Iterable[Any], columns: Columns) -> list[Term] | None:
    """The terms of all trees; None: one of them is not known."""
    terms = [bind(tree, columns) for tree in trees]
    known = [term for term in terms if term is not None]
    return known if len(known) == len(terms) else None


def _of(names: tuple[str, ...], compute: Callable[..., Term | None], otherwise: Term | None = None) -> Binder:
    """Computes a term from the parts of a tree with these names. In: otherwise  the term if a part is not known."""

    def binder(tree: exp.Expr, columns: Columns) -> Term | None:
        terms = _terms((tree.args.get(name) for name in names), columns)
        return (compute(*terms) if terms is not None else None) or otherwise

    return binder


_one = partial(_of, ("this",))
_two = partial(_of, ("this", "expression"))
# A condition is BOOLEAN, whatever is in it; its value is known if both sides are.
_condition = partial(_two, otherwise=Term(BOOLEAN))


def _unless(compare: Callable[[Term, Term], Term | None]) -> Binder:
    return _condition(lambda left, right: (same := compare(left, right)) and logic.negated(same))


def _all(compute: Callable[[list[Term]], Term | None]) -> Binder:
    def binder(tree: exp.Expr, columns: Columns) -> Term | None:
        parts = [tree.args.get("this"), *tree.expressions]
        terms = _terms((part for part in parts if isinstance(part, exp.Expr)), columns)
        return compute(terms) if terms is not None else None

    return binder


def _arithmetic(sign: str) -> Binder:
    plain = _two(partial(arithmetic.arithmetic, sign))

    def binder(tree: exp.Expr, columns: Columns) -> Term | None:
        by = _interval(tree.expression)
        if by is None:
            return plain(tree, columns)
        of = bind(tree.this, columns)
        number, unit = by
        return moments.shifted(of, number if sign == "+" else -number, unit) if of is not None else None

    return binder


def _interval(tree: exp.Expr) -> tuple[int, str] | None:
    if (
        not isinstance(tree, exp.Interval)
        or not isinstance(tree.this, exp.Literal)
        or tree.args.get("unit") is None
    ):
        return None
    text, unit = str(tree.this.this), str(tree.args["unit"].name).upper()
    return (int(text), unit.removesuffix("S")) if text.lstrip("-").isdigit() else None


def _like(tree: exp.Expr, columns: Columns) -> Term | None:
    made = _condition(texts.like)(tree, columns)
    return logic.negated(made) if made is not None and tree.args.get("negate") else made


def _is(tree: exp.Expr, columns: Columns) -> Term | None:
    of, what = bind(tree.this, columns), tree.expression
    if of is None:
        return Term(BOOLEAN)
    if isinstance(what, exp.Null):
        return logic.is_null(of)
    if isinstance(what, exp.Boolean):
        return logic.null_safe_equal(of, literal(bool(what.this), BOOLEAN))
    return Term(BOOLEAN)


def _in(tree: exp.Expr, columns: Columns) -> Term | None:
    of, values = bind(tree.this, columns), _terms(tree.expressions, columns)
    return (logic.is_in(of, values) if of is not None and values else None) or Term(BOOLEAN)


def _between(of: Term, low: Term, high: Term) -> Term | None:
    above, below = logic.comparison(">=", of, low), logic.comparison("<=", of, high)
    return logic.both(above, below) if above and below else None


def _case(tree: exp.Expr, columns: Columns) -> Term | None:
    subject = tree.args.get("this")
    branches = []
    for each in tree.args["ifs"]:
        when, then = bind(each.this, columns), bind(each.args["true"], columns)
        if subject is not None and when is not None:
            of = bind(subject, columns)
            when = logic.comparison("=", of, when) if of is not None else None
        branches.append((when or Term(BOOLEAN), then))
    default = tree.args.get("default")
    otherwise = bind(default, columns) if default is not None else null_of(NULL)
    return _chosen(branches, otherwise)


def _if(tree: exp.Expr, columns: Columns) -> Term | None:
    default = tree.args.get("false")
    when, then = bind(tree.this, columns), bind(tree.args["true"], columns)
    otherwise = bind(default, columns) if default is not None else null_of(NULL)
    return _chosen([(when or Term(BOOLEAN), then)], otherwise)


def _chosen(branches: list[tuple[Term, Term | None]], otherwise: Term | None) -> Term | None:
    known = [(when, then) for when, then in branches if then is not None]
    if len(known) < len(branches) or otherwise is None:
        return None
    return logic.case(known, otherwise)


def _negative(tree: exp.Expr, columns: Columns) -> Term | None:
    of = tree.this
    if isinstance(of, exp.Literal) and not of.args.get("is_string"):
        least, number = literals.least_integer(str(of.this)), literals.number(str(of.this))
        return least or (literal(-number.constant, number.type) if number is not None else None)
    return _one(arithmetic.negative)(tree, columns)


_BINDERS: Mapping[type[exp.Expr], Binder] = {
    exp.Column: _column,
    exp.Identifier: lambda tree, columns: _path([tree.name], columns),  # a parameter of a lambda
    exp.Dot: _dot,
    exp.Paren: lambda tree, columns: bind(tree.this, columns),
    exp.Alias: lambda tree, columns: bind(tree.this, columns),
    exp.Literal: _literal,
    exp.Boolean: lambda tree, _: literal(bool(tree.this), BOOLEAN),
    exp.Null: lambda *_: null_of(NULL),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Div: _arithmetic("/"),
    exp.Mod: _arithmetic("%"),
    exp.IntDiv: _two(arithmetic.whole_quotient),
    exp.Neg: _negative,
    exp.Abs: _one(arithmetic.absolute),
    exp.EQ: _condition(partial(logic.comparison, "=")),
    exp.NEQ: _unless(partial(logic.comparison, "=")),
    exp.LT: _condition(partial(logic.comparison, "<")),
    exp.LTE: _condition(partial(logic.comparison, "<=")),
    exp.GT: _condition(partial(logic.comparison, ">")),
    exp.GTE: _condition(partial(logic.comparison, ">=")),
    exp.NullSafeEQ: _condition(logic.null_safe_equal),
    exp.NullSafeNEQ: _unless(logic.null_safe_equal),
    exp.And: _condition(logic.both),
    exp.Or: _condition(logic.either),
    exp.Not: _one(logic.negated, otherwise=Term(BOOLEAN)),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _of(("this", "low", "high"), _between, Term(BOOLEAN)),
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _all(logic.coalesce),
    exp.Nullif: _two(logic.null_if),
    exp.IsNan: _one(logic.is_nan, otherwise=Term(BOOLEAN)),
    exp.Greatest: _all(partial(logic.extreme, greatest=True)),
    exp.Least: _all(partial(logic.extreme, greatest=False)),
    exp.Upper: _one(texts.upper),
    exp.Lower: _one(texts.lower),
    exp.Length: _one(texts.length),
    exp.Concat: _concat,
    exp.DPipe: _two(lambda left, right: texts.concat([left, right])),
    exp.StartsWith: _condition(lambda of, part: texts.matches(pc.starts_with, of, part)),
    exp.EndsWith: _condition(lambda of, part: texts.matches(pc.ends_with, of, part)),
    exp.Contains: _condition(lambda of, part: texts.matches(pc.match_substring, of, part)),
    exp.Like: _like,
}
