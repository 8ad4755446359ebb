"""The engine as one archive, which the driver sends to executors on other machines.

Tasks import `headrace`. The Python of executors has to have the packages that it builds on; the engine itself comes with
each session, so that executors never run another build of it than the driver.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

PACKAGE = Path(__file__).resolve().parents[1]
NAME = "headrace-engine.zip"
_SHIPPED: set[str] = set()  # sessions, by the id of their application


def ship_engine(context: SparkContext, more: Sequence[str] = ()) -> None:
    """Let all executors of a session import this process's own build of the engine; once for each session.

    In: more  paths of modules and archives of the user's, which tasks import, too
    """
    if context.applicationId in _SHIPPED:
        return
    folder = tempfile.mkdtemp(prefix="headrace-")  # executors that start later get it from here, too
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for path in (str(engine_archive(Path(folder))), *more):
        context.addPyFile(path)
    _SHIPPED.add(context.applicationId)


def engine_archive(folder: Path) -> Path:
    """Make the archive in a folder: a zip file with the package, as `spark-submit --py-files` takes it."""
    archive = folder / NAME
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for path in sorted(PACKAGE.rglob("*.py")):
            made.write(path, path.relative_to(PACKAGE.parent))
    return archive
