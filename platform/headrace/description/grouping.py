"""Which columns a stream is grouped by, checked against what the stream has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.description.aggregate_columns import aggregate_column
from headrace.description.schema import Column, ResultColumn, quote, refuse_repeats, refuse_reserved
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.aggregates import Aggregate
    from headrace.description.relation import Relation
    from headrace.description.shape import Shape
    from headrace.description.stream import Stream

_FIXES = {
    "group_by": "Name the columns: .group_by('…').",
    "key_by": "Name the columns of the key: .key_by('…').",
    "distinct": "Name the columns of the id: .distinct('…', within='1 day').",
    "table": "A table has the record key: give each topic the same, hr.Topic(…, key='id STRING'), or the stream another: "
    ".key_by('…').table().",
}


On = str | Sequence[str] | Mapping[str, str]


def columns_on(on: On, what: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that `on=` names on the left and on the right.

    Raises: DescriptionError when they are no names of columns
    """
    match on:
        case str():
            pairs = [(on, on)]
        case Mapping():
            pairs = [*on.items()]
        case list() | tuple():
            pairs = [(name, name) for name in on]
        case _:
            pairs = []
    if not pairs or not all(isinstance(name, str) for pair in pairs for name in pair):
        raise DescriptionError(
            f"{what}: on={a_value(on)} names no columns.",
            hint="Write on='id', or on={'left_id': 'right_id'}. "
            f"For an expression make a column first: .with_column('id', '…').{what}(…, on='id').",
        )
    left, right = zip(*pairs, strict=True)
    return left, right


def columns_for_key(on: On, key: object, what: str) -> tuple[str, ...]:
    """The columns of the left side that hold the key of a table on the right, in the key's order.

    In:     key  names of columns; anything else: the right side is no table, which the caller refuses
    Raises: DescriptionError when `on` names other columns of the right table than its key
    """
    left, right = columns_on(on, what)
    if not isinstance(on, Mapping) or not isinstance(key, tuple):
        return left
    holding = {theirs.lower(): mine for mine, theirs in zip(left, right, strict=True)}
    if len(holding) < len(right) or {*holding} != {name.lower() for name in key}:
        pairs = ", ".join(f"'…': '{name}'" for name in key)
        raise DescriptionError(
            f"{what}: on={a_value(on)} names {listed(right)} on the right, and the key of the right table is {listed(key)}.",
            hint=f"Write on={{{pairs}}}.",
        )
    return tuple(holding[name.lower()] for name in key)


def named_as_left(right: Stream, on: On, what: str) -> tuple[tuple[str, ...], Stream]:
    """The columns of `on` as the left stream names them, and the right stream with the same names.

    Raises: DescriptionError when the right stream has another column of such a name, or its columns are not known
    """
    mine, theirs = columns_on(on, what)
    if mine == theirs:
        return mine, right
    require_known_columns(right, f"{what}: right")
    resolved = [right.shape.resolve(name, f"{what}: on, right") for name in theirs]
    if len({*resolved}) < len(resolved):
        raise DescriptionError(
            f"{what}: on={a_value(on)} names a column of the right stream twice.",
            hint="Name it once, and compare the columns of the left stream in a step before: .where('… = …').",
        )
    names = dict(zip(resolved, mine, strict=True))
    for name in right.columns or ():
        if name not in names and name.lower() in {new.lower() for new in names.values()}:
            raise DescriptionError(
                f"{what}: on={a_value(on)}, and the right stream has a column '{name}', too.",
                hint=f"Rename it before: .select(…, '{name} AS right_{name}').",
            )
    columns = (f"{quote(name)} AS {quote(names.get(name, name))}" for name in right.columns or ())
    return mine, right.select(*columns)


def common_key(stream: Stream) -> tuple[str, ...]:
    """The columns of the record key; none if the stream's topics have different ones, or a step has dropped some."""
    if stream.new_key:
        return stream.new_key if {*stream.new_key} <= {*(stream.columns or ())} else ()
    first, *others = (tuple(column.name for column in topic.key_columns) for topic in stream.topics)
    kept = stream.columns is None or set(first) <= set(stream.columns)
    return first if kept and all(key == first for key in others) else ()


def key_of(stream: Stream, what: str = "group_by") -> tuple[str, ...]:
    """The columns of the record key, on which all the stream's topics must agree; `what` needs them.

    Raises: DescriptionError when a topic has no key, keys differ, or a key column was selected away.
    """
    if stream.new_key:
        _refuse_lost_key(stream, stream.new_key, what)
        return stream.new_key
    keys = {topic.name: tuple(column.name for column in topic.key_columns) for topic in stream.topics}
    for name, key in keys.items():
        if not key:
            raise DescriptionError(f"{what}: topic '{name}' has no key.", hint=_FIXES[what])
    first, *others = keys.values()
    if any(key != first for key in others):
        found = "; ".join(f"'{name}' by {listed(key)}" for name, key in keys.items())
        raise DescriptionError(f"{what}: the topics are keyed differently: {found}.", hint=_FIXES[what])
    _refuse_lost_key(stream, first, what)
    return first


