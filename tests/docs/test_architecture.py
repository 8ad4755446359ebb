"""The page of the architecture: its picture is what the imports are, and its files have what they are said to have."""

from __future__ import annotations

import ast
import re

import pytest

from docs.tools.rooms import PAGE, page
from tests.tidy.test_imports import HEADRACE, ORDER

pytestmark = pytest.mark.fast

TEXT = PAGE.read_text(encoding="utf-8")
NAMED = re.compile(r"\*\*`([a-z_/]+\.py)`(?:, `([A-Za-z_.]+)`)?\*\*")
SCREEN_LINES = 30


def test_the_picture_of_the_rooms_is_current() -> None:
    assert page(TEXT) == TEXT, "run: python -m docs.tools.rooms"


@pytest.mark.parametrize(("file", "name"), NAMED.findall(TEXT))
def test_a_file_on_a_records_way_has_what_the_page_names(file: str, name: str) -> None:
    tree = ast.parse((HEADRACE / file).read_text(encoding="utf-8"))
    for part in filter(None, name.split(".")):
        of = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
        tree = of[part]  # type: ignore[assignment]


def test_a_records_way_is_one_screen() -> None:
    way = TEXT.partition("## ")[0]
    assert len(way.splitlines()) <= SCREEN_LINES
    assert len(NAMED.findall(way)) >= 12


def test_each_room_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `platform/headrace/(\w+)` \|", TEXT, re.MULTILINE))
    assert set(ORDER) - {"errors", "extras"} == named
