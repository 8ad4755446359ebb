"""`headrace dead-letters`: how the records of one reason are printed."""

from __future__ import annotations

import datetime as dt

import pytest

from headrace.observe.fates.dead_letters import DeadLetters, Example

pytestmark = pytest.mark.fast
AT = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)


def test_a_reason_is_printed_once_and_again_only_where_its_numbers_differ() -> None:
    first = Example("views", 0, 7, AT, "malformed value: page is not STRUCT", "'u1'", "'{}'")
    assert str(DeadLetters(first.reason, None, 426, AT, AT, [first])).splitlines() == [
        "426 × malformed value: page is not STRUCT",
        "  2026-11-28 12:00:00 to 2026-11-28 12:00:00 UTC",
        "  partition 0, offset 7",
        "    key 'u1', value '{}'",
    ]
    numbered = Example("views", 0, 7, AT, "schema 9: bytes are left over", None, None)
    shown = str(DeadLetters("schema #: bytes are left over", None, 1, AT, AT, [numbered]))
    assert "partition 0, offset 7: schema 9: bytes are left over" in shown
