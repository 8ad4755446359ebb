"""How far a log has come, told to Kafka as the offsets of a consumer group, for people's dashboards of consumer lag.

Law: nothing reads these offsets back. They are told after the log's commit, so the group is never ahead of the log.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.spark.kafka import KafkaTopic

logger = structlog.get_logger(__name__)
EVERY_SECONDS, AFTER_FAILURE_SECONDS = 5.0, 60.0


class ConsumerGroup:
    """Tells Kafka how far one topic was read."""

    def __init__(self, kafka: KafkaTopic) -> None:
        """Nothing is told yet; without a group in the settings nothing ever is."""
        self._kafka, self._group = kafka, kafka.settings.group
        self._reported: dict[int, int] = {}
        self._next_at = 0.0
        self._failure = ""

    def commit(self, offsets: Mapping[int, int], *, at_once: bool = False) -> None:
        """Tell the next offset of each partition, if one has changed and the last time is long ago. Never raises."""
        changed = {p: offset for p, offset in offsets.items() if self._reported.get(p) != offset}
        if not self._group or not changed or (not at_once and time.monotonic() < self._next_at):
            return
        try:
            self._kafka.commit_offsets(self._group, changed)
        except HeadraceError as error:
            self._next_at = time.monotonic() + AFTER_FAILURE_SECONDS
            if self._failure != str(error):
                logger.warning(
                    "consumer group not told", group=self._group, topic=self._kafka.name, error=str(error)
                )
            self._failure = str(error)
            return
        self._reported |= changed
        self._next_at, self._failure = time.monotonic() + EVERY_SECONDS, ""
