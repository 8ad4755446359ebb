"""A lake for each test."""

from __future__ import annotations

from tests.broker.harness import lake

__all__ = ["lake"]
