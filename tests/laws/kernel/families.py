"""All operators: nodes of each kind, and the worlds in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.laws.kernel.aggregate_subjects import DISTINCT, RANKED, VALUE, item_and_rank, subjects_with
from tests.laws.kernel.global_table_subjects import global_table_subjects
from tests.laws.kernel.logs import Choose, World, worlds
from tests.laws.kernel.ordered_subjects import ordered_subjects
from tests.laws.kernel.processor_subjects import processor_subjects
from tests.laws.kernel.relation_subjects import (
    change_subjects,
    complete_first_subjects,
    event_lookup_subjects,
    group_subjects,
    join_subjects,
    lookup_subjects,
    narrow,
    prior_subjects,
    references,
    referring,
    refined_subjects,
    stream_join_subjects,
    table_subjects,
)
from tests.laws.kernel.shape_subjects import distinct_subjects, merged_subjects
from tests.laws.kernel.side_subjects import side_subjects
from tests.laws.kernel.store_subjects import store_subjects
from tests.laws.kernel.subjects import (
    Subject,
    T,
    U,
    array,
    batch_subjects,
    decimal,
    double,
    flat_map_subjects,
    limit_subjects,
    limits_set,
    own_subjects,
    session_change_subjects,
    session_subjects,
    sliding_change_subjects,
    sliding_subjects,
    small,
    stream_subjects,
    topic,
    total_subjects,
    wall_subjects,
    whole,
    window_subjects,
)


@dataclass(frozen=True)
class Family:
    """Nodes of one kind, and the worlds in which they are tried.

    share  of all logs, beside the others' shares; a log of several steps takes longer
    """

    name: str
    subjects: Sequence[Subject]
    worlds: st.SearchStrategy[World]
    share: int = 4


def families() -> list[Family]:
    """All operators."""
    one_topic, two_topics = (
        worlds(whole, pa.int64()),
        worlds(whole, pa.int64(), ("t", "u"), log_commits=(2, 3)),
    )
    processed_worlds = worlds(
        whole, pa.int64(), ("t", "u"), log_commits=(2, 4), controls=("drain", "control")
    )
    drained = {"controls": ("drain", "drain", "control")}
    asked = st.one_of([referring("items", "more", "orders", values=each) for each in (references, narrow)])
    paid = st.one_of([referring("sold", "paid", "more", values=each) for each in (references, narrow)])
    return [
        Family("windows", window_subjects(T.stream, T.merge(U)), two_topics),
        of_numbers("windows of doubles", window_subjects, "DOUBLE", double, pa.float64()),
        Family("sliding windows", sliding_subjects(), one_topic),
        Family("sessions", session_subjects(), one_topic),
        Family("changes of sessions", session_change_subjects(), one_topic),
        Family("changes of sliding windows", sliding_change_subjects(), two_topics),
        Family("totals", total_subjects(T.stream, T.merge(U)), two_topics),
        of_numbers("totals of doubles", total_subjects, "DOUBLE", double, pa.float64()),
        of_numbers("totals of decimals", total_subjects, "DECIMAL(12,3)", decimal, pa.decimal128(12, 3)),
        Family("ranked values", subjects_with(RANKED), worlds(item_and_rank, VALUE), 2),
        Family("distinct values", subjects_with(DISTINCT), worlds(item_and_rank, VALUE), 2),
        Family("streams", stream_subjects(), two_topics, 1),
        Family("merged branches", merged_subjects(), two_topics, 1),
        Family("distinct records", distinct_subjects(), worlds(small, pa.int64(), ("t", "u"), log_commits=(2, 4))),
        Family("flat maps", flat_map_subjects(), worlds(array, pa.list_(pa.int64()), ("t", "u"), log_commits=(2, 3)), 1),
        Family("tables", table_subjects(), referring("one", "two")),
        Family("processors", processor_subjects(), processed_worlds),
        Family("stores that forget", store_subjects(), processed_worlds),
        Family("processors of outputs and of time", ordered_subjects(), processed_worlds),
        Family(
            "processors that read tables",
            global_table_subjects(),
            referring("positions", "tickers", "exchanges", controls=("drain", "control")),
        ),
        Family(
            "processors that wait for tables",
            global_table_subjects(complete_first=True),
            referring("tickers", "exchanges", "positions", controls=("complete", "complete", "drain")),
            2,
        ),
        Family("batches", batch_subjects(), worlds(whole, pa.int64(), ("t", "u"), log_commits=(2, 3), **drained)),  # type: ignore[arg-type]
        Family("time limits", limit_subjects(), worlds(whole, pa.int64(), controls=("set_limits",), limits=limits_set())),
        Family("aggregates of users", own_subjects(), worlds(whole, pa.int64(), controls=()), 2),
        Family(
            "the wall clock",
            wall_subjects(T.stream, T.merge(U)),
            worlds(whole, pa.int64(), ("t", "u"), log_commits=(2, 4), controls=("set_limits",), limits=limits_set()),
        ),
        Family("joins", join_subjects(), referring("positions", "tickers", "exchanges"), 2),
        Family("groups of tables", group_subjects(), referring("positions", "tickers", "exchanges"), 2),
        Family("steps after tables", refined_subjects(), referring("positions", "tickers", "exchanges"), 2),
        Family("changes of tables", change_subjects(), referring("positions", "tickers", "one", "two"), 2),
        Family("aggregates as sides", side_subjects(), referring("sales", "shops"), 2),
        Family("lookups in the log", lookup_subjects(), asked),
        Family("lookups in event time", event_lookup_subjects(), asked),
        Family(
            "lookups in complete tables",
            complete_first_subjects(),
            referring("items", "more", "orders", controls=("complete", "complete", "control")),
            2,
        ),
        Family("the latest earlier record", prior_subjects(), asked, 2),
        Family("joins of streams", stream_join_subjects(), paid),
    ]  # fmt: skip


def of_numbers(
    name: str, make: Callable[[Any, Any], list[Subject]], ddl: str, values: Choose, of: pa.DataType
) -> Family:
    """The same over numbers of another type, of one topic."""
    mine = topic("t", f"value {ddl}")
    return Family(name, make(mine.stream, mine.stream), worlds(values, of))


def shares(logs: int) -> list[int]:
    """How many of so many logs each family has."""
    total = sum(family.share for family in FAMILIES)
    return [-(-logs * family.share // total) for family in FAMILIES]


FAMILIES = families()
