"""NULL as a dividend: Spark makes a DOUBLE of it before it looks for the type of a DECIMAL quotient."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.description.expression_types import term_over

pytestmark = pytest.mark.fast

DECIMAL = {"d": pa.decimal128(10, 2)}


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("NULL / d", pa.float64()),
        ("-(NULL / d) * 2", pa.float64()),
        ("d / NULL", pa.decimal128(23, 13)),
        ("NULL * d", pa.decimal128(21, 4)),
        ("NULL % d", pa.decimal128(10, 2)),
    ],
)
def test_a_quotient_of_null_has_the_type_that_spark_gives_it(text: str, of: pa.DataType) -> None:
    """The types are Spark 4.1.3's."""
    term = term_over(text, DECIMAL)
    assert term is not None
    assert term.type == of
