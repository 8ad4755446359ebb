"""JSON texts in which each MAP is written as Arrow's reader takes it: {"a": 1, "b": 2} as [{"k":"a","v":1},{"k":"b","v":2}].

Law: a text that is returned and not odd is the JSON of the same values, if it was JSON of the declared types; otherwise it
is still none that Arrow would take. So the marks that are replaced are known to be in balance and in order, all other
bytes stay, and whatever is not certain is odd: a name with an escape, brackets that do not match, a MAP that is no object.

The marks of a text are its brackets, colons and commas outside of strings. Each belongs to a container (an object or array)
of a level. From level to level, containers get the node of the type that they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.sequence.parse.letters import letters_of
from headrace.sequence.parse.types import has_maps

KEY, VALUE = "k", "v"
_OPEN, _OPEN_EMPTY, _COLON, _COMMA, _CLOSE, _CLOSE_EMPTY = range(6)
_WRITTEN = (b'[{"k":', b"[", b',"v":', b'},{"k":', b"}]", b"]")
_LENGTHS = np.array([len(text) for text in _WRITTEN])
_OPENS, _CLOSES, _BLANKS = (np.isin(np.arange(256), [*letters]) for letters in (b"{[", b"}]", b" \t\r\n"))
_READ = bytes(letter in b'{}[]:,"\\' for letter in range(256))  # marks, and what tells strings from them
_STEPS = _OPENS.astype(np.int32) - _CLOSES
_BLANKS_MAX = 8  # around a name; a text with more is odd


@dataclass
class _Node:
    """A type with maps in it: what its containers are, and the nodes of what they hold."""

    is_map: bool
    inner: int | None = None  # of an array or a map
    fields: dict[bytes, int] = field(default_factory=dict)  # of an object, by name in quotes


class MapTexts:
    """Rewrites texts of objects of one type."""

    def __init__(self, of: pa.DataType) -> None:
        self._nodes: list[_Node] = [_Node(False)]  # 0: all that has no maps
        self._root = self._add(of)

    def rewritten(self, texts: pa.StringArray) -> tuple[pa.StringArray, np.ndarray]:
        """The texts as Arrow takes them, and which are odd. In: texts  that begin with a brace, none of them null."""
        ends, letters = letters_of(texts)
        marks, odd = _marks(letters, ends)
        places, codes = self._replaced(letters, marks, odd)
        kept = ~odd[np.searchsorted(ends, places, side="right") - 1]
        return _written(letters, ends, places[kept], codes[kept]), odd

    def _add(self, of: pa.DataType) -> int:
        if not has_maps(of):
            return 0
        node = _Node(pa.types.is_map(of))
        number = len(self._nodes)
        self._nodes.append(node)
        if pa.types.is_struct(of):
            node.fields = {
                _in_quotes(inner.name): self._add(inner.type) for inner in of if has_maps(inner.type)
            }
        else:
            node.inner = self._add(of.item_type if node.is_map else of.value_type)
        return number

    def _replaced(self, letters: np.ndarray, marks: _Marks, odd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which bytes are written otherwise, in order, and how; odd rows are marked."""
        found = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        nodes, level = np.full(int(marks.opens(1).sum()), self._root), 1
        while nodes.any():
            mine = marks.of_level(level)
            is_map = np.array([node.is_map for node in self._nodes])[nodes]
            found.append(_of_maps(letters, marks, mine, is_map, odd))
            nodes = self._nodes_below(letters, marks, level, nodes, odd)
            level += 1
        places = np.concatenate([place for place, _ in found])
        order = np.argsort(places, kind="stable")
        return places[order], np.concatenate([code for _, code in found])[order]

    def _nodes_below(
        self, letters: np.ndarray, marks: _Marks, level: int, nodes: np.ndarray, odd: np.ndarray
    ) -> np.ndarray:
        """The nodes of the containers one level below. In: nodes  of those of this level."""
        opening = np.flatnonzero(marks.opens(level + 1))
        parents = nodes[np.cumsum(marks.opens(level))[opening] - 1]
        below = np.zeros(len(opening), np.int64)
        for number in np.unique(parents).tolist():
            node, mine = self._nodes[number], parents == number
            if node.inner is not None:
                below[mine] = node.inner
            elif node.fields:
                below[mine] = _by_name(letters, marks, opening[mine], node.fields, odd)
        return below


@dataclass(frozen=True)
class _Marks:
    """The marks of texts that are in balance, in order: where each stands, what it is, in which row, at which level, and
    whether it opens a container."""

    at: np.ndarray
    letter: np.ndarray
    row: np.ndarray
    level: np.ndarray
    opening: np.ndarray
    slashes: np.ndarray | None  # how many backslashes stand before each byte; None: there are none

    def opens(self, level: int) -> np.ndarray:
        """Which marks open a container of a level."""
        found: np.ndarray = (self.level == level) & self.opening
        return found

    def of_level(self, level: int) -> np.ndarray:
        """The marks that belong to containers of a level."""
        return np.flatnonzero(self.level == level)


