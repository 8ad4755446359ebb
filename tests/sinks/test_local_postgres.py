"""The local PostgreSQL server for root, in a checkout below a folder that only root may enter."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import psycopg
import pytest

from headrace.local.postgres import VARIABLE, Postgres, binaries

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has a folder that the server may not enter"),
]


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of root's alone that holds the package, installed under a umask of 077."""
    folder, package = tmp_path / "checkout", binaries().parent.parent
    for name in (package.name, f"{package.name}.libs"):
        shutil.copytree(
            package.parent / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("pginstall18")
        )
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)
    monkeypatch.setenv(VARIABLE, str(folder / package.name / "pginstall" / "bin"))
    return folder


def test_root_starts_it_in_a_checkout_that_nobody_else_may_enter(private: Path) -> None:
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    with Postgres(private / "data") as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (n INT)")
        server.kill()
        server.start().wait_ready()
        with psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        place, programs = server.data_dir, server._binaries
        assert (programs / "initdb").is_file()
    assert not programs.exists(), "the copy is gone"
    shutil.rmtree(place.parent)
