from __future__ import annotations

from tests.broker.harness import kafka

__all__ = ["kafka"]
