"""Small files of the lake: leases, plans, requests, descriptions. Each is written whole or not at all.

On a local disk Python writes them, because obstore does not flush what it writes there; everywhere else obstore does. Names
are taken as they stand; the store's client escapes what its protocol cannot carry.

Raises, of an object store: TerminalError when it refuses the credentials or has no such bucket; TransientError when it does
not answer. Both name the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from headrace.lake.files import local_files, object_files
from headrace.lake.storage import is_local, local_path


def exists(uri: str) -> bool:
    """True if there is a file or a folder of that name."""
    return local_path(uri).exists() if is_local(uri) else object_files.exists(uri)


def write_json(uri: str, content: Any, *, overwrite: bool = True) -> bool:
    """Write one file.

    In:     overwrite  False: only if no such file exists; of several writers one succeeds. Leases rest on it.
    Out:    False if the file existed and `overwrite` was False
    """
    return write_bytes(uri, json.dumps(content, sort_keys=True).encode(), overwrite=overwrite)


def write_bytes(uri: str, content: bytes, *, overwrite: bool = True) -> bool:
    """Write one file, as `write_json` does."""
    if is_local(uri):
        return local_files.write(local_path(uri), content, overwrite=overwrite)
    if not overwrite:
        return object_files.create(uri, content)
    object_files.overwrite(uri, content)
    return True


def read_json(uri: str) -> Any | None:
    """The file's content, or None if there is no such file."""
    content = read_bytes(uri)
    return None if content is None else json.loads(content)


def read_text(uri: str) -> str | None:
    """The file's text (UTF-8), or None if there is no such file."""
    content = read_bytes(uri)
    return None if content is None else content.decode()


def read_bytes(uri: str) -> bytes | None:
    """The file's bytes, or None if there is no such file."""
    try:
        return local_path(uri).read_bytes() if is_local(uri) else object_files.read(uri)
    except FileNotFoundError:
        return None


def modified_ms(uri: str) -> int:
    """When a file was written, in ms since 1970 by the clock of its store. Object stores tell whole seconds.

    Raises: FileNotFoundError
    """
    return local_path(uri).stat().st_mtime_ns // 1_000_000 if is_local(uri) else object_files.modified_ms(uri)


def copy(source: str, target: str) -> None:
    """Copy one file to another place, of the same store or not. Raises: FileNotFoundError."""
    if is_local(source) and is_local(target):
        local_files.copy(local_path(source), local_path(target))
    elif not is_local(source) and not is_local(target) and object_files.share_store(source, target):
        object_files.copy(source, target)
    else:
        content = read_bytes(source)
        if content is None:
            raise FileNotFoundError(source)
        write_bytes(target, content)


def delete(uri: str) -> None:
    """Remove a file, or a folder with all below it. Nothing happens when there is none."""
    if is_local(uri):
        local_files.delete(local_path(uri))
    else:
        object_files.delete(uri)


def delete_files(uris: Iterable[str]) -> None:
    """Remove files of one folder or lake; none of them is a folder, so nothing has to be listed. Missing ones are passed."""
    uris = [*uris]
    if uris and is_local(uris[0]):
        for uri in uris:
            local_path(uri).unlink(missing_ok=True)
    elif uris:
        object_files.delete_each(uris)


def names(uri: str) -> list[str]:
    """The names directly below a folder, sorted, without hidden ones (a dot first). Empty when there is no such folder."""
    found = local_files.names(local_path(uri)) if is_local(uri) else object_files.names(uri)
    return sorted({name for name in found if not name.startswith(".")})


def names_below(uri: str) -> list[str]:
    """The paths of all files below a folder, however deep, from the folder on; without those that are hidden."""
    paths = local_files.names_below(local_path(uri)) if is_local(uri) else object_files.names_below(uri)
    return [path for path in paths if not path.rpartition("/")[2].startswith(".")]


def usage(uri: str) -> tuple[int, int]:
    """The number of files below a folder, however deep, and their bytes."""
    return local_files.usage(local_path(uri)) if is_local(uri) else object_files.usage(uri)
