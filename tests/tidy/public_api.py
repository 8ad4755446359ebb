"""The public names of Headrace, a line each: those that a released version keeps (see docs/upgrading.md).

`python -m tests.tidy.public_api` writes them to the list that the test holds.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from inspect import Parameter
from pathlib import Path

from docs.tools.members import members_of

MODULES = (
    "headrace",
    "headrace.errors",
    "headrace.observe.keyed_reads",
    "headrace.observe.views",
    "headrace.orchestration",
    "headrace.quality",
    "headrace.testing",
)
STARS: Mapping[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
LIST = Path(__file__).with_name("public_api.txt")


def public_names() -> list[str]:
    """Functions, classes and their methods, each with its parameters; sorted."""
    return sorted({line for module in MODULES for line in _names_of(module)})


def _names_of(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    defined = [each for each, value in vars(module).items() if getattr(value, "__module__", None) == name]
    for each in sorted(getattr(module, "__all__", defined)):
        value = getattr(module, each)
        if each.startswith("_") or inspect.ismodule(value):
            continue
        if not inspect.isclass(value):
            yield f"{name}.{each}{_parameters(value)}"
            continue
        yield f"{name}.{each}" if issubclass(value, Exception) else f"{name}.{each}{_parameters(value)}"
        for method in members_of(value):
            member = inspect.getattr_static(value, method)
            member = getattr(value, method) if inspect.isroutine(member) else member
            called = inspect.isroutine(member)
            yield f"{name}.{each}.{method}{_parameters(member) if called else ''}"


def _parameters(value: object) -> str:
    """The names of the parameters, which is what callers write; `=` where one has a default."""
    if not callable(value):
        return ""
    try:
        parameters = [*inspect.signature(value).parameters.values()]
    except ValueError:
        return "(…)"
    shown = []
    for each in parameters:
        if each.name in ("self", "cls") or each.name.startswith("_"):
            continue
        star = STARS.get(each.kind, "")
        shown.append(f"{star}{each.name}{'' if each.default is each.empty else '='}")
    return f"({', '.join(shown)})"


if __name__ == "__main__":
    LIST.write_text("\n".join(public_names()) + "\n", encoding="utf-8")
