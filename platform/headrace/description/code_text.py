"""The text of a function or a class, and the globals that it loads.

Law: both follow from the code alone. Where Python finds no text, as in a prompt, the bytecode stands for it; another version
     of Python has another one.
"""

from __future__ import annotations
import __future__

import ast
import dis
import hashlib
import linecache
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

_IMPORT = "__import__"
_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_CONSTANTS = {"LOAD_CONST", "LOAD_SMALL_INT"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef

Chain = tuple[str, ...]
"""A global, and the attributes that are loaded from it one after another: `rates.EURO` is ("rates", "EURO")."""


def digest(text: str) -> str:
    """The sha256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def text_of(function: FunctionType) -> str:
    """The text of a function with its decorators; its bytecode if Python finds no text."""
    code = function.__code__
    lines = _lines(code.co_filename)
    definitions, lambdas = _index(lines)
    if code.co_name == "<lambda>":
        within = lambdas.get(_first_position(code))
        return (within and ast.get_source_segment("".join(lines), within)) or _bytecode(code)
    node = definitions.get((code.co_name, code.co_firstlineno))
    return _segment(lines, node) if node else _bytecode(code)


def text_of_class(owner: type) -> str | None:
    """The text of a class with its decorators; None if Python finds none."""
    module = sys.modules.get(owner.__module__)
    lines = _lines(getattr(module, "__file__", None) or _file_of(owner) or "")
    named = [node for name, node in _classes_of(lines) if name == owner.__qualname__]
    within = {each.__code__.co_firstlineno for each in vars(owner).values() if isinstance(each, FunctionType)}
    for node in reversed(named):
        if len(named) == 1 or any(node.lineno <= line <= (node.end_lineno or 0) for line in within):
            return _segment(lines, node)
    return None


def loaded_by_body(text: str, namespace: dict[str, Any]) -> Iterator[Chain]:
    """The globals that the body of a class loads, its decorators and bases among them; not those of its methods."""
    plain = namespace.get("annotations") is __future__.annotations
    flags = __future__.annotations.compiler_flag if plain else 0
    around: CodeType = compile(text, "<class>", "exec", flags, dont_inherit=True)
    bodies = [each for each in around.co_consts if isinstance(each, CodeType)]
    for code in (around, *bodies):
        yield from _loaded_here(code)
        for inner in code.co_consts:
            if isinstance(inner, CodeType) and inner.co_name.startswith("<"):  # a comprehension or a lambda
                yield from loaded(inner)


def stored_by_body(text: str) -> set[str]:
    """The members that the body of a class makes. In: text  of the class, "" if there is none."""
    (*_, owner) = [*ast.parse(text).body, ast.Pass()][:1]
    body = owner.body if isinstance(owner, ast.ClassDef) else []
    stored = {node.id for part in body for node in ast.walk(part) if isinstance(node, ast.Name)}
    return stored | {part.name for part in body if isinstance(part, _Definition)}


def loaded(code: CodeType) -> Iterator[Chain]:
    """The globals that some code, and functions within it, load."""
    yield from _loaded_here(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from loaded(constant)


def imported(code: CodeType) -> Iterator[tuple[int, str, Sequence[str]]]:
    """The imports within some code: how many packages up, the module, and the names taken from it."""
    constants: list[Any] = []
    for each in dis.get_instructions(code):
        if each.opname in _CONSTANTS:
            constants.append(each.argval)
        elif each.opname == "IMPORT_NAME":
            level, names = constants[-2:]
            yield level, str(each.argval), names or ()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from imported(constant)


def _loaded_here(code: CodeType) -> Iterator[Chain]:
    chain: Chain = ()
    for each in dis.get_instructions(code):
        if each.opname in _GLOBALS:
            yield from _whole(chain)
            chain = (str(each.argval),)
        elif each.opname in _ATTRIBUTES and chain:
            chain = (*chain, str(each.argval))
        elif each.opname != "EXTENDED_ARG":
            yield from _whole(chain)
            chain = ()
    yield from _whole(chain)


def _whole(chain: Chain) -> Iterator[Chain]:
    if chain and (chain[0] == _IMPORT or not (chain[0].startswith("__") and chain[0].endswith("__"))):
        yield chain


def _lines(file: str) -> tuple[str, ...]:
    linecache.checkcache(file)
    return tuple(linecache.getlines(file))


@lru_cache(maxsize=32)
def _tree(lines: tuple[str, ...]) -> ast.Module:
    try:
        return ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


@lru_cache(maxsize=32)
def _index(
    lines: tuple[str, ...],
) -> tuple[dict[tuple[str, int], _Function], dict[tuple[int, int], ast.Lambda]]:
    """Functions by name and first line, and lambdas by where their bodies begin."""
    nodes = list(ast.walk(_tree(lines)))
    definitions = {(each.name, _first_line(each)): each for each in nodes if isinstance(each, _Function)}
    lambdas = [each for each in nodes if isinstance(each, ast.Lambda)]
    return definitions, {(each.body.lineno, each.body.col_offset): each for each in lambdas}


@lru_cache(maxsize=32)
def _classes_of(lines: tuple[str, ...]) -> tuple[tuple[str, ast.ClassDef], ...]:
    return tuple(_classes(_tree(lines), ""))


def _classes(node: ast.AST, above: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes below a part of a module, by qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield above + child.name, child
            yield from _classes(child, f"{above}{child.name}.")
        elif isinstance(child, _Function):
            yield from _classes(child, f"{above}{child.name}.<locals>.")
        else:
            yield from _classes(child, above)


def _file_of(owner: type) -> str | None:
    """The file of a class whose module has none: that of its first function."""
    functions = (each for each in vars(owner).values() if isinstance(each, FunctionType))
    return next((each.__code__.co_filename for each in functions), None)


def _first_line(node: _Definition) -> int:
    return min(node.lineno, *(each.lineno for each in node.decorator_list), node.lineno)


def _segment(lines: Sequence[str], node: _Definition) -> str:
    return textwrap.dedent("".join(lines[_first_line(node) - 1 : node.end_lineno])).strip()


def _first_position(code: CodeType) -> tuple[int, int]:
    """Where the body of a lambda begins."""
    return min(
        (
            (line, column)
            for line, last_line, column, last in code.co_positions()
            if line is not None and column is not None and (line, column) != (last_line, last)
        ),
        default=(0, 0),
    )


def _bytecode(code: CodeType) -> str:
    constants = [_bytecode(each) if isinstance(each, CodeType) else _plain(each) for each in code.co_consts]
    shape = code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags
    return repr((code.co_code, shape, code.co_names, code.co_varnames, code.co_freevars, constants))


def _plain(constant: Any) -> str:
    return repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)
