"""The next step of a description: a wrong call names it.

Law: of a type that inherits `WaysOn`, a method that it does not have and a call with wrong arguments raise a
DescriptionError. Methods that other libraries have, such as `filter`, are among the names with a way on.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.description.wording import a_value, did_you_mean, listed
from headrace.errors import DescriptionError

T = TypeVar("T")
_WINDOW = ".window(hr.tumbling('5 minutes'), grace='1 minute')"
_AGGREGATE = ".aggregate(n=hr.count())"
_GROUP = ".group_by('…')"

# The methods that people know from other libraries, and what they are called here.
_THEIRS = {
    "where": "filter",
    "select": "map",
    "with_column": "withColumn with_columns",
    "flat_map": "flatMap explode",
    "distinct": "dedup deduplicate drop_duplicates dropDuplicates unique",
    "group_by": "groupBy groupby group",
    "key_by": "keyBy select_key selectKey rekey",
    "aggregate": "agg reduce",
    "merge": "union",
    "to": "sink write_to output",
    "named": "name",
    "table": "to_table toTable",
    "lookup": "enrich",
    "join": "left_join leftJoin",
    "window": "windowed windowed_by windowedBy",
}
_CALLED_HERE = {their: our for our, theirs in _THEIRS.items() for their in theirs.split()}

_STREAM = {
    "with_previous": f"Group first: {_GROUP}.with_previous(before='…').",
    "suppress": f"A policy is for aggregates and tables: {_GROUP}{_WINDOW}{_AGGREGATE}.suppress(hr.until_window_closes()), "
    "or .table().suppress(hr.until_time_limit('5 minutes')).",
    "throttle": "Only tables are throttled: .table().throttle('1 minute').",
    "changes": "A stream is its changes already: leave .changes() out.",
    "as_stream": "It is a stream already: leave .as_stream() out.",
}
_TABLE = {
    "table": "It is a table already, one row for each value of its key: leave .table() out.",
    "aggregate": f"Group first: {_GROUP}{_AGGREGATE}.",
    "window": f"Windows are of streams: .changes(){_GROUP}{_WINDOW}{_AGGREGATE}, or group the stream that the table is of.",
    "lookup": "Tables are joined, and the result follows both: .join(table, on='…', how='left'). As a stream: "
    ".changes().lookup(table, on='…').",
    "join_prior": "It is for streams: .changes().join_prior(stream, on='…', grace='1 minute').",
    "merge": "Streams are merged: .changes().merge(stream).",
    "branch": "Streams are split: .changes().branch('…'); or write .where('…') for each part.",
    "quarantine": "Streams are split: .changes().quarantine(…).",
    "key_by": "The key of a table tells its rows apart. Of its changes: .changes().key_by('…').table().",
    "flat_map": "It is for streams: .changes().flat_map('…').",
    "distinct": "It holds one row for each value of its key already: leave .distinct(…) out.",
    "process": "A processor reads a stream: .changes().group_by('…').process(…).",
    "batch": "Batches are of streams: .changes().group_by('…').batch(collect=['…'], max_records=100).",
    "with_previous": "Its changes have the row before: .changes(). Of a stream: .group_by('…').with_previous(before='…').",
    "as_stream": "Its rows are revised. Write .changes() for its changes, or for final windows "
    ".suppress(hr.until_window_closes()) before.",
}
_OF_STREAMS = "where select with_column transform key_by flat_map distinct merge branch quarantine lookup join join_prior"
_BEFORE_GROUPS = "Write .{name}(…) before .group_by(…)."
_AFTER_AGGREGATES = "Aggregate first: .aggregate(n=hr.count()).{name}(…)."
_GROUPED = {
    **dict.fromkeys(_OF_STREAMS.split(), _BEFORE_GROUPS),
    **dict.fromkeys(("suppress", "named", "to", "throttle", "changes"), _AFTER_AGGREGATES),
    "table": "A table has the key of its topic: .table() in place of .group_by(…); for one row of each group "
    f"{_AGGREGATE}.",
    "group_by": "Name all columns at once: .group_by('a', 'b').",
}
_GROUPED_TABLE = {
    **_GROUPED,
    "window": f"Windows are of streams. Of final windows write .as_stream(){_GROUP}{_WINDOW}{_AGGREGATE}, of a table "
    f".changes(){_GROUP}{_WINDOW}{_AGGREGATE}.",
    "process": "A processor reads a stream: .changes().group_by('…').process(…).",
    "batch": "Batches are of streams: .changes().group_by('…').batch(collect=['…'], max_records=100).",
}
_WINDOWED = {
    **_GROUPED,
    "window": f"It has windows already. Windows of windows: {_AGGREGATE}.suppress(hr.until_window_closes()).as_stream()"
    f"{_GROUP}.window(…).",
    "process": "A processor sees single records: .process(…) in place of .window(…).",
    "batch": "Batches close by records and time of their own: .batch(…) in place of .window(…).",
}
# How people call the type, and what leads on from it, by the class that says `kind=`.
WAYS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "stream": ("a stream", _STREAM),
    "table": ("a table", _TABLE),
    "grouped stream": ("a grouped stream", _GROUPED),
    "grouped table": ("a grouped table", _GROUPED_TABLE),
    "windowed stream": ("a grouped stream with windows", _WINDOWED),
}
# What is missing most often in a call.
_CALLS = {
    "aggregate": "Name the column of each aggregate: .aggregate(n=hr.count(), total=hr.sum('…')).",
    "window": f"Write {_WINDOW}.",
    "distinct": "Write .distinct('id', within='1 day').",
    "lookup": "Write .lookup(table, on='…').",
    "join": "Write .join(other, on='…').",
    "join_prior": "Write .join_prior(stream, on='…', grace='1 minute').",
    "suppress": "Write .suppress(hr.until_window_closes()), or .suppress(hr.until_time_limit('5 minutes')).",
    "named": "Write .named('reading_counts').",
    "to": "Write for example .to(hr.KafkaSink('totals')).",
}


class WaysOn:
    """The base of all that a person goes on from with a dot.

    In: kind  of `WAYS`; None: as the base
    """

    _kind = ""

    def __init_subclass__(cls, kind: str | None = None, **options: Any) -> None:
        """Let each public method of the class explain a call that does not fit it."""
        super().__init_subclass__(**options)
        if kind is not None:
            cls._kind = kind
        for name, member in list(vars(cls).items()):
            if isinstance(member, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _explained(member))

    if not TYPE_CHECKING:  # mypy shall go on to refuse names that do not exist

        def __getattr__(self, name: str) -> Any:
            """Name the way on. Private names, and names that exist and failed by themselves, are Python's."""
            if name.startswith("_") or name in dir(type(self)):
                return object.__getattribute__(self, name)
            raise MissingMethodError(*_missing(type(self), name))


