"""Work on several files of an object store at once, because most of that time is waiting."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.lake.storage import is_local

T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 8  # files


def each(work: Callable[[T], R], items: Collection[T], uri: str) -> Iterator[R]:
    """Call `work` with each item; its results come in the order of the items.

    In:     uri  where the files lie: on a local disk they are worked on one after the other
    Raises: what `work` raises
    """
    if is_local(uri) or len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(work, items)
