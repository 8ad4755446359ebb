"""Everything that one machine needs: the jars, a Kafka broker, realistic traffic; and `hr.local()`.

The package can be called, for `import headrace as hr; hr.local()` is the shortest way to a running broker.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.local.workbench import Workbench


def local(folder: str | Path | None = None) -> Workbench:
    """Start a Kafka broker, an empty lake and a Spark session on this machine, to try pipelines by hand.

    In:     folder  where the lake and the broker's data lie, and stay; None: a folder that goes with the process
    Out:    send records to topics with `send`, run nodes with `run`, and `read` their tables
    Raises: JarsMissing when the jars of Spark and Kafka are not there: run `make setup`, or `headrace fetch-jars`
    """
    from headrace.local.workbench import Workbench  # Spark and Kafka are not imported before they are wanted

    return Workbench(folder)


class _Callable(ModuleType):
    """A package that is also the function of its name."""

    def __call__(self, folder: str | Path | None = None) -> Workbench:
        return local(folder)


sys.modules[__name__].__class__ = _Callable
