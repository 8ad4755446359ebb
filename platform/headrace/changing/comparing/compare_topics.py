"""The changes between the columns of a topic's log and those that its description has now.

Law: a log is written again under other columns only if each of its rows has a value there that follows from the row alone: a
column that was removed, one with another name, or one of a wider type that holds every value of the narrower one. The
decisions of the sequencer stay. A new column holds in older records what `added` says; else it is null there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.lake.tables import column_types
from headrace.sequence.parse.types import fields_of

if TYPE_CHECKING:
    from headrace.description import Topic
    from headrace.lake.table import LakeTable

Types = Mapping[str, Any]
VALUE, KEY = "value", "key"
# Delta's names of types, each with those that hold all of its values.
WIDER = {
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long",),
    "float": ("double",),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True)
class TopicChanges:
    """The changes of a topic's columns.

    gained   new columns of the value
    filled   those that have a value in older records, with the value
    removed  columns that are there no more, with their types
    renamed  the former name of each column that has another one
    widened  columns of a wider type: the type before and now
    other    what no row of the log tells, one line each
    """

    gained: tuple[str, ...] = ()
    removed: Mapping[str, str] | None = None
    renamed: Mapping[str, str] | None = None
    widened: Mapping[str, tuple[str, str]] | None = None
    other: tuple[str, ...] = ()
    filled: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs_rows(self) -> bool:
        """True if the rows of the log have to be written again."""
        return bool(self.removed or self.renamed or self.widened or self.filled)

    def lines(self, *, from_bytes: bool = False) -> tuple[str, ...]:
        """One line for each change that the rows of the log tell, or their bytes."""
        renamed = [f"~ {name} (was named {before})" for name, before in (self.renamed or {}).items()]
        widened = [f"~ {name}: {before} -> {now}" for name, (before, now) in (self.widened or {}).items()]
        removed = [f"- {name} (was {of})" for name, of in (self.removed or {}).items()]
        gained = [f"+ {name}" + ("" if from_bytes else self._in_older_records(name)) for name in self.gained]
        return (*gained, *removed, *renamed, *widened)

    def _in_older_records(self, name: str) -> str:
        return (
            f", '{self.filled[name]}' in older records" if name in self.filled else ", null in older records"
        )


def columns_of(topic: Topic) -> pa.Schema:
    """The columns of a topic's log that its description tells."""
    sides = {KEY: topic.key_columns, VALUE: topic.value_columns}
    return pa.schema([(name, pa.struct(fields_of(columns))) for name, columns in sides.items() if columns])


def compare_topic(log: LakeTable, topic: Topic) -> TopicChanges:
    """The changes of a topic. In: log  is there."""
    has, needs = column_types(log, columns_of(topic), (KEY, VALUE))
    return compare_types(has, needs, topic.renamed, topic.added_values)


def compare_types(
    has: Types, needs: Types, renamed: Mapping[str, str], added: Mapping[str, str] | None = None
) -> TopicChanges:
    """The changes between two sets of types.

    In: has, needs  the types of `key` and of `value`, each by name
        renamed     new names to former ones
        added       values of new columns in older records
    """
    other = (
        [] if has.get(KEY) == needs.get(KEY) else [f"key: {_shown(has.get(KEY))} -> {_shown(needs.get(KEY))}"]
    )
    before, now = has.get(VALUE, {}), needs.get(VALUE, {})
    names = {new: old for new, old in renamed.items() if new in now and new not in before and old in before}
    names = {new: old for new, old in names.items() if old not in now}
    widened = {}
    for name in now:
        source = names.get(name, name)
        if source not in before or before[source] == now[name]:
            continue
        if is_wider(before[source], now[name]):
            widened[name] = (_shown(before[source]), _shown(now[name]))
        else:
            other.append(f"{name}: {_shown(before[source])} -> {_shown(now[name])}")
    gained = [name for name in now if name not in before and name not in names]
    removed = {
        name: _shown(of) for name, of in before.items() if name not in now and name not in names.values()
    }
    filled = {name: value for name, value in (added or {}).items() if name in gained}
    return TopicChanges(tuple(gained), removed, names, widened, tuple(other), filled)


def is_wider(before: Any, now: Any) -> bool:
    """Whether a type holds every value of another one. In: Delta's names; nested types are none."""
    if not isinstance(before, str) or not isinstance(now, str):
        return False
    one, other = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(now)
    if one and other:
        (digits, scale), (digits_now, scale_now) = (tuple(map(int, each.groups())) for each in (one, other))
        return scale_now >= scale and digits_now - scale_now >= digits - scale
    return now in WIDER.get(before, ())


def _shown(of: Any) -> str:
    """A type as people read it."""
    if of is None:
        return "absent"
    if isinstance(of, Mapping):
        return "{" + ", ".join(f"{name} {_shown(each)}" for name, each in of.items()) + "}"
    if isinstance(of, list):
        return f"array of {_shown(of[0])}"
    name = str(of)
    return {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}.get(
        name, name.upper()
    )
