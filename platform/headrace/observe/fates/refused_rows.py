"""The rows that the sinks of a node have refused, grouped by sink and reason, with examples."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace import lake as lakes
from headrace.lake.files.sorted_rows import all_rows
from headrace.nodes.refused_tables import refused_tables
from headrace.observe.fates.dead_letters import NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.lake.paths import Lake

READ = pa.schema(
    [("row", pa.string()), ("reason", pa.string()), ("sequence", pa.int64()), ("ordinal", pa.int32())]
)


@dataclass(frozen=True)
class RefusedRows:
    """Holds the rows that one sink refuses for one reason, in which numbers are written as `#`.

    examples  the newest, as JSON
    """

    sink: str
    reason: str
    rows: int
    examples: Sequence[str]

    def __str__(self) -> str:
        """A line for the reason, and one for each example."""
        head = f"{self.rows:,} × {self.reason} (sink {self.sink})"
        return "\n".join([head, *(f"  {row}" for row in self.examples)])


def refused_rows(lake: Lake, node: str, examples: int) -> list[RefusedRows]:
    """The refused rows of a node, also of sinks that it had; the reason with most rows comes first. Spark is not needed."""
    groups = [
        each for sink, path in refused_tables(lake, node).items() for each in _of_sink(path, sink, examples)
    ]
    return sorted(groups, key=lambda each: (-each.rows, each.sink, each.reason))


def _of_sink(uri: str, sink: str, examples: int) -> Iterator[RefusedRows]:
    files = [f"{uri}/{name}" for name in lakes.open_table(uri).snapshot().files]
    rows = pa.concat_tables([READ.empty_table(), *all_rows(files, READ)])
    newest = rows.sort_by([("sequence", "descending"), ("ordinal", "descending")])
    alike: dict[str, list[int]] = defaultdict(list)
    for number, reason in enumerate(newest["reason"].to_pylist()):
        alike[re.sub(NUMBER, "#", reason)].append(number)
    for reason, numbers in alike.items():
        yield RefusedRows(
            sink, reason, len(numbers), tuple(newest["row"].take(numbers[:examples]).to_pylist())
        )
