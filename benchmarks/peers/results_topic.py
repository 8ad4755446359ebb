"""The topic of results of a peer's application, as a reader of committed records sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message


class ResultsTopic:
    """Reads a topic from its beginning. Its name is known once the application runs."""

    def __init__(self, bootstrap: str, beginning: str, ending: str = "-out") -> None:
        """Nothing is read yet. In: beginning, ending  of the topic's name."""
        options = {"bootstrap.servers": bootstrap, "group.id": "looks", "isolation.level": "read_committed"}
        self._consumer = Consumer({**options, "enable.auto.commit": False})
        self._beginning, self._ending, self._is_there = beginning, ending, False

    def read(self, seconds: float) -> Sequence[Message]:
        """The committed messages that were not read yet, several at once.

        In: seconds  waits so long at most
        """
        self._is_there = self._is_there or self._assign()
        messages = self._consumer.consume(10_000, seconds) if self._is_there else []
        return [message for message in messages if message.error() is None]

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()

    def _assign(self) -> bool:
        topics = self._consumer.list_topics(timeout=10).topics
        for name in topics:
            if name.startswith(self._beginning) and name.endswith(self._ending):
                partitions = [
                    TopicPartition(name, each, OFFSET_BEGINNING) for each in topics[name].partitions
                ]
                self._consumer.assign(partitions)
                return True
        return False
