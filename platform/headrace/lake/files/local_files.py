"""Files on this machine's disk that survive a power cut from the moment at which they can be seen."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, content: bytes, *, overwrite: bool) -> bool:
    """Write a file in one step: a hidden one is written and flushed, and then takes the name.

    Out: False if the file existed and `overwrite` was False.
    """
    _make(path.parent)
    hidden = path.with_name(f".{path.name}.{uuid4()}.tmp")
    try:
        with hidden.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            hidden.replace(path)
        else:
            os.link(hidden, path)  # fails if the name is taken
    except FileExistsError:
        return False
    finally:
        hidden.unlink(missing_ok=True)
    _flush(path.parent)
    return True


def flush(path: Path) -> None:
    """Let a file that was written, and its name, survive a power cut."""
    with path.open("rb") as written:
        os.fsync(written.fileno())
    _flush(path.parent)


def copy(source: Path, target: Path) -> None:
    """Copy a file; the copy is flushed."""
    _make(target.parent)
    shutil.copyfile(source, target)
    flush(target)


def delete(path: Path) -> None:
    """Remove a file, or a folder with all below it. Nothing happens when there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def names(folder: Path) -> list[str]:
    """The names directly below a folder; empty when there is no such folder."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def names_below(folder: Path) -> list[str]:
    """The paths of all files below a folder, from it on."""
    above = len(str(folder)) + 1
    return [os.path.join(path, name)[above:] for path, _, names in os.walk(folder) for name in names]


def usage(folder: Path) -> tuple[int, int]:
    """The number of files below a folder, and their bytes. A file that goes meanwhile does not count."""
    files, size = 0, 0
    for above, _, found in os.walk(folder):
        for name in found:
            try:
                size += os.stat(os.path.join(above, name)).st_size
            except FileNotFoundError:
                continue
            files += 1
    return files, size


def _make(folder: Path) -> None:
    """Make a folder and those above it, each flushed into the one above."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(exist_ok=True)
    _flush(folder.parent)


def _flush(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
