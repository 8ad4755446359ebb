"""Which way imports point, so that a reader can begin at any folder and go one way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

HEADRACE = Path(__file__).resolve().parents[2] / "platform" / "headrace"
# Each imports from those before it alone.
ORDER = (
    "errors",
    "extras",
    "expressions",
    "description",
    "oracle",
    "fold",
    "operators",
    "sequence",
    "lake",
    "settings",
    "spark",
    "log",
    "engine",
    "nodes",
    "writing",
    "lifecycle",
    "changing",
    "streams",
    "observe",
    "explain",
    "sinks",
    "quality",
    "orchestration",
    "preflight",
    "local",
    "testing",
    "cli",
)
NOT_IN_KERNEL = {"pyspark", "deltalake", "obstore", "duckdb", "pathlib", "time", "random", "datetime.now"}


def imports(path: Path) -> list[tuple[int, str]]:
    """Line and name of each module that a file imports, in functions and for types, too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def test_every_part_of_the_package_has_its_place_in_the_order() -> None:
    parts = {p.stem for p in HEADRACE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert parts - {"__init__"} == set(ORDER)


def test_imports_point_one_way() -> None:
    against = []
    for path in sorted(HEADRACE.rglob("*.py")):
        part = path.relative_to(HEADRACE).with_suffix("").parts[0]
        if part == "__init__":
            continue
        for line, name in imports(path):
            package, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if package == "headrace" and other in ORDER and ORDER.index(other) > ORDER.index(part):
                against.append(f"{path.relative_to(HEADRACE)}:{line}: {part} imports {name}")
    assert not against


def test_the_kernel_knows_neither_spark_nor_files_nor_a_clock() -> None:
    found = [
        f"{path.relative_to(HEADRACE)}:{line}: {name}"
        for folder in ("expressions", "fold", "operators")
        for path in sorted((HEADRACE / folder).rglob("*.py"))
        for line, name in imports(path)
        if NOT_IN_KERNEL & {name, name.partition(".")[0]}
    ]
    assert not found
