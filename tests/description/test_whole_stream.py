"""A whole stream as one group, and aggregates of several columns."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

VIEWS = hr.Topic("views", key="user STRING", value="page STRING, seconds INT, at TIMESTAMP")


def test_a_whole_stream_is_one_group() -> None:
    totals = VIEWS.aggregate(n=hr.count(), longest=hr.max("seconds"))
    assert (totals.key, totals.columns) == (("stream",), ("stream", "n", "longest"))
    windows = (
        VIEWS.where("seconds > 1").window(hr.tumbling("1 hour"), grace="1 minute").aggregate(n=hr.count())
    )
    assert windows.columns == ("stream", "window_start", "window_end", "n")
    assert windows.suppress(hr.until_window_closes()).where("n < 4").columns == windows.columns
    batches = VIEWS.batch(collect=["page"], max_records=3, every="10 s")
    assert batches.by == ("stream",)
    assert (
        batches.in_words
        == "One row per stream and batch; a batch closes at 3 records or each full 10 seconds."
    )
    assert totals.suppress(hr.until_time_limit("1 minute")).key == ("stream",)


def test_sessions_of_a_whole_stream_read_a_log_of_one_partition() -> None:
    sessions = VIEWS.window(hr.session("5 minutes"), grace="0 s").aggregate(n=hr.count())
    assert sessions.topics[0].has_one_partition


def test_a_stream_with_a_column_of_that_name_is_refused() -> None:
    with refused("has the column 'stream', and so has this stream", "AS its_stream"):
        VIEWS.select("user", "page AS Stream").aggregate(n=hr.count())
    with refused("a whole stream as one group: a transform leaves the columns unknown"):
        VIEWS.transform(lambda rows: rows).aggregate(n=hr.count())


def test_several_columns_are_one_value() -> None:
    node = VIEWS.group_by().aggregate(
        newest=hr.last(["page", "seconds"]),
        oldest=hr.first(("page", "at")),
        some=hr.collect(["page", "at"], 3),
    )
    types = {column.name: column.type for column in node.result_columns}
    assert types == {
        "user": "STRING",
        "newest": "STRUCT<page: STRING, seconds: INT>",
        "oldest": "STRUCT<page: STRING, at: TIMESTAMP>",
        "some": "ARRAY<STRUCT<page: STRING, at: TIMESTAMP>>",
    }
    ranked = VIEWS.group_by().aggregate(
        most=hr.max_by("page", by=["seconds", "at"]),
        three=hr.top(3, "page", by=("seconds DESC", "at"), ties=True),
    )
    assert [column.type for column in ranked.result_columns] == ["STRING", "STRING", "ARRAY<STRING>"]
    pairs = VIEWS.group_by().aggregate(
        most=hr.max_by(["page", "at"], by="seconds"),
        three=hr.top(3, ["page", "at"], by=("seconds DESC", "at")),
    )
    pair = "STRUCT<page: STRING, at: TIMESTAMP>"
    assert [column.type for column in pairs.result_columns] == ["STRING", pair, f"ARRAY<{pair}>"]
    assert ranked.result_columns[-1].meaning == (
        "`page` of the first 3 records by seconds DESC, at, and of those that rank as high as the last."
    )
    with refused("column 'secnds' does not exist"):
        VIEWS.group_by().aggregate(three=hr.top(3, "page", by=("secnds DESC", "at")))
    with refused("ties", "of a table"):
        VIEWS.table().group_by("page").aggregate(three=hr.top(3, "user", by="seconds", ties=True))
    with refused("aggregate: [] (list) are no columns", "hr.collect(['page', 'at'], 10)"):
        hr.collect([], 3)
    with refused("'pgae'"):
        VIEWS.group_by().aggregate(newest=hr.last(["pgae", "seconds"]))
