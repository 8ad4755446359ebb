"""Local copies are bounded, and nothing that happens to them, or to the process that makes them, harms a read."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from shutil import disk_usage
from typing import Any

import pytest

from headrace.engine import state_copies, state_groups
from headrace.engine.state_copies import LOCK, TEMPORARY, StateCopies
from headrace.engine.state_files import StateSource
from tests.engine.test_state_copies import ANY_BYTES, HASHES, copies, files_of, read, use, written

pytestmark = pytest.mark.fast
__all__ = ["copies"]


def test_a_disk_that_is_full_for_the_copy_is_not_for_the_lake(
    tmp_path: Path, copies: StateCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_copies, "TRY_AGAIN_SECONDS", 0.0)
    folder = tmp_path / "copies"
    folder.mkdir(mode=0o700)
    (folder / TEMPORARY).symlink_to("/dev/full")  # each write to it fails with ENOSPC
    source = written(tmp_path)
    assert read(source, HASHES) == (HASHES, False)
    copies.wait()
    assert [path.name for path in folder.iterdir()] == [LOCK], "nothing is left of it"
    assert read(source, HASHES) == (HASHES, False)
    copies.wait()
    assert read(source, HASHES) == (HASHES, True), "the disk has room again"


def test_copies_leave_a_part_of_the_disk_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nearly_all = disk_usage(tmp_path).total
    use(monkeypatch, copies := StateCopies(tmp_path / "copies", ANY_BYTES, free_bytes_min=nearly_all))
    source = written(tmp_path)
    for _ in range(2):
        assert read(source, HASHES) == (HASHES, False)
        copies.wait()
    assert not files_of(copies)


def test_copies_have_so_many_bytes_at_most_and_those_in_use_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: StateCopies
) -> None:
    sources = [written(tmp_path, [*range(50 * n, 50 * n + 50)]) for n in range(3)]
    read(sources[0], HASHES)
    copies.wait()
    (first,) = files_of(copies)
    bound = copies.bytes + next(iter(sources[1].files.values())).size + 100
    use(monkeypatch, copies := StateCopies(first.parent, bound, free_bytes_min=0))
    monkeypatch.setattr(state_copies, "TRY_AGAIN_SECONDS", 0.0)

    def copied(number: int) -> bool:
        hashes = [*range(50 * number, 50 * number + 50)]
        read(sources[number], hashes)
        copies.wait()
        assert copies.bytes <= bound
        return read(sources[number], hashes)[1]

    assert [copied(number) for number in (0, 1, 2)] == [True, True, False]
    long_ago = time.time() - state_copies.IN_USE_SECONDS - 1
    os.utime(first, (long_ago, long_ago))
    assert copied(2), "that used longest ago makes room"
    assert not first.exists()
    assert copied(1)


def test_where_one_copy_does_not_fit_no_file_is_read_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, copies := StateCopies(tmp_path / "copies", 100, free_bytes_min=0))
    source = StateSource(f"{tmp_path}/state")
    for n in range(3):
        part = written(tmp_path, [*range(50 * n, 50 * n + 50)])
        source = StateSource(source.uri, {**source.files, **part.files})
    whole: list[str] = []
    really = state_groups.StateFile.whole

    def counted(file: state_groups.StateFile, size: int, footer: Any) -> Any:
        whole.append(file.uri)
        return really(file, size, footer)

    monkeypatch.setattr(state_groups.StateFile, "whole", counted)
    for _ in range(3):
        assert read(source, [*range(150)]) == ([*range(150)], False)
        copies.wait()
    assert not whole, "by its size the first one does not fit"
    assert copies._rests_until > time.monotonic()


def test_copies_of_files_that_the_table_no_longer_names_are_deleted(
    tmp_path: Path, copies: StateCopies
) -> None:
    source, other = written(tmp_path), written(tmp_path / "other")
    for each in (source, other):
        read(each, HASHES)
    copies.wait()
    assert len(files_of(copies)) == 2
    copies.keep(source.uri, source.files)
    assert len(files_of(copies)) == 2
    copies.keep(source.uri, [])
    assert len(files_of(copies)) == 1
    assert read(other, [7])[1]
    assert read(source, [7]) == ([7], False)


def test_copies_that_nobody_uses_leave_with_the_next_that_is_made(
    tmp_path: Path, copies: StateCopies
) -> None:
    read(written(tmp_path), HASHES)
    copies.wait()
    (first,) = files_of(copies)
    long_ago = time.time() - state_copies.UNUSED_SECONDS - 1
    os.utime(first, (long_ago, long_ago))
    read(written(tmp_path, [1]), [1])
    copies.wait()
    assert len(files_of(copies)) == 1
    assert not first.exists()


def test_a_folder_of_somebody_else_has_no_copies(tmp_path: Path, copies: StateCopies) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    folder.chmod(0o777)
    source = written(tmp_path)
    for _ in range(2):
        assert read(source, HASHES) == (HASHES, False)
        copies.wait()
    assert not [*folder.iterdir()]


KILLED = """
import sys
from pathlib import Path
from headrace.engine import state_reads
from tests.engine.test_state_copies import ANY_BYTES, StateCopies, StateSource, read
from headrace.lake.commits.snapshot import data_file
state_reads.MANY_GROUPS = state_reads.COPIED_ROWS_MIN = 1
state_reads.SPARSE_ROWS = 1_000
state_reads.COPIES = StateCopies(Path(sys.argv[2]), ANY_BYTES, free_bytes_min=0)
parts = [Path(each) for each in sys.argv[3:]]
source = StateSource(sys.argv[1], {part.name: data_file(part.stat().st_size, None) for part in parts})
read(source, [*range(0, 40_000, 10)])
print("asked", flush=True)
state_reads.COPIES.wait()
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_makes_copies_leaves_none_that_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rng = tmp_path / "copies", random.Random(4)
    source = StateSource(f"{tmp_path}/state")
    for number in range(4):
        part = written(tmp_path, [*range(number * 10_000, number * 10_000 + 10_000)])
        source = StateSource(source.uri, {**source.files, **part.files})
    parts = [f"{source.uri}/{name}" for name in source.files]
    wanted = [*range(0, 40_000, 10)]
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, source.uri, str(folder), *parts],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        use(monkeypatch, later := StateCopies(folder, ANY_BYTES, free_bytes_min=0))
        assert read(source, wanted) == (wanted, False)
        later.wait()
        assert read(source, wanted) == (wanted, True)
        assert not (folder / TEMPORARY).exists()
        for path in files_of(later)[: rng.randint(1, 4)]:
            path.unlink()
