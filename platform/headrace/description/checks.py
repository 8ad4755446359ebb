"""Checks of what a node is given: its aggregates against the stream's columns, its owners and its sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from headrace.description.aggregates import NUMERIC, ORDERED, Aggregate
from headrace.description.printed_sink import printed_if_asked
from headrace.description.schema import fields_of_struct, is_numeric, refuse_reserved
from headrace.description.shape import Shape
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.sink import Sink

# What Headrace calls of a sink, and with what: see `description.sink`.
SINK_METHODS = {
    "deliver": ("rows", "delivery"),
    "identities": ("spark", "delivery"),
    "correct": ("rows", "delivery", "through"),
    "check": ("node",),
}


def checked_aggregates(
    shape: Shape, aggregates: Sequence[tuple[str, Aggregate]], taken: Sequence[str]
) -> tuple[tuple[str, Aggregate], ...]:
    """The aggregates with their columns as declared.

    In: `taken`, the output columns that they stand beside.
    Raises: DescriptionError for none at all, a repeated or reserved name, an unknown column, an unfit type.
    """
    if not aggregates:
        raise DescriptionError("aggregate: nothing to compute.", hint="Write .aggregate(n=hr.count()).")
    names = list(taken)
    checked = []
    for name, aggregate in aggregates:
        _check_name(name, names)
        names.append(name)
        checked.append((name, _checked(name, aggregate, shape)))
    return tuple(checked)


def _check_name(name: object, taken: Sequence[str]) -> None:
    if not isinstance(name, str) or not name.strip():
        raise DescriptionError(f"aggregate: {a_value(name)} is not a column name.")
    refuse_reserved([name], "aggregate")
    if name.lower() in [other.lower() for other in taken]:
        raise DescriptionError(
            f"aggregate: '{name}' is an output column already; columns are {listed(taken)}.",
            hint="Give the aggregate another name.",
        )


def _checked(name: str, aggregate: object, shape: Shape) -> Aggregate:
    if not isinstance(aggregate, Aggregate):
        raise DescriptionError(
            f"aggregate: {name}={a_value(aggregate)} is no aggregate.",
            hint=f"Write {name}=hr.count(), or hr.sum, hr.min, hr.max, hr.avg of a column.",
        )
    if aggregate.own is not None:
        what = f"aggregate: {name}={aggregate.own.named}"
        return replace(aggregate, inputs=tuple(shape.resolve(each, what) for each in aggregate.inputs))
    if aggregate.column is None:
        return aggregate
    what = f"aggregate: {name}={aggregate.kind}('{aggregate.column}')"
    column = shape.resolve(aggregate.column, what)
    if aggregate.by is None:
        _check_type(aggregate.kind, column, shape, what)
        return replace(aggregate, column=column)
    by = shape.resolve(aggregate.by, f"{what}: by")
    _check_order(by, shape, f"{what}: by")
    return replace(aggregate, column=column, by=by)


def _way_to_numbers(kind: str, column: str, type: str) -> str:
    """Give the hint for a column that is no number: a field in a STRUCT, a cast for a text."""
    if "<" not in type:
        return f"If it holds numbers: .with_column('{column}', 'try_cast({column} AS DOUBLE)')."
    fields = fields_of_struct(type, column) if type.startswith("STRUCT<") else ()
    part = f".{fields[0].name}" if fields else "['a key']" if type.startswith("MAP<") else "[0]"
    return f'Aggregate a number in it, such as hr.{kind}("{column}{part}").'


def _check_type(kind: str, column: str, shape: Shape, what: str) -> None:
    known = shape.type_of(column)
    if known is None:
        return
    if kind in NUMERIC and not is_numeric(known.type):
        raise DescriptionError(
            f"{what}: column '{column}' is {known.type}, not a number.",
            hint=_way_to_numbers(kind, column, known.type),
        )
    if kind == "approx_count_distinct" and "<" in known.type:
        raise DescriptionError(
            f"{what}: column '{column}' is {known.type}, and values of several parts are not estimated.",
            hint="Take one of the parts with .with_column(…), or write hr.count_distinct.",
        )
    if kind in ORDERED:
        _check_order(column, shape, what)


def _check_order(column: str, shape: Shape, what: str) -> None:
    known = shape.type_of(column)
    if known is not None and "MAP<" in known.type:
        raise DescriptionError(
            f"{what}: column '{column}' is {known.type}, and maps have no order.",
            hint="Take one of its entries with .with_column(…).",
        )


def checked_owners(owners: object) -> tuple[str, ...]:
    """The owners as a tuple; raises DescriptionError when one is neither an e-mail address nor a team."""
    if isinstance(owners, str) or not isinstance(owners, Sequence):
        raise DescriptionError(
            f"owners: {a_value(owners)} is not a list of owners.",
            hint="Write owners=('team:data', 'ann@example.com').",
        )
    for owner in owners:
        if not isinstance(owner, str) or not ("@" in owner or owner.startswith("team:")):
            raise DescriptionError(
                f"owners: {a_value(owner)} is neither an e-mail address nor a team.",
                hint="Write for example 'ann@example.com' or 'team:data'.",
            )
    return tuple(owners)


def checked_sinks(sinks: Sequence[Any]) -> tuple[Sink, ...]:
    """The sinks as a tuple.

    Raises: DescriptionError when one cannot deliver, has a method of the protocol with other parameters, or two have one
            name.
    """
    for sink in sinks:
        if isinstance(sink, type) or not callable(getattr(sink, "deliver", None)):
            raise DescriptionError(
                f"to: {a_value(sink)} is no sink.", hint="Write for example .to(hr.KafkaSink('totals'))."
            )
        name = getattr(sink, "name", None)
        if not isinstance(name, str) or not name:
            raise DescriptionError(
                f"to: {a_value(sink)} has no name."
                if name is None
                else f"to: the name of {a_value(sink)} is {a_value(name)}.",
                hint="Give the class a name by which the sinks of a node are told apart: name = 'alerts_mail'.",
            )
        for method, arguments in SINK_METHODS.items():
            _check_method(sink, method, arguments)
    names = [sink.name for sink in sinks]
    stores = [getattr(sink, "exclusive_store", None) for sink in sinks]
    for name, store in zip(names, stores, strict=True):
        if names.count(name) > 1:
            raise DescriptionError(f"to: two sinks are named '{name}'.", hint="Deliver to it once.")
        if store is not None and stores.count(store) > 1:
            raise DescriptionError(f"to: two sinks have the store of '{name}'.", hint="Deliver to it once.")
    return printed_if_asked(sinks)


def _check_method(sink: object, method: str, arguments: Sequence[str]) -> None:
    """Refuse a method of the protocol that does not take what Headrace passes. In: arguments  their names."""
    found = getattr(sink, method, None)
    if found is None:
        return
    called = f"{method}({', '.join(arguments)})"
    try:
        if callable(found):
            signature(found).bind(*arguments)
            return
    except ValueError:  # built into Python: it does not tell its parameters
        return
    except TypeError:
        pass
    raise DescriptionError(
        f"to: {a_value(sink)} has `{method}`, which cannot be called as {called}.",
        hint=f"Sinks have it with these parameters (see hr.Sink); rename `{method}` if it is for something else.",
    )
