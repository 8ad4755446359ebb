"""The content of a value that code refers to: what pickle keeps of it, as JSON.

Law: equal contents are equal values in every process, so no address shows, and no order of a set. The order of a mapping
     counts. Functions and classes are described by the walk, once each.
"""

from __future__ import annotations

import copyreg
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from headrace.description.code_text import digest, stored_by_body, text_of_class

if TYPE_CHECKING:
    from headrace.description.code_identity import CodeWalk

PICKLE_PROTOCOL = 4  # the last one that keeps bytes of buffers with their object
_PLAIN = (type(None), bool, int, float, str)
USED_OF_MODULE = "Name it where it is used: module.name, or from module import name."
_GENERATED = {"_abc_impl"}


class UnseenError(Exception):
    """A value without a content that can be written down."""

    def __init__(self, path: str, words: str, hint: str = "") -> None:
        super().__init__(path, words)
        self.path, self.words, self.hint = path, words, hint


class HiddenError(UnseenError):
    """Code that reaches what its text does not name."""


def content_of(value: Any, path: str, walk: CodeWalk) -> Any:
    """The content of a value as JSON.

    Raises: UnseenError for what pickle cannot write, and for a whole module of the code's package
    """
    return _Contents(walk).of(value, path)


class _Contents:
    def __init__(self, walk: CodeWalk) -> None:
        self._walk, self._open = walk, set[int]()

    def of(self, value: Any, path: str) -> Any:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, bytes | bytearray):
            return {type(value).__name__: digest(value.hex())}
        if id(value) in self._open:
            return "itself"
        self._open.add(id(value))
        try:
            return self._composed(value, path)
        finally:
            self._open.discard(id(value))

    def _composed(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in (list, tuple):
            return {kind.__name__: self._all(value, path)}
        if kind in (dict, MappingProxyType):
            return {"dict": self._all([part for item in value.items() for part in item], path)}
        if kind in (set, frozenset):
            return {"set": sorted(self._walk.unordered(each, path) for each in value)}
        if isinstance(value, ModuleType):
            return self._module(value, path)
        if isinstance(value, FunctionType):
            return self._function(value, path)
        if isinstance(value, type):
            return self._class(value, path)
        return self._object(value, path)

    def _all(self, values: Sequence[Any], path: str) -> list[Any]:
        return [self.of(each, f"{path}[{number}]") for number, each in enumerate(values)]

    def _named(self, values: Mapping[str, Any], path: str) -> dict[str, Any]:
        return {name: self.of(each, f"{path}.{name}") for name, each in sorted(values.items())}

    def _module(self, module: ModuleType, path: str) -> Any:
        if self._walk.owns(module.__name__):
            raise UnseenError(
                path,
                f"what is used of module '{module.__name__}'",
                USED_OF_MODULE,
            )
        return {"module": module.__name__}

    def _function(self, function: FunctionType, path: str) -> Any:
        """One of the package by its text; of another one by its name, with what a decorator made it carry."""
        if (place := self._walk.place_of(function)) is not None:
            return {"see": place}
        if isinstance(registry := getattr(function, "registry", None), MappingProxyType):
            return {"singledispatch": self.of(registry, path)}  # its other parts are a memory of calls
        module = function.__globals__.get("__name__")
        if self._walk.owns(module):
            told = {"text": self._walk.describe_function(function, path)}
        else:
            told = {"name": f"{module}.{function.__code__.co_qualname}"}
            if _at(module, function.__qualname__) is function:
                return told
        carried = {
            "defaults": function.__defaults__,
            "keyword_defaults": function.__kwdefaults__,
            "attributes": vars(function) or None,
            "closure": self._closure(function, path) or None,
        }
        if (udf := _udf(function)) is not None:
            carried = udf
        return told | self._named({name: each for name, each in carried.items() if each is not None}, path)

    def _closure(self, function: FunctionType, path: str) -> dict[str, Any]:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        try:
            return {name: cell.cell_contents for name, cell in cells}
        except ValueError:
            raise UnseenError(
                path,
                "a variable that is not set yet",
                "Let the function that it refers to stand before it.",
            ) from None

    def _class(self, owner: type, path: str) -> Any:
        if not self._walk.owns(owner.__module__):
            return {"class": f"{owner.__module__}.{owner.__qualname__}"}
        if (place := self._walk.place_of(owner)) is not None:
            return {"see": place}
        text = self._walk.describe_class(owner, path)
        kind = [type(owner)] if self._walk.owns(type(owner).__module__) else []
        bases = self._all([each for each in (*kind, *owner.__bases__) if each is not object], path)
        in_text = stored_by_body(text_of_class(owner) or "")
        members = {
            name: self._member(value, f"{path}.{name}", name in in_text)
            for name, value in sorted(vars(owner).items())
            if _is_written(name, value, text is not None)
        }
        return {"text": text, "bases": bases, "members": members}

    def _member(self, value: Any, path: str, in_text: bool) -> Any:
        """A member of the class's text whose content cannot be seen counts by its type: that text and its globals count."""
        try:
            return self.of(value, path)
        except UnseenError as unseen:
            if not in_text or isinstance(unseen, HiddenError) or isinstance(value, FunctionType):
                raise
            return {"type": type(value).__qualname__}

    def _object(self, value: Any, path: str) -> Any:
        if isinstance(value, logging.Logger | logging.LoggerAdapter):
            return {"type": "logger"}
        if (parts := _parts_of(value)) is not None:
            return {"type": type(value).__qualname__, **self._named(parts, path)}
        kept = _reduced(value, path)
        if isinstance(kept, str):
            module = getattr(value, "__module__", None) or type(value).__module__
            return {"name": kept if self._walk.owns(module) else f"{module}.{kept}"}
        made, arguments, state, items, pairs = (*kept, None, None, None)[:5]
        return {
            "made": self.of(made, f"{path}.made"),
            "of": self.of(arguments, path),
            "state": self.of(_without_memory(value, state), f"{path}.state"),
            "items": self.of(None if items is None else list(items), f"{path}.items"),
            "pairs": self.of(None if pairs is None else list(pairs), f"{path}.pairs"),
        }


def _reduced(value: Any, path: str) -> Any:
    reduce: Callable[[Any], Any] | None = copyreg.dispatch_table.get(type(value))
    try:
        return reduce(value) if reduce else value.__reduce_ex__(PICKLE_PROTOCOL)
    except Exception as error:
        raise UnseenError(path, f"the content of a {type(value).__qualname__} ({error})") from None


def _parts_of(value: Any) -> dict[str, Any] | None:
    """The parts of an object that pickle cannot write, or of which it writes too much; None: pickle keeps its content."""
    if isinstance(value, staticmethod | classmethod):
        return {"function": value.__func__}
    if isinstance(value, property):
        return {"get": value.fget, "set": value.fset, "delete": value.fdel}
    if isinstance(value, cached_property):
        return {"function": value.func}
    if not isinstance(value, BuiltinFunctionType) and callable(getattr(value, "__wrapped__", None)):
        return {"function": value.__wrapped__, "attributes": _attributes(value)}
    if type(value).__module__.partition(".")[0] == "pyarrow" and hasattr(value, "to_pylist"):
        return {
            "type_of": str(value.schema if hasattr(value, "schema") else value.type),
            "rows": value.to_pylist(),
        }
    return None


def _attributes(value: Any) -> dict[str, Any]:
    return {name: each for name, each in vars(value).items() if name != "__wrapped__" and name[:2] != "__"}


def _udf(function: FunctionType) -> dict[str, Any] | None:
    """A function of Spark's that runs Python: after its first use it holds objects of the JVM."""
    kind = getattr(function, "evalType", None)
    if kind is None or not hasattr(function, "returnType"):
        return None
    returns = function.returnType
    return {
        "function": getattr(function, "func", None),
        "returns": returns if isinstance(returns, str) else returns.simpleString(),
        "kind": kind,
        "deterministic": getattr(function, "deterministic", True),
    }


def _at(module: Any, name: str) -> Any:
    """The object that a module has under a qualified name."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _is_written(name: str, value: Any, has_text: bool) -> bool:
    """Whether a person wrote a member of a class; Python and decorators make the rest from its text."""
    if name in _GENERATED:
        return False
    if not (name.startswith("_") and name.endswith("_")):
        return True
    plain = getattr(value, "__func__", value)
    made = isinstance(plain, FunctionType) and plain.__code__.co_filename.startswith("<")
    return isinstance(plain, FunctionType) and not (made and has_text)


def _without_memory(value: Any, state: Any) -> Any:
    """The state of an object without what its cached properties remember."""
    if not isinstance(state, dict):
        return state
    kind = type(value)
    memory = {name for name in state if isinstance(getattr(kind, str(name), None), cached_property)}
    return {name: each for name, each in state.items() if name not in memory} or None
