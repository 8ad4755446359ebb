"""An extension of griffe for mkdocstrings: our docstrings as Markdown."""

from __future__ import annotations

from typing import Any

import griffe

from docs.tools.readable import readable


class OurDocstrings(griffe.Extension):  # type: ignore[misc]
    """Rewrites each docstring before it is rendered."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for every object that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
