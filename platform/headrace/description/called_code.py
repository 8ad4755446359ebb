"""The code that a user's class refers to beyond its own source: functions, classes and values of its package.

Law: equal wherever it is computed, for it goes by names and sources, and never by where a package is installed. A name
stands for what another package has. Code that is reached through an object, such as `self.client.get`, is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from headrace.description.code_identity import identity_of, value_identity


def called_by(owner: type | FunctionType) -> dict[str, Any]:
    """The globals that a function, or the methods of a class, refer to, and what these refer to in turn, by name."""
    package = owner.__module__.partition(".")[0]
    found: dict[str, Any] = {}
    waiting: list[type | FunctionType] = [owner]
    seen = {id(owner)}
    while waiting:
        for name, value in _referred(waiting.pop(), package):
            if id(value) in seen:
                continue
            seen.add(id(value))
            own = isinstance(value, type | FunctionType) and _is_of(value, package)
            found[name] = identity_of(value) if own else _named(value)
            if own:
                waiting.append(value)
    return found


def _referred(user: type | FunctionType, package: str) -> Iterator[tuple[str, Any]]:
    """The globals that a class or a function refers to, also as attributes of modules of the package."""
    for function in _functions(user):
        names, known = _names(function.__code__), function.__globals__
        for name in names:
            value = known.get(name)
            if isinstance(value, ModuleType):
                if value.__name__.partition(".")[0] == package:
                    own = vars(value)
                    yield from ((f"{name}.{each}", own[each]) for each in names if each in own)
            elif name in known:
                yield name, value


def _functions(user: type | FunctionType) -> Iterator[FunctionType]:
    if isinstance(user, FunctionType):
        yield user
        return
    for value in vars(user).values():
        plain = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        if isinstance(plain, FunctionType):
            yield plain


def _names(code: CodeType) -> list[str]:
    """Sorted, with those of functions within."""
    inner = (name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each))
    return sorted({*code.co_names, *inner})


def _is_of(value: type | FunctionType, package: str) -> bool:
    return value.__module__.partition(".")[0] == package


def _named(value: Any) -> Any:
    """A plain value by content; a function or a class of another package by its name."""
    if callable(value):
        return (
            f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
        )
    return value_identity(value)
