"""What the laws share: some increments of every node are folded over two buckets, most over one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.engine import spark_fold

if TYPE_CHECKING:
    from headrace.engine.log_slices import LogSlice


@pytest.fixture(autouse=True, scope="session")
def some_increments_over_two_buckets() -> Iterator[None]:
    """Spread each fourth increment, told by the size of its files."""

    def buckets_for(slices: Iterable[LogSlice], tasks: int) -> int:
        return 1 if sum(each.bytes for each in slices) % 4 else 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_fold, "buckets_for", buckets_for)
        yield
