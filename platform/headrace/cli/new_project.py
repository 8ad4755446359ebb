"""`headrace new`: a project of one's own, from the templates beside this file."""

from __future__ import annotations

import datetime as dt
import keyword
import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.console.installed_from import installed_from
from headrace.cli.console.telling import report
from headrace.cli.setting_up import deployed
from headrace.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

NAME = re.compile(r"[a-z][a-z0-9_-]*")
# Names that a folder of templates cannot have.
RENAMED = {"gitignore": ".gitignore", "dockerignore": ".dockerignore", "github": ".github"}
MONITORING = "monitoring"  # rules of Prometheus and a dashboard, in `deploy/`
OF_THIS_MACHINE = "local.mk"  # which git ignores


def new_project(
    name: Annotated[
        str, typer.Argument(help="The project's name, as my_streams; a folder of this name is made.")
    ],
) -> None:
    """Make a project: a pipeline, its tests, a demo, what Dagster loads, a Makefile, CI and a compose file."""
    folder = make_project(name, Path.cwd())
    report(
        f"Made {folder}. Next: cd {name} && make test, then make demo, then make dev.",
        project=name,
        folder=folder,
    )


def make_project(name: str, parent: Path) -> Path:
    """Write the project's files into a new folder below `parent`.

    Out:    the folder
    Raises: TerminalError when the name is no package's name, or the folder holds files.
    """
    package = name.replace("-", "_")
    if not NAME.fullmatch(name) or keyword.iskeyword(package) or package in ("headrace", "tests"):
        raise TerminalError(
            f"'{name}' cannot be a project's name.", hint="Use small letters, digits and _, as in my_streams."
        )
    folder = parent / name
    if folder.exists() and any(folder.iterdir()):
        raise TerminalError(f"'{folder}' holds files.", hint="Choose another name, or remove the folder.")
    names = {
        "project": name,
        "package": package,
        "title": package.replace("_", " ").capitalize(),
        "version": version("headrace"),
        "today": dt.datetime.now(dt.UTC).date().isoformat(),
    }
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    for place, template in _templates(files("headrace.cli") / "project", ""):
        target = folder / place.replace("package/", f"{package}/", 1)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(environment.from_string(template).render(names), encoding="utf-8")
    for file in deployed(MONITORING).iterdir():
        target = folder / "deploy" / MONITORING / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    source = installed_from()
    if source is not None:
        noted = source.replace("$", "$$")
        (folder / OF_THIS_MACHINE).write_text(
            f"# The source of this machine's Headrace; `headrace new` wrote it.\nHEADRACE ?= {noted}\n",
            encoding="utf-8",
        )
    return folder


def _templates(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    """Each file's place in the project, and its template."""
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _templates(each, f"{prefix}{RENAMED.get(each.name, each.name)}/")
        elif each.name.endswith(".jinja"):
            name = each.name.removesuffix(".jinja")
            yield f"{prefix}{RENAMED.get(name, name)}", each.read_text(encoding="utf-8")
