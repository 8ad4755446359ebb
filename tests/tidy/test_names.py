"""Names of the platform are nouns of the field: some words are no names of modules, classes, functions, parameters, fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

PLATFORM = Path(__file__).resolve().parents[2] / "platform" / "headrace"
NO_NAMES = {"found", "told", "held", "given", "said", "beside", "anew", "came", "mine", "tell"}
OF_PYTHON = {("lake/files/data_file.py", "tell"), ("lake/files/stored_file.py", "tell")}  # as files have it


def words(name: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().split("_"))


def names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.arg):
            yield node.arg
        if isinstance(node, ast.ClassDef):
            targets = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_names_are_nouns_of_the_field() -> None:
    wrong = set()
    for path in PLATFORM.rglob("*.py"):
        where = path.relative_to(PLATFORM).as_posix()
        defined = {path.stem, *names(ast.parse(path.read_text(encoding="utf-8")))}
        wrong |= {(where, name) for name in defined if words(name) & NO_NAMES}
    assert wrong == OF_PYTHON
