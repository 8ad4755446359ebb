"""Where the lake lies, which pipeline the command line means, and where figures are served."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import sysconfig
import tomllib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from headrace.description import Node
from headrace.errors import HeadraceError, TerminalError
from headrace.extras import missing_extra
from headrace.settings.environment import EnvironmentSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


def default_lake() -> str:
    """The lake of a project that names none."""
    return f"file:{Path.cwd() / '.headrace' / 'lake'}"


class Settings(EnvironmentSettings):
    """`HEADRACE_LAKE` (root URI of all tables), `HEADRACE_PIPELINE` (module with the nodes), `HEADRACE_METRICS_PORT` (of
    the Prometheus endpoint of stream runs; none by default), `HEADRACE_METRICS_HOST` (to which it is bound) and
    `HEADRACE_PRICE_PER_HOUR` (of the machines of a stream run, for the figure of costs; none by default).
    """

    model_config = SettingsConfigDict(env_prefix="HEADRACE_")

    lake: str = Field(default_factory=default_lake)
    pipeline: str = Field(default_factory=lambda: pipeline_of_project(Path.cwd()))
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    price_per_hour: float | None = None


def pipeline_of_project(folder: Path) -> str:
    """The module that `pyproject.toml` names under `tool.headrace.pipeline`; else `assets`.

    Raises: TerminalError when the file cannot be read, or the entry is no name.
    """
    described = folder / "pyproject.toml"
    if not described.is_file():
        return "assets"
    try:
        found = tomllib.loads(described.read_text(encoding="utf-8"))
        named = found.get("tool", {}).get("headrace", {}).get("pipeline", "assets")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError) as error:
        raise _unreadable(described, str(error)) from error
    if not isinstance(named, str) or not named:
        raise _unreadable(described, f"tool.headrace.pipeline is {named!r}, which is no module's name.")
    return named


def _unreadable(described: Path, detail: str) -> TerminalError:
    return TerminalError(
        f"{described} cannot be read, and it says which module defines the pipeline.",
        detail=detail,
        hint="Mend the file, or name the module with --pipeline or HEADRACE_PIPELINE.",
    )


def load_pipeline(module: str) -> list[Node]:
    """The nodes that a module defines, in the order of its lines; of a package, those of all its modules.

    Raises: TerminalError when there is no such module, its code fails, or it defines no named node. An error of a
            description has the file and the line in its detail
    """
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        package = importlib.import_module(module)
        names = [name for _, name, _ in pkgutil.iter_modules(getattr(package, "__path__", []), f"{module}.")]
        modules = [package, *map(importlib.import_module, names)]
    except HeadraceError as error:
        place = place_in_pipeline(error)
        if place is not None and place not in (error.detail or ""):
            error.detail = f"{place}\n{error.detail}" if error.detail else place
        raise
    except Exception as error:
        raise _not_loaded(module, error) from error
    return nodes_in(modules, module)


def _not_loaded(module: str, error: Exception) -> TerminalError:
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        return TerminalError(
            f"There is no module {module!r} to read the pipeline from.",
            detail=str(error),
            hint="Run in the project's root, or name another module with --pipeline or HEADRACE_PIPELINE.",
        )
    missing = missing_extra(error)
    return TerminalError(
        f"The module {module!r} cannot be loaded: {type(error).__name__}: {error}",
        detail=place_in_pipeline(error),
        hint=missing.hint if missing else None,
    )


def place_in_pipeline(error: Exception) -> str | None:
    """The newest line of the pipeline's own files that led to an error, as file, number and code; None if none did."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}: {(error.text or '').strip()}"
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_of_pipeline(each.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}" if frames else None


def _is_of_pipeline(filename: str) -> bool:
    """True if a file lies neither in Headrace nor in Python's library or another package."""
    path = Path(filename)
    is_installed = "site-packages" in path.parts or filename.startswith(("<", sysconfig.get_path("stdlib")))
    return not is_installed and not path.is_relative_to(Path(__file__).parents[1])


def nodes_in(modules: Sequence[ModuleType], name: str) -> list[Node]:
    """The named nodes that modules define or import, in the order of their lines, each object once.

    Raises: TerminalError when there is none
    """
    values = (value for each in modules for value in vars(each).values())
    nodes = [*{id(node): node for node in values if isinstance(node, Node) and node.name}.values()]
    if not nodes:
        raise TerminalError(
            f"Module {name!r} defines no named node.", hint="End a description with .named(…)."
        )
    return nodes
