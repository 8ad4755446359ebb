"""A wrong use of a processor fails the type checker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

import headrace

pytestmark = pytest.mark.fast

MISUSE = Path(__file__).with_name("processor_misuse.py")
PACKAGE = Path(headrace.__file__).parent
DESCRIBES = re.compile(r"^from headrace\.(description|errors)\b[^(]*?(\((?:.|\n)*?\)|$)", re.MULTILINE)


@pytest.mark.slow
def test_every_line_that_is_marked_as_wrong_is_an_error_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mypy checks the descriptions alone: the packages that they import take it ten times as long."""
    (tmp_path / "headrace").mkdir()
    for name in ("description", "errors.py"):
        (tmp_path / "headrace" / name).symlink_to(PACKAGE / name)
    names = [match.group(0) for match in DESCRIBES.finditer((PACKAGE / "__init__.py").read_text())]
    (tmp_path / "headrace" / "__init__.py").write_text("\n".join([*names, ""]))
    lines = MISUSE.read_text().splitlines()
    (tmp_path / "misuse.py").write_text("\n".join(line.partition("  # type: ignore")[0] for line in lines))
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\n[mypy-sqlglot.*,numpy.*,pyarrow.*,pyspark.*]\nfollow_imports = skip\n"
    )
    monkeypatch.setenv("MYPYPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    options = [
        "--strict",
        "--implicit-reexport",
        "--ignore-missing-imports",
        "--config-file=mypy.ini",
        "--cache-dir=/dev/null",
    ]
    said, problems, _ = api.run([*options, "misuse.py"])
    assert not problems
    found = {int(number) for number in re.findall(r"^misuse\.py:(\d+): error:", said, re.MULTILINE)}
    wanted = {number for number, line in enumerate(lines, 1) if "# type: ignore" in line}
    assert found == wanted, said
