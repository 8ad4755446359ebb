"""Where user code raised, for the error that stops a node."""

from __future__ import annotations

import sys
import traceback


def place_in_code(of: object, error: BaseException) -> str:
    """The last line of a processor's own file that an error passed, as ` (cards.py, line 47)`; empty: none is known.

    Dead letters do not have it: a comment further up would change their reasons.
    """
    file = getattr(sys.modules.get(type(of).__module__), "__file__", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({file.rpartition('/')[2]}, line {lines[-1]})" if file and lines else ""
