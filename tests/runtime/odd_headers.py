"""A cluster of librdkafka's own within this process, and records whose header names no client of Python can send."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from headrace.spark.brokers import kafka_headers
from tests.waiting import PATIENCE_S

Header = tuple[bytes, bytes | None]


@contextmanager
def cluster() -> Iterator[str]:
    """Its addresses. It lives within a producer."""
    producer = Producer({"bootstrap.servers": "in.this.process", "test.mock.num.brokers": 1, "log_level": 0})
    known = producer.list_topics(timeout=PATIENCE_S).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in known)
    del producer


class _Part(ctypes.Structure):
    """`rd_kafka_vu_t`: one part of a record."""

    class Union(ctypes.Union):
        _fields_ = (
            ("text", ctypes.c_char_p),
            ("number", ctypes.c_int64),
            ("bytes", ctypes.c_char_p * 2),
            ("header", ctypes.c_void_p * 3),
            ("room", ctypes.c_char * 64),
        )

    _fields_ = (("kind", ctypes.c_int), ("of", Union))


_TOPIC, _PARTITION, _VALUE, _FLAGS, _HEADER = 1, 3, 4, 7, 9
_COPIED = 2


class OddProducer:
    """Sends records by librdkafka itself."""

    def __init__(self, bootstrap: str) -> None:
        self._library = kafka_headers._library()
        self._library.rd_kafka_produceva.restype = ctypes.c_void_p
        self._client = ctypes.c_void_p()
        configuration = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        reason = ctypes.create_string_buffer(512)
        self._library.rd_kafka_conf_set(configuration, b"bootstrap.servers", bootstrap.encode(), reason, 512)
        self._client = ctypes.c_void_p(self._library.rd_kafka_new(0, configuration, reason, 512))

    def send(self, topic: str, value: bytes, headers: list[Header]) -> None:
        """A record of partition 0."""
        kept = [topic.encode(), value, *(part for pair in headers for part in pair)]
        parts = [_part(_TOPIC, text=kept[0]), _part(_PARTITION, number=0), _part(_FLAGS, number=_COPIED)]
        parts.append(_Part(_VALUE))
        _set(parts[-1], ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value, len(value))
        for name, content in headers:
            parts.append(_Part(_HEADER))
            places = [
                None if each is None else ctypes.cast(ctypes.c_char_p(each), ctypes.c_void_p).value
                for each in (name, content)
            ]
            _set(parts[-1], *places, -1 if content is None else len(content))
        array = (_Part * len(parts))(*parts)
        assert not self._library.rd_kafka_produceva(self._client, array, ctypes.c_size_t(len(parts)))
        assert self._library.rd_kafka_flush(self._client, 10_000) == 0

    def close(self) -> None:
        """Give the connections back."""
        self._library.rd_kafka_destroy(self._client)


def _part(kind: int, *, text: bytes | None = None, number: int = 0) -> _Part:
    part = _Part(kind)
    if text is None:
        part.of.number = number
    else:
        part.of.text = text
    return part


def _set(part: _Part, *places: int | None) -> None:
    for number, place in enumerate(places):
        part.of.header[number] = place
