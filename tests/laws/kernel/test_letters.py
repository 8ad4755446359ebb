"""The bytes of texts in one array are those of the texts, whatever they were cut out of."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from headrace.sequence.parse.letters import letters_of

pytestmark = pytest.mark.fast

TEXTS = ["first", "", None, "é漢", "a", None, "last"]


@pytest.mark.parametrize("of", [pa.string(), pa.binary()])
@pytest.mark.parametrize("begin", range(len(TEXTS) + 1))
@pytest.mark.parametrize("count", range(len(TEXTS) + 1))
def test_a_cut_has_the_letters_of_its_texts_alone(of: pa.DataType, begin: int, count: int) -> None:
    given = [None if text is None else text.encode() for text in TEXTS]
    ends, letters = letters_of(pa.array(given, pa.binary()).cast(of).slice(begin, count))
    wanted = [text or b"" for text in given[begin : begin + count]]
    assert letters.tobytes() == b"".join(wanted)
    assert [letters[a:b].tobytes() for a, b in pairwise(ends)] == wanted


def test_no_texts_and_nulls_alone_have_none() -> None:
    for none in (pa.array([], pa.string()), pa.nulls(3, pa.string())):
        ends, letters = letters_of(none)
        assert (ends.tolist(), len(letters)) == ([0] * (len(none) + 1), 0)
