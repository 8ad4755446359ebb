"""The identity of the code that folds: what one process has folded, another one goes on with only if both run the same.

The release number does not tell it: of a checkout, the code changes under one number.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from uuid import uuid4

import headrace


@cache
def code_digest() -> str:
    """The digest of Headrace's own Python files, in hex. Some thousand are read, once in a process, in about 0.1 s."""
    return digest_of_files(Path(headrace.__file__).parent, headrace.__loaded_at__)


def digest_of_files(folder: Path, loaded_at: float) -> str:
    """The digest of the Python files below a folder, by their paths and contents.

    In:  loaded_at  when a process loaded them, in seconds since 1970
    Out: in hex; a random one if a file was changed since: the process may run what it was before
    """
    files = sorted(folder.rglob("*.py"))
    if any(file.stat().st_ctime > loaded_at for file in files):
        return uuid4().hex
    digests = (
        f"{file.relative_to(folder).as_posix()}:{hashlib.sha256(file.read_bytes()).hexdigest()}"
        for file in files
    )
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()
