"""The broker that these tests share with those of crashes."""

from __future__ import annotations

from tests.broker.harness import kafka, lake, new_topic

__all__ = ["kafka", "lake", "new_topic"]
