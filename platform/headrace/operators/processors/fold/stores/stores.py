"""The stores of groups, in memory while their records are processed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.description import KeyValueStore, ProcessorError
from headrace.description.wording import a_value, listed
from headrace.fold.segments import HIGHEST, LOWEST
from headrace.operators.processors.fold.shape import StoreShape
from headrace.operators.processors.fold.stores.values import converter, copier

Key = tuple[Any, ...]
Value = tuple[Any, ...]


@dataclass
class Entries:
    """The entries that a store holds of one group.

    values   by key, as tuples of columns; with a time to live the last one is when the entry ends
    known    the keys that the state holds
    changed  the keys that were put or deleted
    before   of the keys that the current record has changed the values before it; None: there was none
    soonest  no entry ends before it
    """

    values: dict[Key, Value] = field(default_factory=dict)
    known: set[Key] = field(default_factory=set)
    changed: set[Key] = field(default_factory=set)
    before: dict[Key, Value | None] = field(default_factory=dict)
    soonest: int = LOWEST

    def set(self, key: Key, value: Value | None) -> None:
        """Put a value, or remove it."""
        self.before.setdefault(key, self.values.get(key))
        self.changed.add(key)
        self._put(key, value)

    def undo(self) -> None:
        """Take back what the current record has done."""
        for key, value in self.before.items():
            self._put(key, value)
        self.before.clear()

    def _put(self, key: Key, value: Value | None) -> None:
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value


class StoreOfGroup:
    """A store of the current group, whatever its keys are to user code."""

    def __init__(self, shape: StoreShape, clock_ms: Callable[[], int]) -> None:
        """In: clock_ms  gives the stream clock of the current call; LOWEST: it has not begun."""
        self._shape, self._name, self._clock_ms = shape, shape.name, clock_ms
        self._value_names = [each.name for each in shape.value]
        keys = shape.key[: len(shape.key) - shape.times]
        self._key_names = [each.name for each in keys]
        self._keys, self._values = (
            [converter(each, f"Store '{shape.name}': column '{each.name}'") for each in of]
            for of in (keys, shape.value)
        )
        self._copies = [copier(each) for each in shape.value]
        self._entries: Entries | None = None

    def enter(self, entries: Entries | None) -> None:
        """Stand for another group; None: for none."""
        self._entries = entries

    def expire(self, over_ms: int) -> None:
        """Remove the entries that end by a time that no later call's clock is before."""
        entries = self._of_group
        if self._shape.lives_ms is None or over_ms < entries.soonest or over_ms == LOWEST:
            return
        ends = {key: self._end_of(key, value) for key, value in entries.values.items()}
        for key, end in ends.items():
            if end <= over_ms:
                del entries.values[key]
        entries.soonest = min((end for end in ends.values() if end > over_ms), default=HIGHEST)

    @property
    def _of_group(self) -> Entries:
        if self._entries is None:
            raise ProcessorError(
                f"Store '{self._name}': there is no group in init, which is called once for all groups.",
                hint="Read and write stores in process, in a timer's method, or in close.",
            )
        return self._entries

    def _get(self, key: Key) -> Any:
        value = self._of_group.values.get(key)
        return None if value is None or self._has_ended(key, value) else self._shown(value)

    def _set(self, key: Key, value: Any) -> None:
        if value is None and len(self._values) == 1:
            self._remove(key)
            return
        made, entries = self._converted(value), self._of_group
        if self._shape.has_ttl:
            made = (*made, self._end_of_put(entries.values.get(key)))
        if self._shape.lives_ms is not None:
            if self._has_ended(key, made):
                return
            entries.soonest = min(entries.soonest, self._end_of(key, made))
        entries.set(key, made)

    def _remove(self, key: Key) -> None:
        value = self._of_group.values.get(key)
        if value is not None and not self._has_ended(key, value):
            self._of_group.set(key, None)

    def _has_ended(self, key: Key, value: Value) -> bool:
        """Whether an entry is over for the current call."""
        return self._shape.lives_ms is not None and self._end_of(key, value) <= self._clock_ms()

    def _end_of_put(self, before: Value | None) -> int | None:
        """When an entry ends that is put now; a put never shortens the life of the entry before."""
        clock_ms = self._clock_ms()
        if clock_ms == LOWEST or (before is not None and before[-1] is None):
            return None
        end = clock_ms + (self._shape.lives_ms or 0)
        return end if before is None else max(end, int(before[-1]))

    def _sorted(self, lowest: Key | None = None, highest: Key | None = None) -> list[tuple[Key, Any]]:
        """Keys and values in their order. In: the first and the last key; None: all."""
        found = self._of_group.values.items()
        some = (
            item
            for item in found
            if (lowest is None or lowest <= item[0]) and (highest is None or item[0] <= highest)
            if not self._has_ended(*item)
        )
        return [(key, self._shown(value)) for key, value in sorted(some, key=_by_key)]

    def _end_of(self, key: Key, value: Value) -> int:
        """When an entry ends by the stream clock."""
        if self._shape.has_ttl:
            return HIGHEST if value[-1] is None else int(value[-1])
        return self._shape.end_of(key)

    def _parts(self, key_and_value: tuple[Any, ...]) -> tuple[Key, Any]:
        """The key and the value that `put` was given."""
        if len(key_and_value) != 1 + bool(self._keys):
            wanted = "a key and a value" if self._keys else "a value alone"
            raise ProcessorError(f"Store '{self._name}': put takes {wanted}.")
        *key, value = key_and_value
        return self._key(tuple(key)), value

    def _key(self, key: tuple[Any, ...]) -> Key:
        """A key as a tuple, without the times."""
        if not self._keys:
            if key:
                raise ProcessorError(f"Store '{self._name}' has one entry, and no key.")
            return ()
        (given,) = key if len(key) == 1 else (key,)
        parts = (given,) if len(self._keys) == 1 else given
        if not isinstance(parts, tuple) or len(parts) != len(self._keys) or None in parts:
            raise ProcessorError(
                f"Store '{self._name}': {a_value(given)} is no key of {listed(self._key_names)}, without nulls."
            )
        return tuple(convert(part) for convert, part in zip(self._keys, parts, strict=True))

    def _shown_key(self, key: Key) -> Any:
        own = key[: len(self._keys)]
        return own[0] if len(own) == 1 else own

    def _converted(self, value: Any) -> Value:
        if len(self._values) == 1:
            return (self._values[0](self._copies[0](value)),)
        if not isinstance(value, Mapping) or {*value} != {*self._value_names}:
            raise ProcessorError(
                f"Store '{self._name}': {a_value(value)} is no mapping of {listed(self._value_names)}."
            )
        columns = zip(self._value_names, self._values, self._copies, strict=True)
        return tuple(convert(copied(value[name])) for name, convert, copied in columns)

    def _shown(self, value: Value) -> Any:
        if len(self._values) == 1:
            return self._copies[0](value[0])
        columns = zip(self._value_names, self._copies, value, strict=False)  # when it ends is not shown
        return {name: copied(each) for name, copied, each in columns}


class GroupStore(StoreOfGroup, KeyValueStore):
    """A key-value store as user code sees it: that of the current group."""

    def get(self, *key: Any) -> Any:
        """See the base class."""
        return self._get(self._key(key))

    def put(self, *key_and_value: Any) -> None:
        """See the base class."""
        self._set(*self._parts(key_and_value))

    def delete(self, *key: Any) -> None:
        """See the base class."""
        self._remove(self._key(key))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """See the base class."""
        return iter([(self._shown_key(key), value) for key, value in self._sorted()])

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        """See the base class."""
        found = self._sorted(self._key((first,)), self._key((last,)))
        return iter([(self._shown_key(key), value) for key, value in found])


def _by_key(item: tuple[Key, Value]) -> Key:
    return item[0]
