"""What the tests of descriptions share."""

from __future__ import annotations

import pytest

import headrace as hr


@pytest.fixture
def readings() -> hr.Topic:
    """The topic of the documents, with one column of each kind that matters to checks."""
    return hr.Topic(
        "readings",
        key="sensor_id STRING",
        value="sensor_id STRING, value DOUBLE, seen_at TIMESTAMP, address STRUCT<city: STRING>, "
        "labels MAP<STRING, STRING>, small DECIMAL(10,2)",
    )
