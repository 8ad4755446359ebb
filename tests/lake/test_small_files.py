"""Small files: written whole or not at all, and by one of several writers."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from subprocess import PIPE
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError

from headrace.errors import TransientError
from headrace.lake import small_files
from headrace.local.servers.broker_config import HOST
from tests.waiting import PATIENCE_S

WRITTEN, CLAIMED = 300, 100


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.s3)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty lake on a disk, and one on S3."""
    return f"file:{tmp_path}" if request.param == "file" else str(request.getfixturevalue("s3_root"))


def test_a_folder_of_small_files(root: str) -> None:
    root = f"{root}/a b"
    one, two = f"{root}/below/one ü%20 #1?.json", f"{root}/two.json"
    assert small_files.read_json(one) is None
    assert small_files.names(root) == []
    assert not small_files.exists(one)
    assert small_files.write_json(one, {"n": 1, "über": "ß"}, overwrite=False)
    assert not small_files.write_json(one, {"n": 3}, overwrite=False)
    assert small_files.read_json(one) == {"n": 1, "über": "ß"}
    assert small_files.write_json(two, {"n": 2})
    assert small_files.write_json(two, {"n": 4})
    assert small_files.read_text(two) == '{"n": 4}'
    assert small_files.read_bytes(f"{root}/three.json") is None
    assert small_files.write_json(f"{root}/.hidden", {})
    assert small_files.names(root) == ["below", "two.json"]
    assert small_files.names(f"{root}/below") == ["one ü%20 #1?.json"]
    assert small_files.exists(root)
    assert small_files.usage(root) == (
        3,
        len('{"n": 1, "\\u00fcber": "\\u00df"}') + len('{"n": 4}') + len("{}"),
    )
    small_files.copy(one, f"{root}/copies/one.json")
    assert small_files.read_bytes(f"{root}/copies/one.json") == small_files.read_bytes(one)
    small_files.delete(f"{root}/copies/one.json")
    small_files.delete(two)
    assert not small_files.exists(two)
    small_files.delete(root)
    small_files.delete(root)
    assert not small_files.exists(one)
    assert not small_files.exists(root)
    assert small_files.usage(root) == (0, 0)


def test_of_three_processes_one_creates_each_file(root: str) -> None:
    command = [sys.executable, str(Path(__file__).with_name("claimant.py")), root, str(CLAIMED)]
    claimants = [subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) for _ in range(3)]
    for each in claimants:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in claimants:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    won = [each.communicate(timeout=PATIENCE_S)[0].split() for each in claimants]
    assert [each.returncode for each in claimants] == [0, 0, 0]
    assert sorted(map(int, chain(*won))) == list(range(CLAIMED))
    assert len(small_files.names(root)) == CLAIMED


@pytest.mark.s3
@pytest.mark.parametrize("is_local", [True, False])
def test_files_are_deleted_together_whether_they_are_there_or_not(
    request: pytest.FixtureRequest, tmp_path: Path, is_local: bool
) -> None:
    root = f"file:{tmp_path}" if is_local else request.getfixturevalue("s3_root")
    wanted = [f"{root}/a b/{number}+ü.json" for number in range(3)]
    for uri in wanted[1:]:
        small_files.write_json(uri, {})
    small_files.write_json(f"{wanted[2]}.kept", {})
    small_files.delete_files(wanted)
    small_files.delete_files([])
    assert small_files.names(f"{root}/a b") == ["2+ü.json.kept"]


@pytest.mark.s3
def test_a_lost_answer_is_not_a_lost_claim(s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put, claim = obstore.put, f"{s3_root}/1.claim.json"

    def losing(*given: Any, **named: Any) -> None:
        put(*given, **named)
        raise GenericError("connection closed before the message was complete")

    monkeypatch.setattr(obstore, "put", losing)
    assert small_files.write_json(claim, {}, overwrite=False)
    assert not small_files.write_json(claim, {}, overwrite=False)
    with pytest.raises(TransientError, match=f"{s3_root}/plan.json"):
        small_files.write_json(f"{s3_root}/plan.json", {})


@pytest.mark.s3
def test_an_answer_that_was_lost_before_a_second_attempt_is_no_lost_claim_either(
    s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, claim = obstore.put, f"{s3_root}/1.claim.json"

    def trying_twice(*given: Any, **named: Any) -> None:
        put(*given, **named)
        put(*given, **named)

    monkeypatch.setattr(obstore, "put", trying_twice)
    assert small_files.write_json(claim, {}, overwrite=False)


def test_a_store_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{HOST}:1")
    with pytest.raises(TransientError, match=r"s3://nowhere/plan\.json"):
        small_files.read_json("s3://nowhere/plan.json")


def test_a_reader_meanwhile_finds_an_overwritten_file_whole(tmp_path: Path) -> None:
    uri = f"file:{tmp_path}/promised.json"
    small_files.write_json(uri, {"upto": 0})

    def write() -> None:
        for number in range(1, WRITTEN):
            small_files.write_json(uri, {"upto": number})

    with ThreadPoolExecutor(1) as writers:
        writing, seen = writers.submit(write), [0]
        while not writing.done():
            found = small_files.read_json(uri)
            assert found is not None
            seen.append(found["upto"])
        writing.result()
    assert seen == sorted(seen)
    assert small_files.read_json(uri) == {"upto": WRITTEN - 1}


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_local_file_is_flushed_before_it_has_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    done: list[str] = []

    def noted(name: str) -> None:
        real = getattr(os, name)

        def note(*given: Any) -> Any:
            done.append(name)
            return real(*given)

        monkeypatch.setattr(os, name, note)

    for name in ("fsync", "link", "replace"):
        noted(name)
    assert small_files.write_json(f"file:{tmp_path}/claim.json", {}, overwrite=overwrite)
    assert done == ["fsync", "replace" if overwrite else "link", "fsync"]
    assert os.listdir(tmp_path) == ["claim.json"]
