"""The test kit: run a pipeline on real Delta tables in a temporary folder, and try a sink, with no broker and no UI."""

from headrace.testing.driver import TestDriver
from headrace.testing.sinks import SinkKit

__all__ = ["SinkKit", "TestDriver"]
