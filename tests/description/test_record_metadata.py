"""What steps may read of a record beside its columns."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.description.record_metadata import CHAIN, PLAIN, TYPES, runnable
from tests.description.refusal import refused

pytestmark = pytest.mark.fast

READINGS = hr.Topic("readings", key="sensor STRING", value="value INT")


@pytest.mark.parametrize("function", [*PLAIN, CHAIN])
def test_each_function_is_a_column_of_the_log_of_a_known_type(function: str) -> None:
    (column,) = READINGS.select(f"{function}() AS found").named("n").result_columns
    assert column.type == TYPES[function]
    assert runnable(f"{function.upper()} ( ) AS found").sql == runnable(f"{function}() AS found").sql
    assert function not in runnable(f"{function}()").sql


def test_what_only_looks_like_a_call_stays() -> None:
    for sql in ("'record_offset()'", "`record_offset` + 1", "record_offset", "my_record_offset()"):
        assert runnable(sql).sql == sql
        assert not runnable(sql).functions


def test_a_header_is_read_by_its_name() -> None:
    found = runnable(r"record_header('it\'s') IS NULL AND record_offset() > 1")
    assert found.sql.endswith(".value IS NULL AND `__offset` > 1")
    assert r"'it\'s'" in found.sql
    assert found.reads_headers
    assert not runnable("record_offset() > 1").reads_headers


def test_the_source_chain_is_in_the_header_that_the_guard_reads() -> None:
    assert "each.key = 'source-chain'" in runnable("record_source_chain()").sql
    assert "each.key = 'came-by'" in runnable("record_source_chain()", "came-by").sql
    guards = None, hr.ReplayGuard(), hr.ReplayGuard("came-by"), hr.ReplayGuard(None, path="by")
    topics = [hr.Topic("t", value="n INT, by STRING", replay_guard=guard) for guard in guards]
    assert [topic.chain_header for topic in topics] == [
        "source-chain",
        "source-chain",
        "came-by",
        "__source-chain",
    ]
    plain, reading = (
        [topic.select(expression).named("n").fingerprint() for topic in topics]
        for expression in ("n", "record_source_chain() AS chain")
    )
    assert (len({*plain}), len({*reading})) == (1, 3), "a guard alters rows only where they hold its chain"


def test_other_arguments_are_refused() -> None:
    with refused("record_offset in 'record_offset(1)' has other arguments", "Write record_offset()."):
        READINGS.where("record_offset(1)")
    with refused("record_header in", "Write record_header('name')."):
        READINGS.where("record_header() IS NULL")
    with refused("record_header in"):
        READINGS.where("record_header(sensor) IS NULL")


def test_a_row_of_a_table_has_no_record() -> None:
    counts = READINGS.group_by("sensor").aggregate(n=hr.count())
    with refused("belongs to a record, and this is a row of a table", "Read it in a step of the stream"):
        READINGS.table().where("record_offset() > 1")
    with refused("where: record_offset() in"):
        counts.where("record_offset() > 1")
    with refused("with_column: record_ingested_at() in"):
        counts.with_column("at", "record_ingested_at()")
    with refused("join: select: record_offset() in"):
        counts.join(READINGS.table(), on="sensor", select=["n", "record_offset() AS o"])


def test_the_log_s_own_columns_have_no_other_name() -> None:
    with refused("column '__offset' does not exist"):
        READINGS.where("__offset > 1")
