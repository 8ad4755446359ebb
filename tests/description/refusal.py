"""How tests say that a description is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import headrace as hr


@contextmanager
def refused(*parts: str) -> Iterator[None]:
    """The body raises a DescriptionError whose text holds every part."""
    with pytest.raises(hr.DescriptionError) as error:
        yield
    text = str(error.value)
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in {text!r}"
