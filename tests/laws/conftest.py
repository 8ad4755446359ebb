"""What the laws share: commits are sequenced by the driver or by tasks; increments of every node are folded by the driver,
by one task, or over two buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.engine import spark_fold
from headrace.testing import driver

if TYPE_CHECKING:
    from headrace.engine.log_slices import LogSlice


@pytest.fixture(autouse=True, scope="module")
def increments_are_folded_here_and_there(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each fourth increment goes to one task of Spark, each fourth over two buckets; the size of its files decides.

    Tasks sequence each fourth commit of a log; the number of its records decides. It lasts for one module, so that no
    test elsewhere depends on which tests its worker has run before. A module without Spark folds all of them here.
    """
    if not request.node.get_closest_marker("spark"):
        yield
        return

    def draw(slices: Iterable[LogSlice]) -> int:
        return sum(each.bytes for each in slices) % 4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            spark_fold, "is_for_driver", lambda told, buckets, master: draw(told.slices.values()) > 1
        )
        patch.setattr(spark_fold, "buckets_for", lambda slices, tasks: 1 + draw(slices))
        patch.setattr(driver, "is_sequenced_here", lambda records: records % 4 > 0)
        yield
