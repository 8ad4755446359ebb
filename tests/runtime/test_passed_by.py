"""What a query does not do while it closes is not held for done."""

from __future__ import annotations

import pytest

from tests.runtime.test_supervised import Stream

pytestmark = pytest.mark.fast


def test_a_trigger_that_is_let_go_by_is_remembered_until_the_query_begins_anew() -> None:
    stream = Stream()
    stream.keep_running()
    stream.spark.trigger().join(5)
    assert not stream.passed_by  # it was handled

    stream.halt()
    stream.spark.trigger().join(5)
    assert stream.passed_by  # Spark holds it for done, and nothing was

    stream.trigger_ms = 1_000
    stream.set_trigger(300)
    stream.keep_running()
    assert not stream.passed_by
