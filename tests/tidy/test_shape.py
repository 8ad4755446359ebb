"""The shape of the code: counts that only fall. `python -m tests.tidy.test_shape` prints them with what they count."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

PLATFORM = Path(__file__).resolve().parents[2] / "platform"
HEADRACE = PLATFORM / "headrace"
PARAMETERS_MAX, FILES_MAX = 6, 15
# What is left. A change that lowers a count lowers its number here, too.
BRANCHES_LEFT, LONG_SIGNATURES_LEFT, FULL_FOLDERS_LEFT = 0, 8, 1
WINDOWS = {"TimeWindows", "SlidingWindows", "SessionWindows"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def trees() -> dict[Path, ast.Module]:
    """The syntax of all files of the platform."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(HEADRACE.rglob("*.py"))}


def functions() -> Iterator[tuple[Path, Function]]:
    """All functions and methods."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield path, node


def shown(path: Path, function: Function) -> str:
    """A function by its place."""
    return f"{path.relative_to(HEADRACE)}:{function.lineno} {function.name}"


def classes() -> Iterator[ast.ClassDef]:
    """All classes."""
    return (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def kinds() -> set[str]:
    """The classes of nodes, of their windows, and of kernels."""
    bases = {
        node.name: {name.id for base in node.bases for name in ast.walk(base) if isinstance(name, ast.Name)}
        for node in classes()
    }
    found = {"Node", "Kernel"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found - {"Node", "Kernel"} | WINDOWS


def members(of: set[str]) -> set[str]:
    """The names that the bodies of classes give."""
    lines = [line for node in classes() if node.name in of for line in node.body]
    assigned = {target.id for line in lines for target in _targets(line) if isinstance(target, ast.Name)}
    return assigned | {line.name for line in lines if isinstance(line, Function)}


def _targets(line: ast.stmt) -> list[ast.expr]:
    return [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])


def probes() -> list[str]:
    """The functions that find the kind of a node by whether it has an attribute that some kinds alone have.

    Those of `description/` and `oracle/` do not count: what a person gives may be no node at all, and an oracle has no other
    contract.
    """
    own = members(kinds()) - members({"Node", "Kernel"})
    return [
        shown(path, function)
        for path, function in functions()
        if path.relative_to(HEADRACE).parts[0] not in ("operators", "description", "oracle")
        and any(_probed(node) in own for node in _own(function))
    ]


def _probed(node: ast.AST) -> object:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return None
    if node.func.id not in ("getattr", "hasattr") or not isinstance(node.args[1], ast.Constant):
        return None
    return node.args[1].value


def branches() -> list[str]:
    """The functions outside `operators/` that branch on the kind of a node or of a kernel."""
    known = kinds()
    return [
        shown(path, function)
        for path, function in functions()
        if path.relative_to(HEADRACE).parts[0] != "operators"
        and any(_asks(node, known) for node in _own(function))
    ]


def _own(function: Function) -> Iterator[ast.AST]:
    """The syntax of a function without the functions in it; an assertion is no branch."""
    left: list[ast.AST] = [*function.body]
    while left:
        node = left.pop()
        if not isinstance(node, Function | ast.Assert):
            yield node
            left += ast.iter_child_nodes(node)


def _asks(node: ast.AST, known: set[str]) -> bool:
    if isinstance(node, ast.MatchClass):
        return bool(_names(node.cls) & known)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
        return False
    return bool(_names(node.args[1]) & known)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def long_signatures() -> list[str]:
    """The functions with too many parameters."""
    return [
        shown(path, function)
        for path, function in functions()
        for of in [function.args]
        if len([a for a in (*of.posonlyargs, *of.args, *of.kwonlyargs) if a.arg not in ("self", "cls")])
        > PARAMETERS_MAX
    ]


def full_folders() -> list[str]:
    """The folders with too many files."""
    folders = sorted({path.parent for path in trees()})
    sizes = {folder: len([*folder.glob("*.py")]) for folder in folders}
    return [f"{folder.relative_to(PLATFORM)}: {size}" for folder, size in sizes.items() if size > FILES_MAX]


def circles() -> list[str]:
    """The files that import one another, whichever is imported first."""
    edges = {path: _imported(tree) for path, tree in trees().items()}
    reached = {path: _reached(path, edges) for path in edges}
    found = {
        frozenset(other for other in reached[path] if path in reached[other])
        for path in edges
        if path in reached[path]
    }
    return sorted(", ".join(sorted(str(path.relative_to(HEADRACE)) for path in circle)) for circle in found)


def _imported(tree: ast.Module) -> set[Path]:
    found = set()
    for node in tree.body:  # not what functions import, and not what is imported for types alone
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if path := _file_of(name.split(".")):
                found.add(path)
    return found


def _file_of(parts: list[str]) -> Path | None:
    for end in (len(parts), len(parts) - 1):
        path = PLATFORM.joinpath(*parts[:end])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if end and file.is_relative_to(HEADRACE) and file.exists():
                return file
    return None


def _reached(path: Path, edges: dict[Path, set[Path]]) -> set[Path]:
    found, left = set[Path](), [*edges[path]]
    while left:
        if (each := left.pop()) not in found:
            found.add(each)
            left += edges.get(each, ())
    return found


def code_lines() -> int:
    """The lines of code: no docstrings, comments, blank lines or imports."""
    return sum(len(_lines_of(path, tree)) for path, tree in trees().items())


def _lines_of(path: Path, tree: ast.Module) -> set[int]:
    text = path.read_text(encoding="utf-8")
    skipped = (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in skipped
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and _is_text(node.value)
        ):
            lines -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return lines


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_branches_on_kinds_of_nodes_belong_to_operators() -> None:
    found = branches()
    assert len(found) <= BRANCHES_LEFT, found


def test_what_some_kinds_of_nodes_alone_have_is_asked_of_their_operators() -> None:
    assert not probes()


def test_a_function_with_many_parameters_lacks_a_concept() -> None:
    found = long_signatures()
    assert len(found) <= LONG_SIGNATURES_LEFT, found


def test_a_folder_with_many_files_lacks_a_concept() -> None:
    found = full_folders()
    assert len(found) <= FULL_FOLDERS_LEFT, found


def test_no_files_import_one_another() -> None:
    assert not circles()


if __name__ == "__main__":
    for name, found in (
        ("branches on kinds outside operators/", branches()),
        ("attributes of kinds that are looked for", probes()),
        ("functions with more than six parameters", long_signatures()),
        ("folders with more than fifteen files", full_folders()),
        ("circles of files", circles()),
    ):
        print(f"{name}: {len(found)}", *found, sep="\n  ")
    print(f"files: {len(trees())}; lines of code: {code_lines():,}")
