"""From the arguments of `process` to the node of a processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.description.durations import Duration, optional_ms

if TYPE_CHECKING:
    from headrace.description.global_table import GlobalTable
    from headrace.description.processed import Makes, Processed
    from headrace.description.stores import Store
    from headrace.description.stream import Stream


def process_groups(
    stream: Stream,
    by: tuple[str, ...],
    processor: Makes,
    output: str | Mapping[str, str],
    stores: Sequence[Store | GlobalTable],
    rest: tuple[Duration | None, Duration | None, str, int, str | None, int],
) -> Processed:
    """See `GroupedStream.process`.

    In: by    none: groups are partitions
        rest  stream_wait, wall_wait, on_error, attempts, order and grace in ms
    """
    from headrace.description.global_table import GlobalTable  # its table may be made of such a node
    from headrace.description.processed import Processed  # it is such a node itself
    from headrace.description.record_headers import with_headers

    several = stores if isinstance(stores, Sequence) else ()
    tables = tuple(each for each in several if isinstance(each, GlobalTable))
    own: Any = [each for each in stores if not isinstance(each, GlobalTable)] if tables else stores
    stream_wait, wall_wait, on_error, attempts, order, grace_ms = rest
    return Processed(
        with_headers(stream, processor),
        by,
        processor,
        output,
        own,
        optional_ms(stream_wait, "stream_wait"),
        optional_ms(wall_wait, "wall_wait"),
        on_error,
        attempts,
        order,
        tables,
        grace_ms,
    )
