"""The lake: whether it can be reached and written, whether files are created once, which version has written it, and whether
its store's clock agrees with this machine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from headrace.lake import small_files
from headrace.lake.clocks import ahead_ms, require_agreement
from headrace.lake.format import is_known, no_conditional_puts
from headrace.preflight.finding import tried

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.preflight.finding import Finding


def check_lake(root: str) -> Iterator[Finding]:
    """Read the lake's mark, create one small file twice (the second time has to fail), and ask when one was written."""
    read = tried(f"lake {root}, format", lambda: _format(root))
    yield read
    if read.ok:
        put = tried(f"lake {root}, conditional put", lambda: _conditional_put(root))
        yield put
        if put.ok:
            yield tried(f"lake {root}, clock", lambda: _clock(root))


def _format(root: str) -> str:
    if is_known(root):
        return "this version's"
    return "new: nothing is there yet, or a build before formats wrote it"


def _conditional_put(root: str) -> str:
    path = f"{root}/checks/{uuid4().hex}.json"
    try:
        first = small_files.write_json(path, {}, overwrite=False)
        if not first or small_files.write_json(path, {}, overwrite=False):
            raise no_conditional_puts(root)
    finally:
        small_files.delete(path)
    return "a file is created once, and removed"


def _clock(root: str) -> str:
    path = f"{root}/checks/{uuid4().hex}.json"
    try:
        require_agreement(root, ahead_ms(path))
    finally:
        small_files.delete(path)
    return "this machine's agrees with the store's"
