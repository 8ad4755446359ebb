"""The code that a user gives, as far as rows depend on it: its text, the values that it carries, and all that it refers to.

In:  a function, a class, a `partial` of one, or an object whose methods are called
Out: what each part is, by its path from the code: `Convert/halved/LIMIT` is a global of a function that the class calls
Law: equal wherever it is computed. It goes by texts and contents, never by addresses or by where a package is installed.
     Functions and classes of the code's own package count by their text, their globals and what they carry, decorated or
     not; those of other packages by their name. Any other value counts by its content, which is what pickle keeps of it.
"""

from __future__ import annotations

import builtins
import importlib
import json
import sys
from collections import deque
from collections.abc import Mapping
from importlib.util import resolve_name
from types import CodeType, FunctionType, ModuleType
from typing import Any

from headrace.description.code_text import digest, imported, loaded, loaded_by_body, text_of, text_of_class
from headrace.description.code_values import USED_OF_MODULE, HiddenError, UnseenError, content_of
from headrace.description.importable import require_importable, within_partials
from headrace.errors import DescriptionError

SHOWN_MAX = 120  # characters of a part; a longer one is shown as its digest
_MAIN = "__main__"
_FOREIGN = {"abc", "builtins", "functools", "headrace", "typing"}
# By these, code reaches what its text does not name.
_HIDING = (eval, exec, globals, __import__, importlib.import_module, importlib.reload, sys.modules)
_REMEDY = "Make it where it is used, in the function or in `init`, or let its class have a `__reduce__`."


def code_of(root: object, what: str) -> dict[str, Any]:
    """The name of the code, and its parts. In: what  how the description names it.

    Raises: DescriptionError for a part whose content cannot be seen, with its path
    """
    name = _name_of(root)
    return {"name": name, "parts": CodeWalk(_packages_of(root), what, {}).parts_of(root, name)}


def code_of_workers(root: object, what: str) -> dict[str, Any]:
    """The same of code that runs in tasks of Spark.

    Raises: DescriptionError, too, if no other process can import it
    """
    require_importable(root, what)
    return code_of(root, what)


def _name_of(root: object) -> str:
    """The name of a function or a class, or of the class of an object."""
    root = within_partials(root)
    return str(getattr(root, "__qualname__", type(root).__qualname__))


