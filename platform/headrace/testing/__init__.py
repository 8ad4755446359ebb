"""The test kit: run a pipeline on real Delta tables in a temporary folder, with no broker and no UI."""

from headrace.testing.driver import TestDriver

__all__ = ["TestDriver"]
