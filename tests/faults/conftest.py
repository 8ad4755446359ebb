"""The servers that these tests share with those of other folders."""

from __future__ import annotations

from tests.broker.harness import kafka, lake, new_topic
from tests.sinks.conftest import postgres, server

__all__ = ["kafka", "lake", "new_topic", "postgres", "server"]
