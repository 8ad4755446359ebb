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
    "mirror",
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


def _of_operators() -> list[tuple[Path, str, str, str]]:
    """Each import of Headrace's own by a file in an operator's folder: the file, its operator, its place and the name."""
    return [
        (path, path.relative_to(HEADRACE).parts[1], f"{path.relative_to(HEADRACE)}:{line}: {name}", name)
        for path in sorted((HEADRACE / "operators").glob("*/**/*.py"))
        for line, name in imports(path)
        if name.startswith("headrace.")
    ]


def test_an_oracle_knows_the_description_and_the_core_of_oracles_alone() -> None:
    against = [
        place
        for path, operator, place, name in _of_operators()
        if path.stem.startswith("oracle")
        and not name.startswith(
            ("headrace.description.", "headrace.oracle.", f"headrace.operators.{operator}.oracle")
        )
    ]
    assert not against


def test_a_fold_knows_no_oracle() -> None:
    parts = [HEADRACE / "fold", *sorted((HEADRACE / "operators").glob("*"))]
    files = [path for part in parts for path in sorted(part.rglob("*.py")) if "oracle" not in path.stem]
    against = [
        f"{path.relative_to(HEADRACE)}:{line}: {name}"
        for path in files
        for line, name in imports(path)
        if "oracle" in name
    ]
    assert not against


def test_an_operator_names_no_other_one() -> None:
    folders = {path.name for path in (HEADRACE / "operators").iterdir() if path.is_dir()}
    against = [
        place
        for _, operator, place, name in _of_operators()
        if name.startswith("headrace.operators.") and name.split(".")[2] in folders - {operator}
    ]
    assert not against
