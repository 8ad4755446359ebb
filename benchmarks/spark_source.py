"""Spark's own Kafka source, which the benchmarks hold Headrace's reader against."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.settings.kafka import KafkaSettings


def source_options(kafka: KafkaSettings) -> dict[str, str]:
    """How it reads committed records of a local broker, which takes anybody."""
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers, "kafka.isolation.level": "read_committed"}
