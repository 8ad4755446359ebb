"""Kafka's clients that a process keeps from one delivery to the next.

Law: a client is kept when the broker has all that it was given. To the next delivery it is as a new one, and it goes on
behind the last record of each partition. One that has met an error is never kept.
One for questions is kept when it has had its answer.
Notes: a client that keeps the order asks the broker for an id of its own, and librdkafka asks half a second or a second
after the client was made. A delivery of a few rows takes a hundredth of that.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import KafkaError

    from headrace.spark.kafka import KafkaTopic

    Report = Callable[[KafkaError | None, object], None]

Answer = TypeVar("Answer")
KEPT_MAX = 8  # of a process, each with other settings; deliveries to several topics of a cluster use one
KEPT_SECONDS = 600.0  # then certificates are read anew
ANSWERS_SECONDS = 5.0
_kept: dict[tuple[Any, ...], Client] = {}
_asked: dict[tuple[Any, ...], tuple[KafkaTopic, float]] = {}
_KEEPING = threading.Lock()  # streams deliver by threads of their own


class Client:
    """A producer, and who is told what it reports."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from confluent_kafka import Producer

        self.report: Report = _nobody
        self.producer = Producer(
            {**settings, "on_delivery": lambda error, record: self.report(error, record)}
        )
        self.made_at = time.monotonic()

    def knows(self, topic: str) -> bool:
        """Whether the broker answers; then the client knows the topic's partitions as they are now."""
        from confluent_kafka import KafkaException

        try:
            self.producer.list_topics(topic, timeout=ANSWERS_SECONDS)
        except KafkaException:
            return False
        return True


def client_for(topic: str, settings: Mapping[str, Any], report: Report) -> Client:
    """A client that was kept, or a new one. In: report  is told of each record that was not taken."""
    with _KEEPING:
        client = _kept.pop(_key(settings), None)
    if client is None or time.monotonic() - client.made_at > KEPT_SECONDS or not client.knows(topic):
        client = Client(settings)
    client.report = report
    return client


def keep(client: Client, settings: Mapping[str, Any]) -> None:
    """Keep a client for the next delivery with these settings. The broker has all that it was given."""
    client.report = _nobody
    with _KEEPING:
        _kept[_key(settings)] = client
        while len(_kept) > KEPT_MAX:
            _kept.pop(next(iter(_kept)), None)


def ask(topic: KafkaTopic, question: Callable[[KafkaTopic], Answer]) -> Answer:
    """The answer of the broker, by the client that was kept for this topic, or by a new one: to make one takes 40 ms."""
    key = (topic.name, *_key({**topic.settings.client_options(), **topic.options}))
    now = time.monotonic()
    with _KEEPING:
        asked, made_at = _asked.pop(key, (topic, now))
    if now - made_at > KEPT_SECONDS:
        asked, made_at = topic, now
    answer = question(asked)
    with _KEEPING:
        _asked[key] = asked, made_at
        while len(_asked) > KEPT_MAX:
            _asked.pop(next(iter(_asked)), None)
    return answer


def _key(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """A forked process has none of its parent's clients: their threads stay behind."""
    return (os.getpid(), *sorted((name, str(value)) for name, value in settings.items()))


def _nobody(error: KafkaError | None, record: object) -> None:
    """Nothing is under way."""
