"""Stores of processors: their names, and the columns of their keys and values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.description.durations import Duration, duration_ms
from headrace.description.schema import Column, is_floating, parse_ddl, refuse_repeats, to_ddl
from headrace.description.wording import a_value
from headrace.errors import DescriptionError

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
NAME_MAX = 80
KEY_VALUE, WINDOW, SESSION = "key-value", "window", "session"
TIMES = {  # the last columns of a key
    KEY_VALUE: (),
    WINDOW: (Column("window_start", "TIMESTAMP", nullable=True),),
    SESSION: (
        Column("session_start", "TIMESTAMP", nullable=True),
        Column("session_end", "TIMESTAMP", nullable=True),
    ),
}


@dataclass(frozen=True)
class Store:
    """Describes a store, which each group of a processor has for itself.

    key       the columns of a key; none: the store has one entry
    value     the columns of a value
    kind      by what entries are found: key-value, window or session
    lives_ms  how long an entry is there, in stream time; None: until it is deleted

    Law: a call finds an entry if and only if its end is beyond the call's stream clock. Its end is `lives_ms` after the
    clock of the call that put it, and a later put never makes it earlier; of windows after their start, of sessions after
    their last time. One that was put before the clock has begun is there until it is deleted.
    """

    name: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    kind: str = KEY_VALUE
    lives_ms: int | None = None

    def __post_init__(self) -> None:
        check_store_name(self.name)
        refuse_repeats([column.name for column in self.columns], f"store '{self.name}'")
        for column in self.key:
            if is_floating(column.type) or "<" in column.type:
                raise DescriptionError(
                    f"store '{self.name}': key column '{column.name}' is {column.type}, which has no plain order.",
                    hint="Let the key be a text, a whole number, a decimal, a date or a time.",
                )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the key, then those of the value."""
        return (*self.key, *self.value)

    def rules(self) -> dict[str, Any]:
        """Name and columns; its kind, and how long entries live, where that matters."""
        of_time = {"kind": self.kind, "lives_ms": self.lives_ms} if self.lives_ms is not None else {}
        return {"store": self.name, "key": to_ddl(self.key), "value": to_ddl(self.value), **of_time}


def check_store_name(name: object) -> None:
    """Raises: DescriptionError when it is no name of a store."""
    if not (isinstance(name, str) and len(name) <= NAME_MAX and NAME.fullmatch(name)):
        raise DescriptionError(
            f"store: {a_value(name)} is not a name in lower-case letters, digits and single underscores.",
            hint="Write for example hr.key_value_store('counts', 'word STRING', 'n BIGINT').",
        )


def key_value_store(name: str, key: str, value: str, *, ttl: Duration | None = None) -> Store:
    """Describe a store of entries by key; each group has its own.

    In:     key, value  their columns as DDL, such as "visitor STRING" and "n BIGINT"
            ttl         how long an entry is there after it was put last, in stream time (see `Store`); None: for ever
    Raises: DescriptionError for a name, a column or a duration that cannot be
    """
    what = f"store {a_value(name)}"
    columns = parse_ddl(key, f"{what}: key"), parse_ddl(value, f"{what}: value")
    return Store(name, *columns, KEY_VALUE, _lives_ms(ttl, f"{what}: ttl"))


def value_store(name: str, value: str, *, ttl: Duration | None = None) -> Store:
    """Describe a store of one entry for each group.

    In:     value  its columns as DDL
            ttl    how long the entry is there after it was put last, in stream time (see `Store`); None: for ever
    Raises: DescriptionError for a name, a column or a duration that cannot be
    """
    what = f"store {a_value(name)}"
    return Store(name, (), parse_ddl(value, f"{what}: value"), KEY_VALUE, _lives_ms(ttl, f"{what}: ttl"))


def window_store(name: str, key: str, value: str, *, retention: Duration) -> Store:
    """Describe a store of entries by key and by the time at which a window begins; each group has its own.

    In:     key, value  their columns as DDL; key "": a group has one entry for each time
            retention   how long after its time an entry is there, in stream time (see `Store`)
    Raises: DescriptionError for a name, a column or a duration that cannot be
    """
    return _by_time(WINDOW, name, key, value, retention)


def session_store(name: str, key: str, value: str, *, retention: Duration) -> Store:
    """Describe a store of entries by key and by the first and the last time of a session; each group has its own.

    In:     key, value  their columns as DDL; key "": a group's sessions have no other key
            retention   how long after its last time an entry is there, in stream time (see `Store`)
    Raises: DescriptionError for a name, a column or a duration that cannot be
    """
    return _by_time(SESSION, name, key, value, retention)


def _by_time(kind: str, name: str, key: str, value: str, retention: Duration) -> Store:
    what = f"store {a_value(name)}"
    own = parse_ddl(key, f"{what}: key") if key else ()
    columns = (*own, *TIMES[kind]), parse_ddl(value, f"{what}: value")
    return Store(name, *columns, kind, _lives_ms(retention, f"{what}: retention"))


def _lives_ms(lives: Duration | None, what: str) -> int | None:
    if lives is None:
        return None
    found = duration_ms(lives, what)
    if not found:
        raise DescriptionError(f"{what} 0 keeps nothing.", hint="Write for example '1 hour'.")
    return found


def checked_stores(stores: object, group: Sequence[str]) -> tuple[Store, ...]:
    """The stores of a processor. Raises: DescriptionError when two have one name, or one has a column of the group."""
    if isinstance(stores, Store) or not isinstance(stores, Sequence):
        raise DescriptionError(
            "process: stores is not a list of stores.",
            hint="Write stores=[hr.value_store('count', 'n BIGINT')].",
        )
    seen, taken = set[str](), {name.lower() for name in group}
    for store in stores:
        if not isinstance(store, Store):
            raise DescriptionError(
                f"process: {a_value(store)} is no store.",
                hint="Write hr.key_value_store('counts', 'word STRING', 'n BIGINT').",
            )
        if store.name in seen:
            raise DescriptionError(f"process: there are two stores '{store.name}'.")
        seen.add(store.name)
        for column in store.columns:
            if column.name.lower() in taken:
                raise DescriptionError(
                    f"process: column '{column.name}' of store '{store.name}' is a column of the group, too.",
                    hint="Each group has stores of its own: leave it out (hr.value_store has no key), or rename it.",
                )
    return tuple(stores)
