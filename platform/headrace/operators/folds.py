"""Fold an array from the left inside Spark, gathering what some of the steps find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column as Expr

    State = Mapping[str, Expr]
    Step = Callable[[Expr, Expr], tuple[State, Expr, Expr]]

CHUNK_MIN = 64


def in_chunks(records: Expr) -> Expr:
    """An array in pieces, for a fold in two levels.

    A list that grows one by one is copied each time; in two levels, of about the square root each, that stays cheap
    for an array of a hundred thousand records.
    """
    chunk = F.greatest(F.lit(CHUNK_MIN), F.ceil(F.sqrt(F.size(records))).cast("int"))
    starts = F.sequence(F.lit(1), F.size(records), chunk)
    return F.transform(starts, lambda start: F.slice(records, start, chunk))


def found_in(records: Expr, begun: State, step: Step, found_type: str) -> Expr:
    """What a left fold finds on its way, in order.

    In:     records     an array
            begun       the state before the first record, by name; each of a definite type
            step        from state and record: the state after it, whether it finds something, and what
            found_type  of what is found
    Out:    an array of `found_type`
    """
    none, no_lists = F.array().cast(f"array<{found_type}>"), F.array().cast(f"array<array<{found_type}>>")

    def through_record(acc: Expr, record: Expr) -> Expr:
        after, finds, item = step(acc, record)
        found = F.when(finds, F.array_append(acc["__found"], item.cast(found_type))).otherwise(acc["__found"])
        return _state(after, found)

    def through_chunk(done: Expr, chunk: Expr) -> Expr:
        return F.aggregate(
            chunk,
            _state({name: done[name] for name in begun}, none),
            through_record,
            lambda end: _state(
                {name: end[name] for name in begun}, F.concat(done["__found"], F.array(end["__found"]))
            ),
        )

    folded = F.aggregate(
        in_chunks(records), _state(begun, no_lists), through_chunk, lambda end: F.flatten(end["__found"])
    )
    return F.when(F.size(records) > 0, folded).otherwise(none)


def _state(state: State, found: Expr) -> Expr:
    return F.struct(*(value.alias(name) for name, value in state.items()), found.alias("__found"))
