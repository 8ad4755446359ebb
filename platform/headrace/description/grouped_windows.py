"""Grouped windows: if they are final a stream or a table, whichever the next step can be of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.aggregates import Aggregate
from headrace.description.grouped import GroupedStream
from headrace.description.regrouped import OF_TABLES, GroupedTable
from headrace.description.windowed import WindowedAggregate
from headrace.description.wording import listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.batches import Batches
    from headrace.description.grouped import WindowedStream
    from headrace.description.processed import Processed
    from headrace.description.regrouped import TableAggregate
    from headrace.description.running import RunningAggregate

BY_ORDER = ("collect",)  # kinds of which the order of the windows makes the value


@dataclass(frozen=True)
class GroupedWindows(GroupedTable, kind="grouped table"):
    """Windows and the columns that they are grouped by.

    Windows that are not suppressed are a table alone.

    Law: `window`, `batch`, `process` and `with_previous` are of streams. An aggregate that both readings have gives the same
    rows in both, because each final window is in the table once and for good: of equal ranks the lowest key is the first.
    Where the order of the windows makes the value, the description has to say which order it is.
    """

    table: WindowedAggregate

    def aggregate(self, **aggregates: Aggregate) -> TableAggregate | RunningAggregate:  # type: ignore[override]
        """Keep one row for each group, with a column for each aggregate over the final windows so far.

        Raises: DescriptionError when the order of the windows matters, and it may be that of a stream or of a table
        """
        kinds = {name: getattr(aggregate, "kind", None) for name, aggregate in aggregates.items()}
        if self.table.suppression is None:
            return super().aggregate(**aggregates)
        if self.table.no_side is not None or not set(kinds.values()) <= {*OF_TABLES, None}:
            return self._as_stream.aggregate(**aggregates)
        ordered = [name for name, kind in kinds.items() if kind in BY_ORDER]
        if ordered:
            columns = listed(map(repr, self.by))
            raise DescriptionError(
                f"aggregate: {ordered[0]} of final windows has two readings: the windows in the order in which they "
                "close, or in the order of their keys.",
                hint=f"Write .as_stream().group_by({columns}).aggregate(…) for the first, and "
                f".changes().table().group_by({columns}).aggregate(…) for the second.",
            )
        return super().aggregate(**aggregates)

    def window(self, *window: Any, **options: Any) -> WindowedStream:
        """Group the final windows by windows of their own: see `GroupedStream.window`."""
        return self._as_stream.window(*window, **options)

    def batch(self, **options: Any) -> Batches:
        """Collect final windows into batches: see `GroupedStream.batch`."""
        return self._as_stream.batch(**options)

    def process(self, processor: Any, **options: Any) -> Processed:
        """Run a processor over the final windows: see `GroupedStream.process`."""
        return self._as_stream.process(processor, **options)

    def with_previous(self, **options: Any) -> Processed:
        """Give each final window values of the one before it: see `GroupedStream.with_previous`."""
        return self._as_stream.with_previous(**options)

    @property
    def _as_stream(self) -> GroupedStream:
        return GroupedStream(self.table.as_stream(), self.by)
