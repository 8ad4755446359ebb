"""Plain English: patterns that no document uses, and long sentences, of which there may only be fewer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT, name
from tests.docs.prose import STUMBLES, long_cells, long_sentences, sentences_of, stumbles

pytestmark = pytest.mark.fast

PAGES = [*DOCUMENTS, ROOT / "deploy" / "README.md"]
FIRST_PAGE_LINES_MAX = 110


def test_the_first_page_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= FIRST_PAGE_LINES_MAX, "move what is more than a first page says to docs/"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_no_document_uses_a_pattern_that_stops_a_reader(path: Path) -> None:
    assert not stumbles(path)


def test_no_sentence_is_too_long() -> None:
    found = [sentence for path in PAGES for sentence in long_sentences(path)]
    assert not found, "make two sentences of each:\n" + "\n".join(found)


def test_no_cell_of_a_table_is_too_long() -> None:
    found = [cell for path in PAGES for cell in long_cells(path)]
    assert not found, "move a part of each below the table:\n" + "\n".join(found)


def test_no_docstring_uses_a_pattern_that_stops_a_reader() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {sentence[:80]}"
        for path in sorted((ROOT / "platform" / "headrace").rglob("*.py"))
        for text in docstrings(path)
        for sentence in sentences_of(text)
        if any(re.search(pattern, sentence) for pattern in STUMBLES)
    ]
    assert not found, "\n".join(found)


def docstrings(path: Path) -> list[str]:
    """The docstrings of a module, its classes and its functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [
        node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)
    ]
    return [text for node in nodes if (text := ast.get_docstring(node))]


@pytest.mark.parametrize(
    ("sentence", "stumbled"),
    [
        ("What nobody thought of leaves the node to Spark.", True),
        ("Of several topics the order is by commit time.", True),
        ("What happens when I change the window?", False),
        ("An unexpected exception disables this path.", False),
    ],
)
def test_the_patterns_find_what_they_are_for(sentence: str, stumbled: bool) -> None:
    assert any(re.search(pattern, sentence) for pattern in STUMBLES) is stumbled
