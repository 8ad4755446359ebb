"""Headers of a record, also those whose names are not UTF-8.

For such a name `Message.headers()` of confluent-kafka raises, and a second call of it reads memory that was given back. Then
librdkafka itself reads the record once more, by the library that confluent-kafka has loaded.

Law: the names are those that Java's client gives. Bytes that are no UTF-8 become U+FFFD as in Java, which makes one of half
     a surrogate pair.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections import defaultdict
from ctypes import POINTER, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from operator import methodcaller
from typing import TYPE_CHECKING, Literal

from confluent_kafka import KafkaError, KafkaException, cimpl

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from confluent_kafka import Message

Headers = list[tuple[str, bytes | None]]
PATIENCE_SECONDS = 60
# The client's function returns a result although it has raised. Once Python has specialised the call `message.headers()`, it
# goes on with the exception pending. A method caller always checks, and raises SystemError.
_HEADERS = methodcaller("headers")
_CONSUMER, _SET = 1, 0  # RD_KAFKA_CONSUMER, RD_KAFKA_CONF_OK
_NONE, _NO_HEADERS = 0, -156  # RD_KAFKA_RESP_ERR_NO_ERROR, RD_KAFKA_RESP_ERR__NOENT
_FINAL = (KafkaError._NO_OFFSET, KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET)
_HALF_OF_A_PAIR = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def headers_of(messages: Sequence[Message], topic: str, options: Mapping[str, object]) -> list[Headers]:
    """The headers of some records of a topic; it must be called once for a record. Those with a name that is not UTF-8 are
    read once more.

    In:     options  of a consumer
    Raises: KafkaException if Kafka does not give a record again
    """
    read = utf8_headers_of(messages)
    # By partition: the place of the record of each offset.
    places: dict[int, dict[int, int]] = defaultdict(dict)
    for at, pairs in enumerate(read):
        if pairs is False:
            partition, offset = messages[at].partition(), messages[at].offset()
            assert partition is not None
            assert offset is not None
            places[partition][offset] = at
    if places:
        reader = HeaderReader(topic, options)
        try:
            for partition, of in places.items():
                for offset, pairs in reader.read(partition, of.keys()).items():
                    read[of[offset]] = pairs
        finally:
            reader.close()
    return [pairs or [] for pairs in read] if any(read) else [[]] * len(read)


def utf8_headers_of(messages: Sequence[Message]) -> list[Headers | Literal[False] | None]:
    """The headers of some records; False if a name is not UTF-8, None if there are none. It must be called once for each."""
    read: list[Headers | Literal[False] | None] = []
    headers = map(_HEADERS, messages)
    while len(read) < len(messages):  # no call of a Python function for each record
        try:
            read.extend(headers)
        except SystemError as error:
            if not isinstance(error.__cause__, UnicodeDecodeError):
                raise
            read.append(False)
    return read


def name_of(name: bytes) -> str:
    """The name of a header as Java reads it."""
    return _HALF_OF_A_PAIR.sub(b"\xff", name).decode("utf-8", "replace")


class HeaderReader:
    """Reads the headers of records of one topic by librdkafka."""

    def __init__(self, topic: str, options: Mapping[str, object]) -> None:
        """In: options  of a consumer. Raises: KafkaException for an option that librdkafka does not take."""
        self._library = _library()
        self._client = _client(self._library, options)
        self._topic = c_void_p(self._library.rd_kafka_topic_new(self._client, topic.encode(), None))

    def close(self) -> None:
        """Give the connections back."""
        self._library.rd_kafka_topic_destroy(self._topic)
        self._library.rd_kafka_destroy(self._client)

    def read(self, partition: int, offsets: Collection[int]) -> dict[int, Headers]:
        """The headers of records that Kafka has given out, by offset. Those between the first and the last are fetched, too.

        Raises: KafkaException if Kafka does not give one of them again
        """
        if self._library.rd_kafka_consume_start(self._topic, partition, min(offsets)) != 0:
            raise KafkaException(KafkaError(self._library.rd_kafka_last_error()))
        try:
            return {
                offset: pairs for offset, pairs in self._each(partition, max(offsets)) if offset in offsets
            }
        finally:
            self._library.rd_kafka_consume_stop(self._topic, partition)

    def _each(self, partition: int, last: int) -> Iterator[tuple[int, Headers]]:
        """The headers of all records from where the client stands up to an offset."""
        deadline, error = time.monotonic() + PATIENCE_SECONDS, KafkaError._TIMED_OUT
        while time.monotonic() < deadline:
            message = self._library.rd_kafka_consume(self._topic, partition, 500)
            if not message:
                continue
            try:
                error, offset = message.contents.error, message.contents.offset
                if error == _NONE:
                    deadline = time.monotonic() + PATIENCE_SECONDS
                    yield offset, _headers_of(self._library, message)
            finally:
                self._library.rd_kafka_message_destroy(message)
            if error == _NONE and offset == last:
                return
            if offset > last or error in _FINAL:
                break
        raise KafkaException(KafkaError(error or KafkaError._NO_OFFSET))


class _Message(ctypes.Structure):
    """`rd_kafka_message_t`, as far as it is public."""

    _fields_ = (
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("length", c_size_t),
        ("key", c_void_p),
        ("key_length", c_size_t),
        ("offset", c_int64),
    )


def _headers_of(library: ctypes.CDLL, message: object) -> Headers:
    headers = c_void_p()
    error = library.rd_kafka_message_headers(message, ctypes.byref(headers))
    if error == _NO_HEADERS:
        return []
    if error != _NONE:
        raise KafkaException(KafkaError(error))
    read: Headers = []
    name, value, size = c_char_p(), c_void_p(), c_size_t()
    places = [ctypes.byref(each) for each in (name, value, size)]
    while library.rd_kafka_header_get_all(headers, c_size_t(len(read)), *places) == _NONE:
        content = ctypes.string_at(value.value, size.value) if value.value is not None else None
        read.append((name_of(name.value or b""), content))
    return read


def _client(library: ctypes.CDLL, options: Mapping[str, object]) -> c_void_p:
    reason = (c_char * 512)()
    configuration = c_void_p(library.rd_kafka_conf_new())
    for name, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        made = library.rd_kafka_conf_set(configuration, name.encode(), text.encode(), reason, len(reason))
        if made != _SET:
            library.rd_kafka_conf_destroy(configuration)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, reason.value.decode()))
    client = library.rd_kafka_new(_CONSUMER, configuration, reason, len(reason))
    if client is None:
        library.rd_kafka_conf_destroy(configuration)
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, reason.value.decode()))
    return c_void_p(client)


@cache
def _library() -> ctypes.CDLL:
    """The librdkafka of confluent-kafka: symbols of what an extension module is linked with can be looked up in it."""
    library = ctypes.CDLL(str(cimpl.__file__))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_topic_new"):
        getattr(library, name).restype = c_void_p
    library.rd_kafka_topic_new.argtypes = [c_void_p, c_char_p, c_void_p]
    library.rd_kafka_new.argtypes = [c_int, c_void_p, c_char_p, c_size_t]
    library.rd_kafka_conf_set.argtypes = [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]
    library.rd_kafka_consume_start.argtypes = [c_void_p, c_int32, c_int64]
    library.rd_kafka_consume_stop.argtypes = [c_void_p, c_int32]
    library.rd_kafka_consume.argtypes = [c_void_p, c_int32, c_int]
    library.rd_kafka_consume.restype = POINTER(_Message)
    return library
