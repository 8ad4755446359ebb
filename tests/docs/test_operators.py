"""The page of operators is what their docstrings say."""

from __future__ import annotations

import inspect

import pytest

from docs.tools.operators import BEGIN, END, PAGE, operators, page, sections
from tests.docs.documents import ROOT

pytestmark = pytest.mark.fast


def test_the_page_of_operators_is_current() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert BEGIN in written
    assert END in written
    assert page(written) == written, "run: python -m docs.tools.operators"


@pytest.mark.parametrize("folder", sorted(operators()))
def test_an_operator_says_what_is_written_its_law_its_source_and_its_guide(folder: str) -> None:
    parts = sections(inspect.getdoc(operators()[folder]) or "")
    assert list(parts) == ["Out", "Written", "Law", "Source", "Guide"]
    assert all(" ".join(lines).strip() for _, lines in parts.values())
    assert (ROOT / "docs" / "guides" / f"{parts['Guide'][1][0]}.md").exists()


def test_each_folder_of_an_operator_is_on_the_page() -> None:
    folders = {path.parent.name for path in (ROOT / "platform/headrace/operators").glob("*/operator.py")}
    assert folders == set(operators())
