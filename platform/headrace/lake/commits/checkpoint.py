"""Delta's checkpoint of a table in an object store, for a handful of requests.

To write a checkpoint, delta-rs reads each commit after the one before it four times. Here it reads them in a copy of the log
on this machine's disk. A commit of this process costs no request, and any other commit one.

Law: the checkpoint is that of delta-rs, made from exactly the objects that one listing of the log shows. The file is put
whole, then the pointer to it. If the log is another one by then, nothing is put.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.lake import small_files
from headrace.lake.commits.features import is_plain
from headrace.lake.commits.metadata import metadata_of
from headrace.lake.files import object_files
from headrace.lake.files.object_files import ListedObject

COMMIT, WHOLE = re.compile(r"\d{20}\.json"), re.compile(r"\d{20}\.checkpoint\.parquet")
LOG, POINTER = "_delta_log", "_last_checkpoint"
AT_ONCE = 8  # requests


@dataclass(frozen=True)
class _Written:
    """A checkpoint and the pointer to it, as delta-rs wrote them."""

    checkpoint: bytes
    pointer: bytes


def last_checkpoint(uri: str) -> int:
    """The version of a table's newest checkpoint; -1: it has none."""
    found = small_files.read_json(f"{uri}/{LOG}/{POINTER}")
    return -1 if found is None else int(found["version"])


def write_checkpoint(uri: str) -> int | None:
    """Write the checkpoint of the newest version of a table in an object store. Others may commit or do the same meanwhile.

    Out: the version; None: nothing was put, and delta-rs has to do it where the table is. The log has a checkpoint of
         several files or a feature that is not plain (see `features.is_plain`), it changed, or the disk has no room.
    """
    objects = _since_checkpoint(uri)
    if not objects:
        return None
    newest = objects[-1]
    version, name = int(newest.name[:20]), f"{newest.name[:20]}.checkpoint.parquet"
    if newest.name == name:
        return version  # nothing came after it
    written = _by_delta_rs(objects, name)
    if written is None or not object_files.stands(newest):
        return None
    is_first = small_files.write_bytes(f"{uri}/{LOG}/{name}", written.checkpoint, overwrite=False)
    if is_first and last_checkpoint(uri) < version:
        small_files.write_bytes(f"{uri}/{LOG}/{POINTER}", written.pointer)
    return version


def _since_checkpoint(uri: str) -> list[ListedObject]:
    """The newest checkpoint and the commits after it, without a gap; none: the log is not of that kind."""
    begin = max(last_checkpoint(uri), 0)
    listed = {each.name: each for each in object_files.listed_after(f"{uri}/{LOG}", f"{begin:020d}")}
    checkpoints = sorted(name for name in listed if ".checkpoint." in name)
    first = int(checkpoints[-1][:20]) + 1 if checkpoints else 0
    commits = sorted(name for name in listed if COMMIT.fullmatch(name) and int(name[:20]) >= first)
    is_whole = all(WHOLE.fullmatch(name) for name in checkpoints)
    has_no_gap = [int(name[:20]) for name in commits] == [*range(first, first + len(commits))]
    return [listed[name] for name in [*checkpoints[-1:], *commits]] if is_whole and has_no_gap else []


def _by_delta_rs(objects: list[ListedObject], name: str) -> _Written | None:
    """Let delta-rs write a checkpoint in a copy of the log. In: name  of its file."""
    from deltalake.exceptions import DeltaError

    try:
        with TemporaryDirectory(prefix="headrace-checkpoint-") as folder:
            return _in_copy(Path(folder), objects, name)
    except (OSError, DeltaError):  # an object is gone, the disk is full, there are files beside the log
        return None


def _in_copy(folder: Path, objects: list[ListedObject], name: str) -> _Written | None:
    from deltalake import DeltaTable

    log = folder / LOG
    log.mkdir()

    def copy(each: ListedObject) -> None:
        (log / each.name).write_bytes(object_files.read_listed(each))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(copy, objects))
    table = DeltaTable(folder)
    if not is_plain(metadata_of(table)):
        return None
    table.create_checkpoint()
    new = {path.name for path in log.iterdir()} - {each.name for each in objects}
    if new != {name, POINTER}:
        return None
    return _Written((log / name).read_bytes(), (log / POINTER).read_bytes())
