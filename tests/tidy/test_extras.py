"""The core and its extras: what each declares, and what happens without them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headrace.extras import EXTRA_OF

pytestmark = pytest.mark.fast
ROOT = Path(__file__).resolve().parents[2]
PLATFORM = ROOT / "platform"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTION_OF = {"google": "protobuf", "dagster_graphql": "dagster-webserver", "py4j": "pyspark"}
WITHOUT_EXTRAS = f"""
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(EXTRA_OF)} or name == "delta":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refused())
"""
DRIVEN = """
import headrace as hr
from headrace.testing import TestDriver
views = hr.Topic("views", key="user STRING", value="page STRING")
driver = TestDriver([views.group_by("page").aggregate(n=hr.count()).named("totals")])
driver.pipe("views", key="a", value={"page": "p"})
driver.cut()
assert driver.rows("totals") == [{"page": "p", "n": 1}]
driver.check("totals")
driver.close()
"""


def distributions(*requirements: str) -> set[str]:
    return {re.split(r"[\[<>=! ]", each, maxsplit=1)[0].lower() for each in requirements}


def test_each_imported_package_is_declared_and_each_extra_is_named() -> None:
    core = distributions(*PROJECT["dependencies"])
    extras = {
        name: distributions(*packages)
        for name, packages in PROJECT["optional-dependencies"].items()
        if name not in ("dev", "all")
    }
    for package in imported():
        distribution = DISTRIBUTION_OF.get(package, package.replace("_", "-"))
        if distribution in core or package == "py4j":
            assert package not in EXTRA_OF, package
        else:
            assert distribution in extras[EXTRA_OF[package]], f"'{package}' is in no extra"


def test_the_page_of_parts_has_each_extra() -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    names = PROJECT["optional-dependencies"].keys() - {"dev"}
    assert not [name for name in names if f"| `headrace[{name}]` |" not in page]


def imported() -> set[str]:
    """The packages that the platform imports, besides its own and Python's."""
    names = set[str]()
    for path in PLATFORM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"headrace"}


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + code], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_the_core_describes_and_tests_without_any_extra() -> None:
    done = run(DRIVEN)
    assert done.returncode == 0, done.stderr
    described = run(
        "sys.argv[1:] = ['describe', '--pipeline', 'assets.readings']\nfrom headrace.cli import main\nmain()"
    )
    assert described.returncode == 0, described.stderr


def test_a_pipeline_that_needs_an_extra_names_it_and_the_line() -> None:
    done = run("sys.argv[1:] = ['describe', '--pipeline', 'assets']\nfrom headrace.cli import main\nmain()")
    assert done.returncode == 2
    assert "assets/tightenings.py:6" in done.stderr
    assert "pip install 'headrace[dagster]'" in done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import headrace.orchestration", "dagster"),
        ("from headrace.observe.sql import LakeSql\nLakeSql(None, [])", "sql"),
    ],
)
def test_an_import_that_is_missing_names_its_extra(code: str, extra: str) -> None:
    done = run(code)
    assert done.returncode == 1
    assert f"pip install 'headrace[{extra}]'" in done.stderr


def test_a_command_that_needs_an_extra_says_so_without_a_stack_trace() -> None:
    done = run("sys.argv[1:] = ['demo']\nfrom headrace.cli import main\nmain()")
    assert done.returncode == 2
    assert "pip install 'headrace[postgres]'" in done.stderr
    assert "Traceback" not in done.stderr
