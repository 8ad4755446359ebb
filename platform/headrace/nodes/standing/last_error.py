"""The file that says why a query failed which has not committed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.lake import small_files

if TYPE_CHECKING:
    from headrace.lake.paths import Lake


@dataclass(frozen=True)
class LastError:
    """An error after which a query has not committed yet.

    at_ms    when it was first seen, by the run's clock
    batches  the commits of the query before it
    """

    error: str
    at_ms: int
    batches: int

    def is_over(self, batches: int) -> bool:
        """Whether the query has committed since. In: batches  its commits by now; a rebuilt one counts from 1 again."""
        return batches not in (0, self.batches)


def last_error(lake: Lake, asset: str, batches: int) -> LastError | None:
    """The last error of `log/<topic>` or `stream/<node>_stream`; None: it has committed since, or never failed.

    A run removes the file some seconds after the first commit. So the number of commits decides.
    In: batches  the commits of the query by now
    """
    content = small_files.read_json(lake.last_error(asset))
    error = None if content is None else LastError(**content)
    return None if error is None or error.is_over(batches) else error
