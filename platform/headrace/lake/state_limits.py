"""How much of the state a process may keep near: in memory, and as copies on its disk. Tasks read them, too.

The settings class `headrace.settings.state.StateSettings` checks the same variables; Spark hands them to executors.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass

PREFIX = "HEADRACE_STATE_"
REMEMBERED_BYTES, COPIES_BYTES, COPIES_FOLDER = (
    f"{PREFIX}REMEMBERED_BYTES",
    f"{PREFIX}COPIES_BYTES",
    f"{PREFIX}COPIES_FOLDER",
)
VARIABLES = (REMEMBERED_BYTES, COPIES_BYTES, COPIES_FOLDER)
# In each process. A million rows, or the state that four pipelines of 5,000 records a second touch: a task that reads
# as much without it needs about as much memory for a moment.
REMEMBERED_BYTES_DEFAULT = 128 << 20
COPIES_BYTES_DEFAULT = 4 << 30  # on each machine: ten million rows of totals take one


@dataclass(frozen=True)
class StateLimits:
    """The limits of one process.

    remembered_bytes  of decoded rows in memory
    copies_bytes      of all copies in the folder; 0: no copies
    copies_folder     all processes of one user on a machine share it
    """

    remembered_bytes: int
    copies_bytes: int
    copies_folder: str


def state_limits() -> StateLimits:
    """The limits that the environment sets."""
    folder = os.environ.get(COPIES_FOLDER) or os.path.join(
        tempfile.gettempdir(), f"headrace-state-{os.getuid()}"
    )
    return StateLimits(
        _number(REMEMBERED_BYTES, REMEMBERED_BYTES_DEFAULT),
        _number(COPIES_BYTES, COPIES_BYTES_DEFAULT),
        folder,
    )


def _number(name: str, default: int) -> int:
    """The settings class refuses what is no number, where a person sees it; a task takes the default."""
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else default


def executor_environment() -> dict[str, str]:
    """Spark settings that hand the variables to executors on other machines."""
    return {f"spark.executorEnv.{name}": os.environ[name] for name in VARIABLES if os.environ.get(name)}
