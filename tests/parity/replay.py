"""Recorded inputs in random cuts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Line = dict[str, Any]


def in_random_cuts(
    records: Mapping[str, Sequence[Line]], cuts: int, seed: int
) -> Iterator[dict[str, tuple[Sequence[Line], int]]]:
    """For each cut and each case the records in it, and how many of the case there are by its end."""
    chance = random.Random(seed)
    bounds = {
        name: [0, *sorted(chance.sample(range(1, len(lines)), cuts - 1)), len(lines)]
        for name, lines in records.items()
    }
    for cut in range(cuts):
        yield {
            name: (lines[bounds[name][cut] : bounds[name][cut + 1]], bounds[name][cut + 1])
            for name, lines in records.items()
        }
