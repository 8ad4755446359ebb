"""Takes mends of past defects out, one by one, and lives until a life finds it: `make mutations`.

    make mutations                                   each patch of `tests/lives/mutations`
    make mutations ARGS="--only an-overtaken-writer-stops --lives 5000"
    make mutations ARGS="--seconds 60 --at-a-time 2"     a minute of CPU for each

Each patch is applied in a tree of its own, so nothing here changes. It prints the table, and ends with 1 if one was not found.
Those of `tests/lives/mutations/second` are sought by lives of the second tier, which need Spark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import typer

from headrace.spark.on_demand import laptop_session
from tests.lives.many import try_seed

ROOT = Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests" / "lives" / "mutations"
FIRST_SEED, A_SEED = 1_000_000, 5
ADDING = Lock()  # git adds one tree at a time


def search(lives: int, seconds: float, tier: int) -> None:
    """Live until a life fails; print what was found, as JSON. It runs in the tree that is changed."""
    spark = laptop_session(None, "lives") if tier == 2 else None
    clock = time.process_time if spark is None else time.monotonic  # Spark works in another process
    began, lived, seed = clock(), 0, FIRST_SEED
    while lived < lives and clock() - began < seconds:
        done = try_seed(seed, min(A_SEED, lives - lived), shrinks=False, spark=spark)
        lived += done.lives
        if done.failure:
            print(json.dumps({"lives": lived, "fault": done.reason.partition("\n")[0][:100]}))
            return
        seed += 1
    print(json.dumps({"lives": lived, "fault": ""}))


def tier_of(patch: Path) -> int:
    """The tier whose lives seek a mend."""
    return 2 if patch.parent.name == "second" else 1


def found(patch: Path, lives: int, seconds: float) -> dict[str, Any]:
    """Apply a patch in a tree of its own, and search there."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT)]
        with ADDING:
            subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree)], check=True)
        try:
            subprocess.run(["git", "-C", str(tree), "apply", str(patch)], check=True)
            jars = {"HEADRACE_JARS": os.environ.get("HEADRACE_JARS", str(ROOT / ".headrace" / "jars"))}
            environment = os.environ | {"PYTHONPATH": f"{tree}:{tree / 'platform'}"} | jars
            command = [sys.executable, "-m", "tests.lives.mutations", "--lives", str(lives), "--search"]
            command += ["--seconds", str(seconds), "--tier", str(tier_of(patch))]
            ran = subprocess.run(
                command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
        finally:
            with ADDING:
                subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)
    result: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return result


def main(
    only: Annotated[list[str] | None, typer.Option(help="A patch; may be given again.")] = None,
    lives: Annotated[int, typer.Option(help="After so many a search ends; of the second tier 60.")] = 5_000,
    seconds: Annotated[
        float, typer.Option(help="And after so long: of CPU, of the second tier by the clock.")
    ] = 3_600,
    tier: Annotated[int | None, typer.Option(help="The mends of this tier alone.")] = None,
    at_a_time: Annotated[int, typer.Option(help="So many searches at a time.")] = 1,
    searches: Annotated[bool, typer.Option("--search", hidden=True)] = False,
) -> None:
    """Let lives find mends that were taken out."""
    if searches:
        search(lives, seconds, tier or 1)
        return
    print("| mend that is taken out | found after lives | by |", "| --- | ---: | --- |", sep="\n", flush=True)
    wanted = [
        patch
        for patch in sorted(PATCHES.rglob("*.patch"))
        if (not only or patch.stem in only) and tier in (None, tier_of(patch))
    ]
    missed = 0
    with ThreadPoolExecutor(at_a_time) as pool:
        by_patch = partial(found, seconds=seconds)
        limits = [min(lives, 60) if tier_of(patch) == 2 else lives for patch in wanted]
        for patch, result in zip(wanted, pool.map(by_patch, wanted, limits), strict=True):
            missed += not result["fault"]
            after = result["lives"] if result["fault"] else f"not in {result['lives']}"
            print(f"| {patch.stem.replace('-', ' ')} | {after} | {result['fault']} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    typer.run(main)