def what_is(value: object) -> str:
    """An argument as an error shows it: a node or stream by its kind and name, anything else by its text."""
    if not isinstance(value, WaysOn):
        return a_value(value)
    name = vars(value).get("name")
    return WAYS[type(value)._kind][0] + (f" ('{name}')" if name else "")


class MissingMethodError(DescriptionError, AttributeError):
    """A method that the type does not have; `hasattr` and `getattr` with a default know it as an AttributeError."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)


def _missing(of: type[WaysOn], name: str) -> tuple[str, str]:
    what, ways = WAYS.get(of._kind, ("a node", {}))
    methods = [each for each in dir(of) if not each.startswith("_") and callable(getattr(of, each, None))]
    here = _CALLED_HERE.get(name, name)
    message = f"{what[0].upper()}{what[1:]} has no .{name}(…)."
    if here in ways:
        return message, ways[here].format(name=here)
    if here in methods:
        return message, f"Write .{here}(…)."
    return message, did_you_mean(name, methods) or f"It goes on with {listed(methods)}."


def _explained(function: FunctionType) -> Callable[..., Any]:
    """The function, whose call with arguments that do not fit raises a DescriptionError."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # the function ran, and failed within
                raise
            raise _refused(function, str(error)) from None

    return call


def explained_call(described: type[T]) -> type[T]:
    """Let a class of descriptions explain a call with arguments that do not fit it."""
    made: Any = described.__init__
    described.__init__ = _explained(made)  # type: ignore[method-assign]
    return described


def _refused(function: FunctionType, problem: str) -> DescriptionError:
    is_class = function.__name__ == "__init__"
    name = function.__qualname__.split(".")[0] if is_class else function.__name__
    parameters = [*inspect.signature(function).parameters.values()][1:]
    unknown = re.search(r"unexpected keyword argument '(\w+)'", problem)
    meant = did_you_mean(unknown[1], [each.name for each in parameters]) if unknown else None
    called = (
        f"Its arguments are {listed([each.name for each in parameters if each.name[0] != '_'])}."
        if is_class
        else f"It is called as .{name}({', '.join(map(str, parameters))})."
    )
    return DescriptionError(f"{name}: {_in_words(problem)}", hint=meant or _CALLS.get(name) or called)


def _in_words(problem: str) -> str:
    """The words of Python about a call, without the object that it counts as an argument."""
    if missing := re.search(r"missing \d+ required .*?: (.*)", problem):
        return f"{missing[1]} is not given."
    if unknown := re.search(r"unexpected keyword argument ('\w+')", problem):
        return f"there is no argument {unknown[1]}."
    if many := re.search(r"takes (?:from \d+ to )?(\d+) positional .* but (\d+)", problem):
        return f"{int(many[2]) - 1} arguments have no name, and {int(many[1]) - 1} may have none."
    return f"{problem}."
