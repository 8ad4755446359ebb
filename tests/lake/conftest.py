"""A lake for each test."""

from tests.broker.harness import lake

__all__ = ["lake"]
