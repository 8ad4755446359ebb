"""Settings of the Kafka client that a topic adds; their values may be secrets and are never shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.description.wording import a_value
from headrace.errors import DescriptionError

_OWNED = {
    "auto.offset.reset": "Say start='earliest' or start='latest'.",
    "enable.auto.commit": "Positions are kept in the log.",
    "isolation.level": "It is always read_committed.",
    "key.deserializer": "Declare the key's columns with key='…'.",
    "value.deserializer": "Declare the value's columns with value='…'.",
}
_PORT = "9092"
_THIS_MACHINE = "localhost"
_LOCAL = (_THIS_MACHINE, "127.0.0.1", "[::1]", "::1", "")


class KafkaSettings(Mapping[str, str]):
    """An immutable mapping from setting to text, equal and hashed by content, whose repr hides the values."""

    def __init__(
        self, settings: Mapping[str, str], what: str = "options", owned: Mapping[str, str] = _OWNED
    ) -> None:
        """In: `owned`: the settings that Headrace decides, each with what to do instead."""
        if not isinstance(settings, Mapping):
            raise DescriptionError(
                f"{what}: {a_value(type(settings))} is no mapping.",
                hint="Write options={'security.protocol': 'SSL'}.",
            )
        for name, value in settings.items():
            _check(name, value, what, owned)
        self._items = tuple(sorted(settings.items()))

    def __getitem__(self, name: str) -> str:
        return dict(self._items)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: '***'" for name in self) + "}"


def brokers_of(servers: str) -> frozenset[str]:
    """The brokers that a list of servers names, each in one spelling: two lists of one cluster may differ in order and case.

    In: servers  as Kafka's clients read them, `host:port` with commas; "SSL://host" and "host:9092" are one broker
    """
    return frozenset(_broker(each) for each in servers.split(",") if each.strip())


def _broker(named: str) -> str:
    address = named.strip().lower().rpartition("://")[2].rstrip("/")
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        host, port = address, _PORT
    return f"{_THIS_MACHINE if host in _LOCAL else host}:{port}"


def _check(name: object, value: object, what: str, owned: Mapping[str, str]) -> None:
    if not isinstance(name, str) or not name.strip():
        raise DescriptionError(f"{what}: {a_value(name)} is not the name of a setting.")
    if not isinstance(value, str):
        raise DescriptionError(
            f"{what}: the value of '{name}' is of type {type(value).__name__}, not text.",
            hint="Put it in quotes.",
        )
    fix = owned.get(name.removeprefix("kafka."))
    if fix:
        raise DescriptionError(f"{what}: '{name}' is set by Headrace.", hint=fix)
