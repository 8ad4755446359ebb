"""Python workers, which Spark uses task after task: what none of these has to pay for again."""

from __future__ import annotations

import gc
import sys
from zipimport import zipimporter


def settle() -> None:
    """Make the next tasks of this worker cheaper; to be called in a task.

    Before each task PySpark has Python look anew for modules. It then reads the directories of archives again, in Python,
    once for each package that came out of them: 0.1 s for PySpark itself. An archive that is forgotten is not read, and is
    found again by whoever imports from it.

    After each task PySpark collects garbage among all that is there, 0.03 s for what was imported. This it leaves out from
    now on.
    """
    archives = [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]
    for path in archives:
        del sys.path_importer_cache[path]
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
