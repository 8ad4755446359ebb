"""Notices: small files by which people, commands and other runs ask something of a running stream.

All of a lake lie below one folder. One listing serves all that look in a process, so that many quiet streams ask an object
store no more often than one does.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.lake import small_files
from headrace.lake.storage import is_local

FOLDER = "notices"
WITHIN = re.compile(rf"(.*)/{FOLDER}/((?:paused|requests|readers)(?:/.*)?)")  # the lake's root, and the path
# For these a listing counts as recent. Each one of an object store is paid for.
LOCAL_SECONDS, STORE_SECONDS = 1.0, 6.0
Names = Callable[[str], list[str]]  # the names directly below a folder, sorted


@dataclass
class _Listing:
    names: Mapping[str, Sequence[str]] | None = None  # None: never listed
    due_at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


_LISTINGS: defaultdict[str, _Listing] = defaultdict(_Listing)


def recent_names(folder: str) -> list[str]:
    """The names directly below a folder of notices, as of some seconds ago at most; `small_files.names` gives those of now.

    Raises: as `small_files.names`; afterwards the listing before that stands, if there was one
    """
    within = WITHIN.fullmatch(folder)
    assert within is not None
    root, path = within.groups()
    listing = _LISTINGS[root]
    with listing.lock:
        names = listing.names
        if names is None or time.monotonic() >= listing.due_at:
            listing.due_at = time.monotonic() + (LOCAL_SECONDS if is_local(root) else STORE_SECONDS)
            listing.names = names = _by_folder(small_files.names_below(f"{root}/{FOLDER}"))
        return [*names.get(path, ())]


def _by_folder(paths: Sequence[str]) -> dict[str, Sequence[str]]:
    """The names directly below each folder. In: paths  of files."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for path in paths:
        while path:
            path, _, name = path.rpartition("/")
            names[path].add(name)
    return {folder: sorted(each) for folder, each in names.items()}
