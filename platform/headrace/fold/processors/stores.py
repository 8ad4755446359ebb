"""The stores of groups, in memory while their records are processed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.description import KeyValueStore, ProcessorError
from headrace.description.wording import a_value, listed
from headrace.fold.processors.shape import StoreShape
from headrace.fold.processors.values import converter, copier

Key = tuple[Any, ...]
Value = tuple[Any, ...]


@dataclass
class Entries:
    """What a store holds of one group.

    values   by key, as tuples of columns
    known    the keys that the state holds
    changed  the keys that were put or deleted
    before   of the keys that the current record has changed the values before it; None: there was none
    """

    values: dict[Key, Value] = field(default_factory=dict)
    known: set[Key] = field(default_factory=set)
    changed: set[Key] = field(default_factory=set)
    before: dict[Key, Value | None] = field(default_factory=dict)

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


class GroupStore(KeyValueStore):
    """A store as user code sees it: that of the current group."""

    def __init__(self, shape: StoreShape) -> None:
        self._name = shape.name
        self._key_names = [each.name for each in shape.key]
        self._value_names = [each.name for each in shape.value]
        self._keys, self._values = (
            [converter(each, f"Store '{shape.name}': column '{each.name}'") for each in of]
            for of in (shape.key, shape.value)
        )
        self._copies = [copier(each) for each in shape.value]
        self._entries: Entries | None = None

    def enter(self, entries: Entries | None) -> None:
        """Stand for another group; None: for none."""
        self._entries = entries

    def get(self, *key: Any) -> Any:
        """See the base class."""
        found = self._of_group.values.get(self._key(key))
        return None if found is None else self._shown(found)

    def put(self, *key_and_value: Any) -> None:
        """See the base class."""
        entries = self._of_group
        if len(key_and_value) != 1 + bool(self._keys):
            wanted = "a key and a value" if self._keys else "a value alone"
            raise ProcessorError(f"Store '{self._name}': put takes {wanted}.")
        *key, value = key_and_value
        own = self._key(tuple(key))
        if value is None and len(self._values) == 1:
            self._remove(own)
            return
        entries.set(own, self._converted(value))

    def delete(self, *key: Any) -> None:
        """See the base class."""
        self._remove(self._key(key))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """See the base class."""
        return iter(
            [self._entry(key, value) for key, value in sorted(self._of_group.values.items(), key=_by_key)]
        )

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        """See the base class."""
        low, high = self._key((first,)), self._key((last,))
        found = [item for item in self._of_group.values.items() if low <= item[0] <= high]
        return iter([self._entry(key, value) for key, value in sorted(found, key=_by_key)])

    @property
    def _of_group(self) -> Entries:
        if self._entries is None:
            raise ProcessorError(
                f"Store '{self._name}': there is no group in init, which is called once for all groups.",
                hint="Read and write stores in process, in a timer's method, or in close.",
            )
        return self._entries

    def _remove(self, key: Key) -> None:
        if key in self._of_group.values:
            self._of_group.set(key, None)

    def _key(self, key: tuple[Any, ...]) -> Key:
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
        if len(value) == 1:
            return self._copies[0](value[0])
        columns = zip(self._value_names, self._copies, value, strict=True)
        return {name: copied(each) for name, copied, each in columns}

    def _entry(self, key: Key, value: Value) -> tuple[Any, Any]:
        shown = self._shown(value)
        return (key[0] if len(key) == 1 else key), shown


def _by_key(item: tuple[Key, Value]) -> Key:
    return item[0]
