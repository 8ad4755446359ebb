"""Small files of the lake: leases, plans, requests, descriptions. Each is written whole or not at all.

Python writes those on a local disk itself, because obstore does not flush what it writes there. Everywhere else obstore
writes them. Names are taken as they stand; the store's client escapes what its protocol cannot carry.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headrace.lake import local_files
from headrace.lake.storage import is_local, local_path, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from obstore import ObjectMeta


def exists(uri: str) -> bool:
    """True if there is a file or a folder of that name."""
    if is_local(uri):
        return local_path(uri).exists()
    import obstore

    store, path = store_of(uri)
    try:
        obstore.head(store, path)
    except FileNotFoundError:
        return any(True for _ in _below(uri))
    return True


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
    import obstore
    from obstore.exceptions import AlreadyExistsError

    try:
        obstore.put(*store_of(uri), content, mode="overwrite" if overwrite else "create")
    except AlreadyExistsError:
        return False
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
        if is_local(uri):
            return local_path(uri).read_bytes()
        import obstore

        return bytes(obstore.get(*store_of(uri)).bytes())
    except FileNotFoundError:
        return None


def delete(uri: str) -> None:
    """Remove a file, or a folder with all below it. Nothing happens when there is none."""
    if is_local(uri):
        return local_files.delete(local_path(uri))
    import obstore

    store, path = store_of(uri)
    with suppress(FileNotFoundError):
        obstore.delete(store, path)
    for found in _below(uri):
        obstore.delete(store, [each["path"] for each in found])


def names(uri: str) -> list[str]:
    """The names directly below a folder, sorted, without hidden ones (a dot first). Empty when there is no such folder."""
    if is_local(uri):
        found = local_files.names(local_path(uri))
    else:
        import obstore

        listed = obstore.list_with_delimiter(*store_of(uri))
        paths = [each["path"] for each in listed["objects"]] + list(listed["common_prefixes"])
        found = [path.rpartition("/")[2] for path in paths]
    return sorted({name for name in found if not name.startswith(".")})


def usage(uri: str) -> tuple[int, int]:
    """The number of files below a folder, however deep, and their bytes."""
    if is_local(uri):
        return local_files.usage(local_path(uri))
    sizes = [each["size"] for found in _below(uri) for each in found]
    return len(sizes), sum(sizes)


def _below(uri: str) -> Iterator[Sequence[ObjectMeta]]:
    """The objects below a prefix, some hundred at a time."""
    import obstore

    store, path = store_of(uri)
    return iter(obstore.list(store, path, chunk_size=500))
