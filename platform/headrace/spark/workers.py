"""Python workers, which Spark uses task after task: what none of these has to pay for again, and what it may keep."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import TypeVar
from zipimport import zipimporter

import pyarrow as pa

Work = TypeVar("Work")
Batches = Iterable[pa.RecordBatch]
KEPT_BYTES = 256 << 20  # a worker of this size has done no large task


def in_worker(
    work: Callable[[Work, Batches], Batches],
) -> Callable[[Work, Batches], Iterator[pa.RecordBatch]]:
    """The work of a task, for `mapInArrow`, between what makes it cheaper and what gives its memory back."""

    @wraps(work)
    def run(self: Work, batches: Batches) -> Iterator[pa.RecordBatch]:
        settle()
        yield from work(self, batches)
        give_back()

    return run


def settle() -> None:
    """Make the next tasks of this worker cheaper; to be called in a task.

    Before each task PySpark has Python look anew for modules. It then reads the directories of archives again, in Python,
    once for each package that came out of them: 0.1 s for PySpark itself. An archive that is forgotten is not read, and is
    found again by whoever imports from it.

    After each task PySpark collects garbage among all that is there, 0.03 s for what was imported. This it leaves out from
    now on.
    """
    archives = [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]
    for path in archives:
        del sys.path_importer_cache[path]
    _leave_out_what_is_there()


@cache
def _leave_out_what_is_there() -> None:
    """Runs once in a process: Python would count all objects, for 0.005 s a task, to tell whether it has run."""
    gc.collect()
    gc.freeze()


def give_back() -> None:
    """Give the system the memory that a large task has freed: allocators keep it for the next task, and others need it."""
    if _resident_bytes() <= KEPT_BYTES:
        return
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


def _resident_bytes() -> int:
    """The size of this process; 0 where Linux does not tell it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()