def _refuse_lost_key(stream: Stream, key: tuple[str, ...], what: str) -> None:
    lost = [] if stream.columns is None else [name for name in key if name not in stream.columns]
    if lost:
        raise DescriptionError(
            f"{what}: key column '{lost[0]}' is gone; columns are {listed(stream.columns or ())}.",
            hint=f"Keep it in .select(…). {_FIXES[what]}",
        )


def require_known_columns(stream: Stream, what: str) -> tuple[str, ...]:
    """The columns of a stream, which `what` has to know; raises DescriptionError when it cannot, or must not have one."""
    if stream.columns is None:
        raise DescriptionError(
            f"{what}: a transform leaves the columns unknown.",
            hint="Declare them: .transform(function, columns='…').",
        )
    refuse_reserved(stream.columns, what)
    return stream.columns


def nullable_column(stream: Stream, name: str, what: str) -> Column:
    """A column of a stream that may be null. Raises: DescriptionError when its type is not known."""
    known = stream.shape.type_of(name)
    if known is None:
        raise DescriptionError(
            f"{what}: the type of column '{name}' is not known.",
            hint=f"Give it in the step: .with_column('{name}', 'CAST(… AS DOUBLE)').",
        )
    return Column(name, known.type, True)


def grouping_columns(stream: Stream | Relation, by: Sequence[str], what: str = "group_by") -> tuple[str, ...]:
    """The columns that `what` names, as declared.

    Raises: DescriptionError when one is missing, repeated or unfit.
    """
    if isinstance(by, str) or any(not isinstance(name, str) for name in by):
        wrong = by if isinstance(by, str) else next(name for name in by if not isinstance(name, str))
        raise DescriptionError(
            f"{what}: {a_value(wrong)} is not a column name.",
            hint="Write for example .group_by('sensor_id', 'site').",
        )
    if not by:
        raise DescriptionError(f"{what}: no columns.", hint=_FIXES.get(what, _FIXES["group_by"]))
    shape = stream.shape
    names = tuple(shape.resolve(name, what) for name in by)
    refuse_repeats(names, what)
    refuse_reserved(names, what)
    for name in names:
        known = shape.type_of(name)
        if known and "MAP<" in known.type:
            raise DescriptionError(
                f"{what}: column '{name}' is {known.type}, and maps cannot be compared.",
                hint="Group by its entries that matter, each as a column of its own.",
            )
    return names


def group_column(shape: Shape, name: str) -> ResultColumn:
    """A group column as it stands in a node's table."""
    return shape.result_column(name, "Grouped by this.")


def grouped_columns(
    shape: Shape, by: Sequence[str], aggregates: Sequence[tuple[str, Aggregate]]
) -> tuple[ResultColumn, ...]:
    """The group columns and the aggregates as they stand in a node's table."""
    return (
        *(group_column(shape, name) for name in by),
        *(aggregate_column(shape, name, aggregate) for name, aggregate in aggregates),
    )


def refuse_regrouping(stream: Stream, by: Sequence[str], what: str) -> None:
    """Refuse groups that are not the record key as it came: only of that one partition holds all records.

    Raises: DescriptionError if `why_regrouped` says why.
    """
    why = why_regrouped(stream, by)
    if why is not None:
        raise DescriptionError(f"{what}: {why[0]}", hint=why[1])


def why_regrouped(stream: Stream, by: Sequence[str]) -> tuple[str, str] | None:
    """Why the records of a group may lie in several partitions, and what to write instead; None: they do not.

    That is so for a stream of several topics; of a topic of several partitions for columns that are not the record key, and
    for key columns that a step replaces. A change of the key within a transform cannot be seen: it must leave it as it is.
    """
    key_by = f".key_by({', '.join(map(repr, by))})"
    hint = f"What is final per partition needs every record of a group in one: write {key_by} before .group_by(…)."
    if len(stream.topics) > 1:
        names = listed([topic.name for topic in stream.topics])
        return f"the stream has several topics, {names}.", hint
    (topic,) = stream.topics
    if topic.has_one_partition:
        return None
    key = [column.name for column in topic.key_columns]
    if set(by) != set(key):
        found = f"is keyed by {listed(key)}" if key else "has no key"
        why = f"grouped by {listed(by)}, but topic '{topic.name}' {found}."
        return why, hint
    for step in stream.branches[0].steps:
        for name in key:
            if step.replaces(name):
                return f"key column '{name}' is replaced on the way.", hint
    return None
