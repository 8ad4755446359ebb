"""The local S3 server: it asks for credentials, keeps its data and leaves no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from headrace.local.object_store import ObjectStore, ObjectStoreFailed
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.s3
TALK = """
import sys
from headrace.lake import small_files
uri = sys.argv[1] + "/kept.json"
print(small_files.write_json(uri, {"n": 1}, overwrite=False), small_files.read_json(uri))
"""


def talk(store: ObjectStore, **changed: str) -> subprocess.CompletedProcess[str]:
    """Create and read a file in a process of its own, because a process keeps the credentials that it began with."""
    env = {**os.environ, **store.environment, **changed}
    command = [sys.executable, "-c", TALK, f"{store.root}/talk"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_its_data_and_credentials_survive_kill_and_restart(tmp_path: Path) -> None:
    def says(store: ObjectStore, expected: str) -> None:
        said = talk(store)
        assert said.stdout == expected, said.stderr

    with ObjectStore(tmp_path) as store:
        says(store, "True {'n': 1}\n")
        store.kill()
        store.start().wait_ready()
        says(store, "False {'n': 1}\n")
        before = dict(store.environment)
    with ObjectStore(tmp_path) as store:
        assert store.environment == before
        says(store, "False {'n': 1}\n")


def test_nobody_is_served_without_the_right_credentials(object_store: ObjectStore) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{object_store.endpoint}/lake/talk/kept.json")
    refused = talk(object_store, AWS_SECRET_ACCESS_KEY="guessed")
    assert refused.returncode != 0
    assert "SignatureDoesNotMatch" in refused.stderr
    assert "s3://lake/talk/kept.json" in refused.stderr
    assert not [
        secret
        for secret in ("guessed", object_store.environment["AWS_SECRET_ACCESS_KEY"])
        if secret in refused.stderr
    ]
    assert (object_store.data_dir / "identities.json").stat().st_mode & 0o077 == 0


def test_a_second_server_over_its_folder_is_refused(object_store: ObjectStore) -> None:
    object_store.start().wait_ready()
    with pytest.raises(ObjectStoreFailed, match="is taken"):
        ObjectStore(object_store.data_dir).start()


def test_a_program_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ObjectStoreFailed, match="weed") as refusal:
        ObjectStore(tmp_path).start()
    assert "HEADRACE_WEED" in str(refusal.value)


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom headrace.local.object_store import ObjectStore\n"
        "print(ObjectStore(Path(sys.argv[1])).start().wait_ready().pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )
    pid = int(done.stdout)
    until(lambda: not Path(f"/proc/{pid}").exists())
