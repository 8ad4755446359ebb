"""The oracle's comparison of a table's changes: a row that is gone has had a partner, too."""

from __future__ import annotations

import pytest

from tests.lives.one import live
from tests.lives.story import Cut, Life, Made, Send, Sent


@pytest.mark.fast
def test_changes_of_a_join_are_verified_with_the_partners_of_rows_that_are_gone() -> None:
    """The comparison had read the right rows to which the left rows refer at the end, so it reported equal rows as other ones."""
    life = Life(
        nodes=(Made(kind="calm table", number=195),),
        begins=1,
        steps=(
            Send(
                records=(
                    Sent(topic="t", partition=0, key="b", at=3_645_000),
                    Sent(topic="u", partition=0, key="b", at=3_639_500, value=4),
                )
            ),
            Cut(),
            Send(records=(Sent(topic="t", partition=1, key="b", at=3_663_000, kind="tombstone"),)),
        ),
    )
    live(life)
