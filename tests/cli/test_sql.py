"""`headrace sql` prints each value that a query gives, and refuses in its own words what is no query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import headrace as hr
from headrace.cli import app
from headrace.errors import TerminalError
from headrace.lake.format import require_format
from headrace.observe.sql import LakeSql
from tests.conftest import Drive

pytestmark = pytest.mark.fast
VIEWS = hr.Topic("views", key="user STRING", value="page STRING, seconds INT")
TOTALS = VIEWS.group_by("page").aggregate(n=hr.count()).named("totals")


def asked(lake: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    require_format(f"file:{lake}")
    monkeypatch.setattr("headrace.cli.console.deployment.load_pipeline", lambda _: [TOTALS])
    return CliRunner().invoke(app, ["sql", "--lake", f"file:{lake}", *arguments])


def test_columns_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, a table was a crash, CSV had more names than values, and JSON lost a value."""
    query = "SELECT 1 AS n, 2 AS n, 3 AS n_1, 4 AS n, 5 AS N"
    table, csv, of_json = (
        asked(tmp_path, monkeypatch, query, "--output", output).output.splitlines()
        for output in ("table", "csv", "json")
    )
    assert [line.split() for line in (table[0], table[2])] == [["n", "n_2", "n_1", "n_3", "N"], [*"12345"]]
    assert csv == ["n,n_2,n_1,n_3,N", "1,2,3,4,5"]
    assert json.loads(of_json[0]) == {"n": 1, "n_2": 2, "n_1": 3, "n_3": 4, "N": 5}


@pytest.mark.parametrize("query", ["", " ; ", "/* nothing */"])
def test_no_query_is_refused_in_our_words(
    query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, this was an error of Python, as of a defect."""
    refused = asked(tmp_path, monkeypatch, query)
    assert isinstance(refused.exception, TerminalError)
    assert "holds no query" in str(refused.exception)


def test_a_query_sees_no_variable_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, DuckDB looked for a table that it does not know among Python's variables, and told of them."""
    refused = asked(tmp_path, monkeypatch, "SELECT * FROM text")
    assert isinstance(refused.exception, TerminalError)
    assert "Table with name text does not exist" in str(refused.exception)
    assert "Python" not in str(refused.exception)


@pytest.mark.parametrize("explain", ["EXPLAIN", "explain analyze", "EXPLAIN (FORMAT json)"])
def test_a_plan_names_the_tables_of_its_query(explain: str, drive: Drive) -> None:
    """Before, tables behind EXPLAIN were not found."""
    driver = drive(TOTALS)
    driver.pipe("views", key="u", value={"page": "a", "seconds": 1})
    driver.cut()
    with LakeSql(driver.lake, [TOTALS]) as sql:
        told = sql.query(f"{explain} SELECT * FROM totals JOIN totals AS b USING (page)").to_pylist()
    assert told
