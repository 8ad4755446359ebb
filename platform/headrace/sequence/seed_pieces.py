"""The pieces in which the rows of a seed are appended to a log.

Law: the pieces cover each offset of the seed once, those of a partition in order. The first piece has the first offset of
every partition. So no partition begins after a commit that has moved stream time, and the rows of the log do not depend on
the number of pieces, but for `ingested_at`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class SeedState:
    """A seed that a log has not read to its end.

    source   the place of its rows
    version  of the Delta table; None: they are files
    first    the first offset of each partition
    last     the last one
    then     for rows without positions: where Kafka goes on, of each partition; None: the rows have positions
    pieces   in how many pieces it is appended
    """

    source: str
    version: int | None
    first: Mapping[int, int]
    last: Mapping[int, int]
    then: Mapping[int, int] | None
    pieces: int

    def is_read_by(self, next_offsets: Mapping[int, int]) -> bool:
        """True if a log with these next offsets holds all of it."""
        return all(next_offsets.get(partition, offset) > offset for partition, offset in self.last.items())

    def left(self, next_offsets: Mapping[int, int]) -> Iterator[dict[int, range]]:
        """The offsets of each partition that are left, piece by piece. In: next_offsets  of the log."""
        for number in range(self.pieces):
            piece = {}
            for partition, first in sorted(self.first.items()):
                span = self.last[partition] + 1 - first
                begin, end = (first - (-span * at // self.pieces) for at in (number, number + 1))
                begin = max(begin, next_offsets.get(partition, begin))
                if begin < end:
                    piece[partition] = range(begin, end)
            if piece:
                yield piece

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON document."""
        return {name: _keyed_by_text(value) for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SeedState:
        """The state that `to_json` wrote."""
        found = cls(**document)
        numbered = ({int(p): at for p, at in each.items()} for each in (found.first, found.last))
        first, last = numbered
        then = None if found.then is None else {int(p): at for p, at in found.then.items()}
        return replace(found, first=first, last=last, then=then)


def _keyed_by_text(value: Any) -> Any:
    return {str(key): of for key, of in value.items()} if isinstance(value, Mapping) else value
