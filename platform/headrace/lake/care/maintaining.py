"""The maintainer of a table in this process: folds, packing and upkeep share one writer, and none of them ends another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from headrace.errors import TransientError
from headrace.lake.commits.fence import MAINTAINER, ConflictError, FencedError
from headrace.lake.commits.writer import TableWriter

if TYPE_CHECKING:
    from headrace.lake.table import LakeTable

T = TypeVar("T")


class MaintainedElsewhereError(TransientError):
    """A maintainer of another process took the table over twice. Nothing was committed."""


def as_maintainer(table: LakeTable, work: Callable[[TableWriter], T], *, carries: Sequence[str] = ()) -> T:
    """Let this process' maintainer of a table do something.

    Leases say who may maintain a table, so a maintainer that was overtaken (by maintenance of another process, which has
    ended) takes the next epoch and tries once more.

    In:     work     gets the writer; called again after it was overtaken
            carries  the writers whose newest records a new epoch repeats
    Raises: ConflictError from the work; MaintainedElsewhereError
    """
    for _ in range(2):
        writer = table.maintainer
        try:
            if writer is None:
                table.maintainer = writer = TableWriter(table, MAINTAINER, carries=carries)
            return work(writer)
        except ConflictError:
            raise
        except FencedError:
            table.maintainer = None
        except Exception:
            table.maintainer = None  # whether its commit went through may be unknown: a new one finds out
            raise
    raise MaintainedElsewhereError(
        f"{table.uri}: maintainers of another process took the table over while this one worked.",
        hint="It is tried again; stop one of the two if it goes on.",
    )
