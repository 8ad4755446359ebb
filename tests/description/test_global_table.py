"""Which global tables a processor may read, and for which its records wait."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.operators.registry import operator_for
from tests.description.refusal import refused
from tests.description.test_processed import COUNT, LINES, counted

pytestmark = pytest.mark.fast


def test_a_global_table_has_a_name_and_a_key_with_an_order() -> None:
    words = hr.Topic("words", key="word STRING", value="weight DOUBLE, language STRING")
    with refused("'My words' is not a name"):
        hr.global_table("My words", words.table())
    with refused("global table 'words': ", "is no table", "topic.table()"):
        hr.global_table("words", words)  # type: ignore[arg-type]
    with refused("a table with forget_deletes_after takes no late records"):
        hr.global_table("words", words.table("timestamp", forget_deletes_after="1 day"))
    with refused("key column 'weight' is DOUBLE, which has no plain order"):
        hr.global_table("words", words.group_by("weight").aggregate(n=hr.count()))


def test_records_wait_for_a_global_table_of_topics_unless_the_stream_reads_them_or_it_says_so() -> None:
    words = hr.Topic("words", key="word STRING", value="weight BIGINT")
    first = counted(stores=[COUNT, hr.global_table("words", words.table())])
    at_once = counted(stores=[COUNT, hr.global_table("words", words.table(), complete_first=False)])
    assert (first.waits_for, at_once.waits_for) == (("words",), ())
    assert operator_for(first).waits.complete == ("words",)
    assert first.fingerprint() != at_once.fingerprint()
    assert "complete_first" not in at_once.rules()
    assert "words complete first" in str(hr.describe(first.named("counts")))
    assert "complete first" not in str(hr.describe(at_once.named("counts")))
    asked = counted(stores=[COUNT, hr.global_table("words", words.table(), complete_first=True)])
    assert asked.fingerprint() == first.fingerprint()

    totals = words.group_by("weight").aggregate(n=hr.count())
    for table in (totals, LINES.table()):
        assert counted(stores=[COUNT, hr.global_table("others", table)]).waits_for == ()
    with refused("global table 'words': complete_first waits for topics, and the table is made of"):
        hr.global_table("words", totals, complete_first=True)
    with refused("global table 'words': complete_first 'yes' is not True or False"):
        hr.global_table("words", words.table(), complete_first="yes")  # type: ignore[arg-type]