class CodeWalk:
    """Goes from the code to what it refers to. Each function and class is described where it is reached first."""

    def __init__(self, packages: frozenset[str], what: str, seen: Mapping[int, tuple[str, object]]) -> None:
        self._packages, self._what, self._seen = packages, what, dict(seen)
        self._parts: dict[str, str] = {}
        self._waiting: deque[tuple[str, Any]] = deque()

    def parts_of(self, root: object, name: str) -> dict[str, str]:
        """All parts that are reached from a root."""
        self._waiting.append((name, root))
        while self._waiting:
            path, value = self._waiting.popleft()
            try:
                shown = json.dumps(content_of(value, path, self), sort_keys=True, separators=(",", ":"))
            except UnseenError as unseen:
                raise DescriptionError(
                    f"{self._what}: a fingerprint cannot see {unseen.words}, which is reached as {unseen.path}.",
                    detail="A change of it would go unnoticed, and the rows in the lake would be those of the code before.",
                    hint=unseen.hint or _REMEDY,
                ) from None
            self._parts[path] = shown if len(shown) <= SHOWN_MAX else digest(shown)
        return self._parts

    def unordered(self, value: object, path: str) -> str:
        """An element of a set, by itself: its content does not depend on where it stands in the set."""
        parts = CodeWalk(self._packages, self._what, self._seen).parts_of(value, path)
        return digest(json.dumps(parts, sort_keys=True))

    def owns(self, module: str | None) -> bool:
        """True for a module of the code's own package."""
        return (module or "").partition(".")[0] in self._packages

    def place_of(self, value: object) -> str | None:
        """The path at which a function or a class was reached before."""
        place = self._seen.get(id(value))
        return place and place[0]

    def describe_function(self, function: FunctionType, path: str) -> str:
        """The text of a function. Its globals are described later."""
        self._seen[id(function)] = path, function
        self._refer(function.__code__, function.__globals__, path)
        return digest(text_of(function))

    def describe_class(self, owner: type, path: str) -> str | None:
        """The text of a class, None if there is none. The globals of its body are described later."""
        self._seen[id(owner)] = path, owner
        text = text_of_class(owner)
        if text is None:
            return None
        namespace = vars(sys.modules[owner.__module__]) if owner.__module__ in sys.modules else {}
        chains = [each for each in loaded_by_body(text, namespace) if each[0] in namespace]
        self._later({".".join(each): self._resolved(each, namespace, path) for each in chains}, path)
        return digest(text)

    def _refer(self, code: CodeType, namespace: dict[str, Any], path: str) -> None:
        chains = [each for each in loaded(code) if self._counts(each[0], namespace)]
        named = {".".join(each): self._resolved(each, namespace, path) for each in chains}
        self._later(named | dict(self._imports(code, namespace, path)), path)

    def _counts(self, name: str, namespace: Mapping[str, Any]) -> bool:
        """False for a name that Python itself has, unless it hides others or the code's own package made it."""
        if name in namespace or name not in vars(builtins):
            return True
        value = vars(builtins)[name]
        return _hides(value) or self.owns(getattr(value, "__module__", None))

    def _later(self, named: Mapping[str, tuple[str, Any]], path: str) -> None:
        # `helpers.names` and `helpers.names.get` are one value of module `helpers`.
        values = dict(named.values())
        self._waiting.extend((f"{path}/{name}", values[name]) for name in sorted(values))

    def _resolved(self, chain: tuple[str, ...], namespace: dict[str, Any], path: str) -> tuple[str, Any]:
        """The name and the value at the end of a chain: what is loaded of modules of the package, else a global."""
        known = namespace if chain[0] in namespace else vars(builtins)
        if chain[0] not in known:
            raise DescriptionError(
                f"{self._what}: {path} refers to '{chain[0]}', which is not defined yet.",
                hint="Define it before the node is described.",
            )
        value, taken = known[chain[0]], 1
        while isinstance(value, ModuleType) and self.owns(value.__name__) and taken < len(chain):
            value, taken = self._attribute(value, chain[taken], path), taken + 1
        ends = [value, getattr(value, chain[taken], None) if taken < len(chain) else None]
        if any(map(_hides, ends)):
            used = ".".join(chain)
            raise HiddenError(
                path, f"what is reached by {used}", "Name it where it is used, and import it by its name."
            )
        return ".".join(chain[:taken]), value

    def _attribute(self, module: ModuleType, name: str, path: str) -> Any:
        if name == "__dict__":
            raise HiddenError(path, f"what is used of module '{module.__name__}'", USED_OF_MODULE)
        if not hasattr(module, name):
            raise DescriptionError(
                f"{self._what}: {path} refers to '{module.__name__}.{name}', which is not defined yet.",
                hint="Define it before the node is described.",
            )
        return getattr(module, name)

    def _imports(self, code: CodeType, namespace: dict[str, Any], path: str) -> dict[str, tuple[str, Any]]:
        """The names that a function imports from its package, each with its path and its value."""
        found: dict[str, tuple[str, Any]] = {}
        for level, name, names in imported(code):
            package = str(namespace.get("__package__") or "")
            whole = resolve_name("." * level + name, package) if level else name
            if self.owns(whole):
                module = self._module(whole, path)
                found |= {} if names else self._used(module, code)
                for each in names:
                    value = self._taken(module, each, path)
                    whole_module = isinstance(value, ModuleType) and self.owns(value.__name__)
                    place = f"{whole}.{each}"
                    found |= self._used(value, code) if whole_module else {place: (place, value)}
        return found

    def _used(self, module: ModuleType, code: CodeType) -> dict[str, tuple[str, Any]]:
        """The names in a function's code that a module which it imports has."""
        places = {name: f"{module.__name__}.{name}" for name in code.co_names if hasattr(module, name)}
        return {place: (place, getattr(module, name)) for name, place in places.items()}

    def _taken(self, module: ModuleType, name: str, path: str) -> Any:
        """The value of `from module import name`."""
        if hasattr(module, name):
            return getattr(module, name)
        return self._module(f"{module.__name__}.{name}", path)

    def _module(self, name: str, path: str) -> ModuleType:
        try:
            return sys.modules.get(name) or importlib.import_module(name)
        except ImportError as error:
            raise DescriptionError(
                f"{self._what}: {path} imports '{name}', which cannot be imported when the node is described: {error}",
                hint="Import it at the head of the module.",
            ) from None


def _hides(value: object) -> bool:
    return any(value is each for each in _HIDING)


def _packages_of(root: object) -> frozenset[str]:
    """The first names of the modules of the code and, of a class, of the classes that it inherits from."""
    root = within_partials(root)
    if isinstance(root, FunctionType):
        modules = [root.__module__]
    else:
        kinds = root.__mro__ if isinstance(root, type) else type(root).__mro__
        modules = [each.__module__ for each in kinds]
    packages = {module.partition(".")[0] for module in modules} - _FOREIGN
    main = _package_of_main()
    return frozenset(packages | {_MAIN, main} if packages & {_MAIN, main} else packages)


def _package_of_main() -> str:
    """The package of the program, if it runs as `python -m package.module`."""
    spec = getattr(sys.modules.get(_MAIN), "__spec__", None)
    return spec.name.partition(".")[0] if spec else _MAIN