def _marks(letters: np.ndarray, ends: np.ndarray) -> tuple[_Marks, np.ndarray]:
    """The marks of all texts that are in balance, and which are not."""
    at = np.flatnonzero(np.frombuffer(letters.tobytes().translate(_READ), bool))
    letter, bounds = letters[at], np.searchsorted(at, ends)
    quote, slashes = letter == ord('"'), None
    if (slash := letters == ord("\\")).any():
        quote &= ~_escaped(slash)[at]
        slashes = np.concatenate([[0], np.cumsum(slash, dtype=np.int32)])
    quotes = np.concatenate([[0], np.cumsum(quote, dtype=np.int32)])
    odd = (quotes[bounds[1:]] - quotes[bounds[:-1]]) % 2 == 1
    row = np.repeat(np.arange(len(odd), dtype=np.int32), np.diff(bounds))
    inside = quotes[:-1] & 1
    if odd.any():
        inside ^= (quotes[bounds[:-1]] & 1)[row]
    is_mark = (inside == 0) & (letter != ord('"'))
    if slashes is not None:
        is_mark &= letter != ord("\\")
    at, row, letter = at[is_mark], row[is_mark], letter[is_mark]
    step = _STEPS[letter]
    depth = np.concatenate([[0], np.cumsum(step)])
    first = np.searchsorted(row, np.arange(len(odd) + 1))
    odd |= depth[first[1:]] != depth[first[:-1]]
    level = depth[1:] - depth[first[:-1]][row] + (step < 0)
    odd[row[level < 1]] = True
    kept = ~odd[row]
    if kept.all():
        return _Marks(at, letter, row, level, step > 0, slashes), odd
    return _Marks(at[kept], letter[kept], row[kept], level[kept], step[kept] > 0, slashes), odd


def _escaped(slash: np.ndarray) -> np.ndarray:
    """Which bytes a backslash escapes."""
    at = np.flatnonzero(slash)
    new = np.ones(len(at), bool)
    new[1:] = at[1:] != at[:-1] + 1
    place = np.arange(len(at))
    run = place - np.maximum.accumulate(np.where(new, place, 0))
    escaped = np.zeros(len(slash) + 1, bool)
    escaped[at[run % 2 == 0] + 1] = True
    return escaped[:-1]


def _of_maps(
    letters: np.ndarray, marks: _Marks, own: np.ndarray, is_map: np.ndarray, odd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of the maps of a level that are written otherwise, and how. In: own   the marks of that level."""
    container = np.cumsum(marks.opening[own]) - 1
    own, container = own[is_map[container]], container[is_map[container]]
    letter, row = marks.letter[own], marks.row[own]
    if not len(own):
        return own, own
    first = np.flatnonzero(np.append(True, container[1:] != container[:-1]))
    size = np.diff(np.append(first, len(own)))
    place = np.arange(len(own)) - np.repeat(first, size)
    last = place == np.repeat(size, size) - 1
    empty = np.repeat(size == 2, size)
    # Between the braces: a colon, a comma, and so on, a colon at last.
    wanted = np.where(place % 2 == 1, ord(":"), ord(","))
    wanted = np.where(place == 0, ord("{"), np.where(last, ord("}"), wanted))
    good = (letter == wanted) & ~(last & (place % 2 == 1) & ~empty)
    closing = first[size == 2] + 1
    good[closing] &= marks.at[own[closing]] == marks.at[own[closing - 1]] + 1
    odd[row[~good]] = True
    code = np.where(place % 2 == 1, _COLON, _COMMA)
    code = np.where(place == 0, np.where(empty, _OPEN_EMPTY, _OPEN), code)
    code = np.where(last, np.where(empty, _CLOSE_EMPTY, _CLOSE), code)
    return marks.at[own], code


def _by_name(
    letters: np.ndarray, marks: _Marks, opening: np.ndarray, fields: dict[bytes, int], odd: np.ndarray
) -> np.ndarray:
    """The nodes of containers that are fields of an object, by the names before them; 0: of no field with maps."""
    below = np.zeros(len(opening), np.int64)
    named = (marks.letter[opening - 1] == ord(":")) & (opening >= 2)
    odd[marks.row[opening[~named]]] = True
    begin, end = marks.at[opening[named] - 2] + 1, marks.at[opening[named] - 1]
    begin, end = begin.copy(), end.copy()
    for _ in range(_BLANKS_MAX if (_BLANKS[letters[begin]] | _BLANKS[letters[end - 1]]).any() else 0):
        begin += _BLANKS[letters[begin]] & (begin < end)
        end -= _BLANKS[letters[end - 1]] & (begin < end)
    unclear = _BLANKS[letters[begin]] | _BLANKS[letters[end - 1]]
    if marks.slashes is not None:
        unclear |= marks.slashes[end] > marks.slashes[begin]
    odd[marks.row[opening[named][unclear]]] = True
    nodes = np.zeros(len(begin), np.int64)
    for name, node in fields.items():
        candidates = np.flatnonzero(end - begin == len(name))
        texts = letters[begin[candidates][:, None] + np.arange(len(name))]
        nodes[candidates[(texts == np.frombuffer(name, np.uint8)).all(axis=1)]] = node
    below[named] = nodes
    return below


def _written(letters: np.ndarray, ends: np.ndarray, places: np.ndarray, codes: np.ndarray) -> pa.StringArray:
    """The texts with some bytes written otherwise."""
    counts = np.ones(len(letters), np.int64)
    counts[places] = _LENGTHS[codes]
    grown = np.concatenate([[0], np.cumsum(_LENGTHS[codes] - 1)])
    found = np.repeat(letters, counts)
    for code, text in enumerate(_WRITTEN):
        mine = np.flatnonzero(codes == code)
        found[(places[mine] + grown[mine])[:, None] + np.arange(len(text))] = np.frombuffer(text, np.uint8)
    new_ends = (ends + grown[np.searchsorted(places, ends)]).astype(np.int32)
    buffers = [None, pa.py_buffer(new_ends.tobytes()), pa.py_buffer(found.tobytes())]
    return pa.Array.from_buffers(pa.string(), len(ends) - 1, buffers)


def _in_quotes(name: str) -> bytes:
    return f'"{name}"'.encode()
