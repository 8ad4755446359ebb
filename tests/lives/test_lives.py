"""Whole lives without a JVM: random pipelines, producers, processes, a store and sinks that fail; at rest the laws hold.

`make lives` lives on for as long as one likes. HEADRACE_LIVES says how many there are here; `make test-fast` lives the first
few of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from headrace.description import with_unnamed
from headrace.operators.registry import KINDS
from tests.lives.descriptions import described
from tests.lives.drawing import lives, made
from tests.lives.many import try_seed
from tests.lives.mutations import PATCHES, ROOT
from tests.matrix.kinds import kind_of

pytestmark = pytest.mark.fast

LIVES, A_TEST, QUICK = int(os.environ.get("HEADRACE_LIVES", "300")), 5, 3
SEEDS = [
    pytest.param(seed, marks=pytest.mark.slow if seed > QUICK else ())
    for seed in range(1, 1 + LIVES // A_TEST)
]
PRINTS_LIVES = """
from itertools import islice
from tests.lives.drawing import lives
print(*[life.text() for some in (False, True) for life in islice(lives(2, acts=some, swarm=some), 3)], sep="\\n")
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_at_rest_tables_are_the_oracles_sinks_hold_each_row_once_and_books_balance(seed: int) -> None:
    done = try_seed(seed, A_TEST, swarm=False)
    assert not done.failure, f"{done.reason}\n{done.failure}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_at_rest_the_laws_hold_in_lives_of_a_swarm(seed: int) -> None:
    done = try_seed(seed, A_TEST)
    assert not done.failure, f"{done.reason}\n{done.failure}"


@pytest.mark.slow
def test_a_seed_gives_the_same_lives_in_a_process_that_has_loaded_other_modules() -> None:
    here = [life.text() for some in (False, True) for life in islice(lives(2, acts=some, swarm=some), 3)]
    command = [sys.executable, "-c", PRINTS_LIVES]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == "\n".join(here).splitlines()


def test_each_kind_of_node_is_drawn() -> None:
    """By the registry of operators, so that a new kind is missed here."""
    missing = {*KINDS}
    for number in range(400):
        nodes = described([made(number * 7919), made(number * 104_729)])
        missing -= {kind_of(node) for node in with_unnamed(nodes)}
        if not missing:
            return
    assert not missing


@pytest.mark.parametrize("patch", sorted(PATCHES.rglob("*.patch")), ids=lambda patch: patch.stem)
def test_each_mutation_changes_code_that_is_there(patch: Path) -> None:
    ran = subprocess.run(
        ["git", "-C", str(ROOT), "apply", "--check", str(patch)], capture_output=True, text=True
    )
    assert not ran.returncode, ran.stderr
