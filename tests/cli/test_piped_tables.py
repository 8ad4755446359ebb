"""Tables are whole where a program reads them: no name and no count is cut off."""

from __future__ import annotations

import pytest

from headrace.cli.console.telling import show
from headrace.cli.status import table_of
from headrace.observe.standing import Standing

pytestmark = pytest.mark.fast


def test_a_program_that_reads_the_status_gets_whole_names_and_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asset = "stream/declined_payments_of_each_shop_per_minute_stream"
    show(table_of([Standing(asset, True, 1_234, 0, 0, 12_345, records={"delivered": 1_234_567})]))
    _, row = capsys.readouterr().out.splitlines()
    assert {asset, "1,234", "1,234,567"} <= {*row.split()}
