"""Whether Spark's workers can import the code that a user gives.

A worker gets a function or a class by its name, and imports its module. Code of the program itself, code that is defined
within a function, and modules that the program has registered with Spark's pickler travel by value. A module that was made
of a file by its path is in this process alone.
"""

from __future__ import annotations

import sys
from functools import partial
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING

from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAIN = "__main__"


def within_partials(made: object) -> object:
    """The function or class itself, of which `functools.partial` fills arguments in."""
    while isinstance(made, partial):
        made = made.func
    return made


def require_importable(root: object, what: str) -> None:
    """Refuse code that no other process can import.

    In:     root  a function, a class, a `partial` of one, or an object whose methods are called
            what  how the description names it
    Raises: DescriptionError naming the code and its module
    """
    root = within_partials(root)
    code = root if isinstance(root, type | FunctionType) else type(root)
    if _travels_by_value(code) or _can_be_imported(code.__module__):
        return
    file = getattr(sys.modules[code.__module__], "__file__", None)
    raise DescriptionError(
        f"{what}: Spark's workers cannot import {code.__qualname__}: no folder of the import path has its module "
        f"'{code.__module__}'.",
        detail=f"This process has loaded it from {file}."
        if file
        else "This process has made it while it ran.",
        hint="Put its file into your project's package, or add the file's folder to PYTHONPATH.",
    )


def _travels_by_value(code: type | FunctionType) -> bool:
    module = sys.modules.get(code.__module__)
    if module is None or code.__module__ == _MAIN or _is_registered(code.__module__):
        return True
    try:
        return attrgetter(code.__qualname__)(module) is not code
    except AttributeError:  # within a function
        return True


def _is_registered(module: str) -> bool:
    """Whether the program has told Spark's pickler that the module's code travels by value (`register_pickle_by_value`)."""
    pickler = sys.modules.get("pyspark.cloudpickle.cloudpickle")
    return pickler is not None and module in pickler.list_registry_pickle_by_value()


def _can_be_imported(name: str) -> bool:
    """Whether an import would find the module if it were not loaded yet."""
    known, path = "", None
    for part in name.split("."):
        known = f"{known}.{part}".lstrip(".")
        if not any(_finds(finder, known, path) for finder in sys.meta_path):
            return False
        path = getattr(sys.modules.get(known), "__path__", None)
    return True


def _finds(finder: object, name: str, path: Iterable[str] | None) -> bool:
    find_spec = getattr(finder, "find_spec", None)
    return find_spec is not None and find_spec(name, path) is not None
