"""Distinct records: what an id may be, and what is refused."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

PAYMENTS = hr.Topic(
    "payments", key="customer STRING", value="id STRING, amount INT, tags MAP<STRING, STRING>, at TIMESTAMP"
)


def test_the_columns_and_the_record_key_stay() -> None:
    node = PAYMENTS.distinct("ID", within="1 day")
    assert node.columns == ("customer", "id", "amount", "tags", "at")
    assert (node.by, node.key, node.grace_ms) == (("id",), ("customer",), 86_400_000)
    assert PAYMENTS.distinct(within="1 day").by == ("customer",)
    assert node.where("amount > 0").select("id").columns == ("id",)


def test_its_times_are_among_what_alters_rows() -> None:
    node = PAYMENTS.distinct("id", within="1 day")
    assert node.fingerprint() == PAYMENTS.distinct("id", within="24 hours", grace="1 day").fingerprint()
    others = [
        PAYMENTS.distinct("id", within="2 days"),
        PAYMENTS.distinct("id", within="1 day", grace="1 hour"),
        PAYMENTS.distinct("id", "customer", within="1 day"),
        PAYMENTS.where("amount > 0").distinct("id", within="1 day"),
    ]
    assert len({each.fingerprint() for each in (node, *others)}) == 5


def test_what_is_no_id_or_no_time_is_refused() -> None:
    with refused("distinct: 'within' is not given.", ".distinct('id', within='1 day')"):
        PAYMENTS.distinct("id")  # type: ignore[call-arg]
    with refused("distinct: column 'idd' does not exist", "id"):
        PAYMENTS.distinct("idd", within="1 day")
    with refused("distinct: column 'tags' is MAP<STRING, STRING>"):
        PAYMENTS.distinct("tags", within="1 day")
    with refused("distinct: within 0 (int) is no time"):
        PAYMENTS.distinct("id", within="0 s")
    with refused("distinct: grace 0 (int) is no time"):
        PAYMENTS.distinct("id", within="1 day", grace=0)
    with refused("distinct: topic 'keyless' has no key", ".distinct('…', within='1 day')"):
        hr.Topic("keyless", value="id STRING").distinct(within="1 day")
    with refused("distinct: a transform leaves the columns unknown"):
        PAYMENTS.transform(lambda rows: rows).distinct("id", within="1 day")


def test_the_words_of_other_libraries_and_of_tables_lead_on() -> None:
    with refused(".distinct("):
        PAYMENTS.drop_duplicates("id")  # type: ignore[attr-defined]
    with refused("It holds one row for each value of its key already"):
        PAYMENTS.table().distinct("id")  # type: ignore[attr-defined]
    with refused("before .group_by"):
        PAYMENTS.group_by("id").distinct("id")  # type: ignore[attr-defined]


def test_its_topology_says_the_id_and_the_time() -> None:
    node = PAYMENTS.distinct("id", within="1 day", grace="1 hour").named("once")
    assert str(hr.describe(node)).splitlines()[:2] == [
        "once",
        "└─ One row per record of payments whose id is new within 1 day; late after 1 hour",
    ]
