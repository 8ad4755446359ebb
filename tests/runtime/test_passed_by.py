"""What a query does not do while it closes is not held for done; and what one does that has failed: nothing."""

from __future__ import annotations

import pytest

from headrace.errors import TransientError
from tests.runtime.test_supervised import Stream, fail_at_work

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


def test_between_a_failed_trigger_and_the_end_of_its_query_nothing_begins() -> None:
    stream, cause = Stream(), TransientError("The database does not answer.")
    stream.keep_running()
    fail_at_work(stream, cause)
    stream.spark.isActive = True  # Spark has not noticed yet

    begun = iter([1])
    stream.do(lambda: next(begun))
    assert next(begun) == 1, "nothing was done"
    assert stream.error is cause
