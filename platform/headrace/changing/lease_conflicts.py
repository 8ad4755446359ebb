"""The error of `headrace apply` where another process holds a lease that it needs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.errors import TerminalError
from headrace.writing.leases.lease import LeaseTakenError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def unless_others_write(what: str) -> Iterator[None]:
    """Take leases inside. In: what  cannot be done without them: "Topic 'readings': its log cannot be written again".

    Raises: TerminalError in place of LeaseTakenError: it names the process, and says what to do
    """
    try:
        yield
    except LeaseTakenError as error:
        raise TerminalError(
            f"{what} while another process writes there.",
            detail=str(error),
            hint="Stop that process and run headrace apply again: what is built stays.",
        ) from error
