"""The table of the numbers of arguments is the one that was compared with Spark."""

from __future__ import annotations

import hashlib

import pyspark
import pytest

from headrace.description.function_arguments import ARGUMENTS

COMPARED = ("4.1.3", "237ea7b69d14787220238a5749eba8d588240f18336899d8ebe9efbbcd2ebdb9")
LONG = "tests/runtime/test_refused_expressions.py::test_functions_take_as_many_arguments_as_with_spark"


@pytest.mark.fast
def test_the_numbers_of_arguments_were_compared_with_this_spark() -> None:
    """The comparison takes over a minute, and its outcome follows from these two alone."""
    table = hashlib.sha256(repr(sorted(ARGUMENTS.items())).encode()).hexdigest()
    assert (pyspark.__version__, table) == COMPARED, f"Run pytest -m long {LONG}, then note these here."
