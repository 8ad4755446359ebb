"""Find the odd ones among items that can only be tried in runs: by halving.

Law: which items are found is a function of the items alone, as long as the tries last. Where they run out, everything before
one place is known, and nothing is said of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


class OutOfTriesError(Exception):
    """A search has used all the tries that it was given."""


@dataclass
class Tries:
    """How many tries are left to a search.

    of  those that are left to a larger search, of which this one is a part; None: it is a part of none
    """

    left: int
    of: Tries | None = None

    def spend(self) -> None:
        """Use one.

        Raises: OutOfTriesError
        """
        if not self.left:
            raise OutOfTriesError
        if self.of is not None:
            self.of.spend()
        self.left -= 1


@dataclass(frozen=True)
class OddOnes(Generic[T]):
    """The result of a search.

    items  the odd items as they are described, by place
    known  all places before this one are known: an item before it that is not in `found` is not odd
    """

    items: Mapping[int, T]
    known: int


def odd_ones(
    count: int, fails: Callable[[int, int], bool], describe: Callable[[int], T], *, known_odd: bool = False
) -> OddOnes[T]:
    """Find the odd ones of `count` items.

    In: fails      tries the items from one place up to another, which is left out; true if one of them is odd
        describe   tells of an odd item
                   Both may raise OutOfTriesError: the search then ends.
        known_odd  whether it is known that one of them is odd
    Out: with n items and d odd ones it takes about d · (2 + log2(n / d)) tries. If one half does not fail, the other
         one need not be tried.
    """
    found: dict[int, T] = {}
    known = 0
    runs = [(0, count, known_odd)]  # from, up to, whether it is known to fail; the next one last
    try:
        while runs:
            first, end, is_odd = runs.pop()
            if first == end or not (is_odd or fails(first, end)):
                known = end
            elif end - first == 1:
                found[first] = describe(first)
                known = end
            else:
                middle = (first + end) // 2
                left_fails = fails(first, middle)
                runs.append((middle, end, not left_fails))
                if left_fails:
                    runs.append((first, middle, True))
                else:
                    known = middle
    except OutOfTriesError:
        pass
    return OddOnes(found, known)
