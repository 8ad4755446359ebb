"""Work on several files of an object store at once: most of its time is waiting."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.lake.storage import is_local

T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 8


def each(work: Callable[[T], R], items: Collection[T], uri: str) -> Iterator[R]:
    """Do something with each item, and give what comes of it in their order. In: uri  where the files lie."""
    if is_local(uri) or len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(work, items)
