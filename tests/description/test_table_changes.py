"""The changes of tables are streams; what needs a stream of a table reads them."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.description import Table, TableChanges, with_unnamed, written_by
from headrace.description.table_changes import KEY_DELETED
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

POSITIONS = hr.Topic("positions", key="id STRING", value="ticker STRING, amount INT")
TICKERS = hr.Topic("tickers", key="symbol STRING", value="exchange STRING")
ORDERS = hr.Topic("orders", key="number STRING", value="id STRING")
JOINED = POSITIONS.table().join(TICKERS.table(), on="ticker")


def test_the_changes_of_a_table_have_its_columns_and_its_key() -> None:
    told = JOINED.changes().named("told")
    assert (told.columns, told.key) == ((*JOINED.columns, KEY_DELETED), ("id",))
    assert (told.topics, told.day_column) == (JOINED.topics, "__ingested_at")
    assert told.in_words == "One row per id and log commit that changes it: its row after the commit."
    assert told.where("amount > 1").columns == JOINED.columns
    assert told.table().columns == JOINED.columns
    assert told.fingerprint() != JOINED.fingerprint()


def test_what_is_no_table_has_no_changes() -> None:
    with refused("changes: Topic(", "is no table", "topic.table().changes()"):
        TableChanges(POSITIONS)  # type: ignore[arg-type]
    sliding = POSITIONS.group_by().window(hr.sliding("1 minute"), grace=0).aggregate(n=hr.count())
    assert sliding.changes().columns == (*sliding.columns, KEY_DELETED)
    marked = hr.Topic("marked", key="id STRING", value="key_deleted BOOLEAN").table()
    for make in (marked.changes, lambda: marked.suppress(hr.until_time_limit("1 minute"))):
        with refused("the table has a column 'key_deleted'", ".select("):
            make()
    with refused("changes: sliding window of 1 minute: windows that records make", "hr.tumbling"):
        sliding.suppress(hr.until_window_closes()).changes()


def test_records_are_looked_up_in_the_changes_of_a_table() -> None:
    found = ORDERS.lookup(JOINED, on="id").named("found")
    assert found.columns == ("number", "id", "ticker", "amount", "exchange")
    step, node = with_unnamed([found])
    assert (step.fingerprint(), node) == (JOINED.changes().fingerprint(), found)
    assert found.revised_at_commit_end == (found.right.topics[0].name,)
    assert ORDERS.lookup(POSITIONS.table(), on="id").revised_at_commit_end == ()
    with refused("on names id, number", "the key of the table is id"):
        ORDERS.lookup(JOINED, on=("id", "number"))


def test_a_transform_after_a_table_leads_to_a_table_of_the_same_key() -> None:
    def graded(frame):  # type: ignore[no-untyped-def]
        return frame

    made = JOINED.named("graded", owners=("team:us",)).transform(graded, "id STRING, grade INT")
    assert isinstance(made, Table)
    assert (made.name, made.owners, made.columns, made.key) == (
        "graded", ("team:us",), ("id", "grade"), ("id",)
    )  # fmt: skip
    step = written_by(made.topics[0])
    assert isinstance(step, TableChanges)
    assert made.where("grade > 1").join(TICKERS.table(), on="id", how="left").columns == (
        "id", "grade", "exchange"
    )  # fmt: skip
    assert made.fingerprint() != JOINED.transform(graded, "id STRING, grade BIGINT").fingerprint()
    with refused("transform: 'id' is a column of the table's key", "columns='id …"):
        JOINED.transform(graded, "grade INT")


def test_a_picture_draws_the_steps_without_a_name_within_what_reads_them() -> None:
    calm = JOINED.suppress(hr.until_time_limit("1 minute")).named("calm")
    assert str(hr.describe(calm)).splitlines()[:4] == [
        "calm",
        "└─ suppress, 1 minute of stream time after its first change",
        "   └─ latest row by id, by position",
        "      └─ changes",
    ]
