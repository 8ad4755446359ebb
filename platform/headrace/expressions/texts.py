"""Functions of texts.

Law: a text is counted in code points; an argument that is null makes the result null, where nothing else is written.
Source: Spark 4.1, `stringExpressions.scala`, `UTF8String`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_list

from headrace.expressions.casts import cast
from headrace.expressions.term import Datum, SparkNeededError, Term, lifted, on_arrays
from headrace.expressions.types import BINARY, BOOLEAN, INT, NULL, STRING, is_atomic

NEW_PAIRS = "\u019b\u0264"  # letters that have capitals since Unicode 16


def as_text(term: Term) -> Term | None:
    """An argument that has to be a text, as Spark casts it."""
    if term.type == BINARY or not is_atomic(term.type):
        return Term(STRING) if term.type == BINARY else None
    return cast(term, STRING)


def upper(term: Term) -> Term | None:
    """`upper(term)`."""
    return _in_case(term, pc.ascii_upper, str.upper)


def lower(term: Term) -> Term | None:
    """`lower(term)`."""
    return _in_case(term, pc.ascii_lower, str.lower)


def _in_case(term: Term, of_ascii: pc.Function, of_others: Callable[[str], str]) -> Term | None:
    text = as_text(term)

    def compute(value: pa.Array) -> pa.Array:
        plain = pc.string_is_ascii(value)
        if pc.all(plain, skip_nulls=True, min_count=0).as_py():
            return of_ascii(value)
        rare = np.flatnonzero(np.asarray(pc.invert(plain).fill_null(False)))
        others = value.take(pa.array(rare)).to_pylist()
        if not all(map(_has_one_case_each, others)):
            raise SparkNeededError
        changed = pa.array([of_others(text) for text in others], STRING)
        mask = pc.invert(plain).fill_null(False)
        return pc.replace_with_mask(of_ascii(pc.if_else(plain, value, "")), mask, changed)

    return None if text is None else on_arrays(STRING, compute, text)


def _has_one_case_each(text: str) -> bool:
    """True if both languages agree on a text, and if the order of two changes of case does not matter.

    Java's Unicode is newer than Python's. And Spark reads upper(lower(x)) as upper(x), also over two steps.
    """
    up, low = text.upper(), text.lower()
    is_known = not any(letter in NEW_PAIRS or unicodedata.category(letter) == "Cn" for letter in text)
    return is_known and up == low.upper() and low == up.lower()


def length(term: Term) -> Term | None:
    """`length(term)`: code points of a text, bytes of a BINARY."""
    if term.type == BINARY:
        return lifted(INT, pc.binary_length, term)
    text = as_text(term)
    return None if text is None else lifted(INT, pc.utf8_length, text)


def trimmed(term: Term, side: str | None) -> Term | None:
    """`trim`, `ltrim`, `rtrim` of spaces. In: side  "LEADING", "TRAILING" or None."""
    text = as_text(term)
    trim = {"LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}.get(side or "", pc.utf8_trim)
    return None if text is None else lifted(STRING, lambda value: trim(value, characters=" "), text)


def substring(term: Term, start: Term, size: Term | None) -> Term | None:
    """`substring(text, start, size)`; positions count from 1, or from the end if they are negative."""
    if term.type == BINARY:
        return Term(BINARY)
    text = as_text(term)
    if text is None:
        return None
    numbers = [start] if size is None else [start, size]
    if not all(each.type == INT and each.is_constant and each.constant is not None for each in numbers):
        return Term(STRING)
    first, count = start.constant, None if size is None else size.constant
    if first == -(1 << 31):  # Spark adds the greatest length to it, and ends before the last letter
        return Term(STRING)

    def compute(value: Datum) -> Datum:
        if count is not None and count <= 0:
            return pc.utf8_slice_codeunits(value, 0, 0)
        begin = first - 1 if first > 0 else first
        end = None if count is None else begin + count
        if first < 0 and end is not None and end >= 0:
            end = None
        return pc.utf8_slice_codeunits(value, begin, end)

    return lifted(STRING, compute, text)


def concat(terms: Sequence[Term]) -> Term | None:
    """`concat(…)` and `||` of texts."""
    if not terms:
        return None
    if all(term.type == terms[0].type and (term.type == BINARY or is_list(term.type)) for term in terms):
        return Term(terms[0].type)
    texts = [as_text(term) for term in terms]
    if any(text is None for text in texts):
        return None
    return lifted(
        STRING, lambda *values: pc.binary_join_element_wise(*values, ""), *(t for t in texts if t is not None)
    )


def concat_with(separator: Term, terms: Sequence[Term]) -> Term | None:
    """`concat_ws(separator, …)`: nulls are left out."""
    texts = [as_text(term) for term in (separator, *terms)]
    if any(text is None for text in texts) or any(term.type == NULL for term in terms):
        return Term(STRING)
    if not terms:
        return Term(STRING)

    def compute(mark: pa.Array, *values: pa.Array) -> pa.Array:
        line = values[0]
        for value in values[1:]:
            longer = pc.binary_join_element_wise(line, value, mark)
            line = pc.coalesce(pc.coalesce(longer, line), value)
        return pc.if_else(mark.is_null(), pa.scalar(None, STRING), line.fill_null(""))

    return on_arrays(STRING, compute, *(text for text in texts if text is not None))


def split_part(term: Term, delimiter: Term, number: Term) -> Term | None:
    """`split_part(text, delimiter, number)`: empty where there is no such part."""
    text = as_text(term)
    if text is None:
        return None
    known = isinstance(delimiter.constant, str) and delimiter.constant and isinstance(number.constant, int)
    if not known or number.constant == 0 or number.type != INT:
        return Term(STRING)
    mark, wanted = delimiter.constant, number.constant

    def compute(value: pa.Array) -> pa.Array:
        parts = pc.split_pattern(value, mark)
        sizes = pc.list_value_length(parts).cast(pa.int64())
        at = pc.add(sizes, wanted) if wanted < 0 else pa.array(np.full(len(value), wanted - 1), pa.int64())
        there = np.asarray(pc.and_(pc.greater_equal(at, 0), pc.less(at, sizes)).fill_null(False))
        places = np.asarray(parts.offsets)[:-1].astype(np.int64) + np.asarray(at.fill_null(0))
        chosen = parts.values.take(pa.array(np.where(there, places, 0), mask=~there))
        return pc.if_else(value.is_null(), pa.scalar(None, STRING), chosen.fill_null(""))

    return on_arrays(STRING, compute, text)


def matches(kind: pc.Function, term: Term, part: Term) -> Term | None:
    """`startswith`, `endswith`, `contains` with a literal part."""
    text, other = as_text(term), as_text(part)
    if text is None or other is None or BINARY in (term.type, part.type):
        return Term(BOOLEAN)
    if not isinstance(part.constant, str):
        return Term(BOOLEAN)
    pattern = part.constant
    return lifted(BOOLEAN, lambda value: kind(value, pattern), text)


def like(term: Term, pattern: Term) -> Term | None:
    """`term LIKE pattern`, with the escape character `\\`."""
    text = as_text(term)
    if text is None or as_text(pattern) is None:
        return None
    if not isinstance(pattern.constant, str) or "\\" in pattern.constant:
        return Term(BOOLEAN)
    wanted = pattern.constant
    return lifted(BOOLEAN, lambda value: pc.match_like(value, wanted), text)


def replaced(term: Term, old: Term, new: Term) -> Term | None:
    """`replace(text, old, new)` with literals."""
    text = as_text(term)
    if text is None:
        return None
    if not (isinstance(old.constant, str) and isinstance(new.constant, str) and old.constant):
        return Term(STRING)
    one, other = old.constant, new.constant
    return lifted(STRING, lambda value: pc.replace_substring(value, one, other), text)
