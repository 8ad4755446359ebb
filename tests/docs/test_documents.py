"""The documents name what exists, and all that is public."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

import headrace as hr
from headrace.fold.fates import FATES
from headrace.quality.results import CLAIMS
from headrace.testing import TestDriver
from tests.docs.documents import DOCUMENTS, ROOT, anchors, links, name, prose

pytestmark = pytest.mark.fast

EVERYTHING = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
PATH = re.compile(r"`((?:platform|headrace|assets|jobs|deploy|docs|tests)/[\w./-]*)`")
PICTURE_BYTES_MAX = 150_000
STATUSES = ("proposed", "built", "superseded")
SECTIONS = ("Problem", "Success criteria", "Proposal", "Numbers", "Alternatives", "Open questions")
BUILT_SECTIONS = (
    "Problem",
    "Decision",
    "Numbers",
    "Alternatives",
)  # a note that is condensed; open questions may follow


@pytest.mark.parametrize("public", hr.__all__)
def test_a_public_name_has_a_docstring_and_is_documented(public: str) -> None:
    assert (getattr(hr, public).__doc__ or "").strip(), f"hr.{public} has no docstring"
    assert re.search(rf"\bhr\.{public}\b", EVERYTHING), f"no document names hr.{public}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_within_the_project_resolve(path: Path) -> None:
    broken = []
    for target in links(path):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, fragment = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        if not place.exists() or (fragment and fragment not in anchors(place)):
            broken.append(target)
    assert not broken


def test_each_picture_is_shown_and_small() -> None:
    pictures = sorted((ROOT / "docs" / "images").iterdir())
    assert pictures
    assert not [p.name for p in pictures if f"images/{p.name})" not in EVERYTHING]
    assert not [p.name for p in pictures if p.stat().st_size > PICTURE_BYTES_MAX]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_files_and_folders_that_are_named_exist(path: Path) -> None:
    named = PATH.findall(prose(path))
    assert not [n for n in named if not (ROOT / n).exists() and not (ROOT / "platform" / n).exists()]


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "design").glob("*.md")), ids=name)
def test_a_design_note_has_a_status_and_its_sections(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    status = re.search(r"^\*\*Status: (\w+)\*\*", text, re.MULTILINE)
    assert status, "a line that begins with **Status: …**"
    assert status[1] in STATUSES
    sections = tuple(re.findall(r"^## (.+)$", text, re.MULTILINE))
    assert sections in (SECTIONS, BUILT_SECTIONS, (*BUILT_SECTIONS, "Open questions"))


def test_each_law_is_stated_once_and_has_a_place_where_it_is_kept() -> None:
    text = (ROOT / "docs" / "formalism.md").read_text(encoding="utf-8")
    stated = re.findall(r"^\*\*(L\d+) ", text, re.MULTILINE)
    assert stated == [f"L{number}" for number in range(1, len(stated) + 1)]
    kept = [law for row in re.findall(r"^\| (L[^|]+) \|", text, re.MULTILINE) for law in row.split(", ")]
    assert kept == stated


def test_the_glossary_is_in_order_and_each_word_has_one_line() -> None:
    rows = re.findall(
        r"^\| ([^|]+?) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    words = [row.split(",")[0].lower() for row in rows if row not in ("word", "---")]
    assert not [pair for pair in pairwise(words) if pair[0] >= pair[1]]


@pytest.mark.parametrize("check", CLAIMS)
def test_each_check_has_its_claim_and_what_to_do_when_it_fails(check: str) -> None:
    guide = ROOT / "docs" / "guides" / "backfills-and-checks.md"
    assert f"| `{check}`" in guide.read_text(encoding="utf-8")


def test_the_glossary_names_every_fate() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert not [fate for fate in FATES if f"`{fate}`" not in glossary]


def test_each_call_of_a_test_driver_is_in_its_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "testing.md").read_text("utf-8")
    calls = {name for name in dir(TestDriver) if not name.startswith("_")}
    assert {name for name in calls if f"`{name}(" not in guide and f"`{name}`" not in guide} == set()
