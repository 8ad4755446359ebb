"""The settings of a topic that decide which records its broker takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RECORD_BYTES_MAX = 1_048_588
AHEAD_MS_MAX = 3_600_000
BEHIND_MS_MAX = (1 << 63) - 1
COMPACT = "compact"
AS_SENT = "producer"
# A codec's name in a topic's settings, where it is not that of the client.
_OF_TOPICS = {"none": "uncompressed"}
NO_TIMESTAMP = -1  # Kafka's sign for a record without a time
NOT_SENDABLE_MS = {
    0: "1970-01-01 00:00:00, and Kafka's client takes 0 for the present; 1 ms later it can be sent",
    NO_TIMESTAMP: "1969-12-31 23:59:59.999, and Kafka takes -1 for no time; 1 ms earlier it can be sent",
}


@dataclass(frozen=True)
class TopicLimits:
    """The records that a topic takes. The defaults are those of Kafka 4.

    record_bytes_max  the longest batch of records
    ahead_ms_max      how far a record's timestamp may lie ahead of the broker's clock (`message.timestamp.after.max.ms`)
    behind_ms_max     how far it may lie behind (`message.timestamp.before.max.ms`)
    is_compacted      True if the broker keeps the newest record of each key alone, so every record needs a key
    compression       as the broker keeps records (`compression.type`); "producer": as they were sent
    """

    record_bytes_max: int = RECORD_BYTES_MAX
    ahead_ms_max: int = AHEAD_MS_MAX
    behind_ms_max: int = BEHIND_MS_MAX
    is_compacted: bool = False
    compression: str = AS_SENT

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> TopicLimits:
        """Read Kafka's own settings. A broker before 3.6 has no bounds of timestamps, and names none."""
        stamps = settings.get("message.timestamp.type") != "LogAppendTime"
        unbounded = str(BEHIND_MS_MAX)
        return cls(
            int(settings["max.message.bytes"]),
            int(settings.get("message.timestamp.after.max.ms", unbounded)) if stamps else BEHIND_MS_MAX,
            int(settings.get("message.timestamp.before.max.ms", unbounded)) if stamps else BEHIND_MS_MAX,
            COMPACT in settings.get("cleanup.policy", ""),
            settings.get("compression.type", AS_SENT),
        )

    def refusal(
        self, key: bytes | None, timestamp_ms: int | None, now_ms: int, codec: str = "none"
    ) -> str | None:
        """Why a record cannot be sent as it is; None: it can, if it is not too long.

        In: timestamp_ms  None: the record has no time
            codec         by which the client compresses records
        """
        if self.is_compacted and key is None:
            return "the record has no key, and the topic is compacted (cleanup.policy)"
        if timestamp_ms is None:
            return None
        if timestamp_ms in NOT_SENDABLE_MS:
            return f"timestamp: {NOT_SENDABLE_MS[timestamp_ms]}"
        if timestamp_ms < 0 and self.compression not in (AS_SENT, _OF_TOPICS.get(codec, codec)):
            return (
                f"the event time lies before 1970, and the topic compresses records again (compression.type="
                f"{self.compression}): Kafka's broker then takes no such time. Set compression.type=producer"
            )
        if timestamp_ms - now_ms > self.ahead_ms_max:
            return (
                f"the event time lies more than {self.ahead_ms_max:,} ms ahead of the clock, and the topic takes no such "
                "record (message.timestamp.after.max.ms)"
            )
        if now_ms - timestamp_ms > self.behind_ms_max:
            return (
                f"the event time lies more than {self.behind_ms_max:,} ms behind the clock, and the topic takes no such "
                "record (message.timestamp.before.max.ms)"
            )
        return None
