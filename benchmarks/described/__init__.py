"""The descriptions that are measured, each with what its topics say that its rows must be."""

from benchmarks.described.by_hand import BY_HAND
from benchmarks.described.description import Description
from benchmarks.described.memory import MEMORY
from benchmarks.described.on_tables import ON_TABLES
from benchmarks.described.on_windows import ON_WINDOWS, PLAIN

DESCRIPTIONS = (*ON_WINDOWS, *ON_TABLES)

__all__ = ["BY_HAND", "DESCRIPTIONS", "MEMORY", "PLAIN", "Description"]
