"""Public names stay: one that goes, or takes other parameters, is named in the changelog."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tidy.public_api import LIST, public_names

pytestmark = pytest.mark.fast
CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"


def test_a_public_name_that_goes_or_changes_stands_in_the_changelog() -> None:
    removed = {*LIST.read_text(encoding="utf-8").splitlines()} - {*public_names()}
    words = CHANGELOG.read_text(encoding="utf-8")
    silent = [
        line for line in sorted(removed) if f"`{re.split('[(]', line)[0].rpartition('.')[2]}`" not in words
    ]
    assert not silent, "name them in CHANGELOG.md, then run `python -m tests.tidy.public_api`:\n" + "\n".join(
        silent
    )


def test_each_public_name_is_in_the_list() -> None:
    added = {*public_names()} - {*LIST.read_text(encoding="utf-8").splitlines()}
    assert not added, "run `python -m tests.tidy.public_api`:\n" + "\n".join(sorted(added))
