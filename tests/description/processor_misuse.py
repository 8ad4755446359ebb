"""Wrong uses of processors, each on a line where a type checker has to object; see `test_processor_types.py`.

Nothing runs this file. The project's own check fails, too, if one of these lines has no error: an `ignore` that is not
needed is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

import headrace as hr

STREAM = hr.Topic("t", key="key STRING", value="value BIGINT").group_by("key")
STORE = hr.value_store("n", "n BIGINT")


class Wrong(hr.Processor):
    """Every line of it is wrong."""

    def init(self, context: hr.BatchContext) -> None:  # type: ignore[override]
        self.made = context

    def process(self, record: hr.Record, more: int) -> None:  # type: ignore[override]
        record["value"] = 5  # type: ignore[index]
        self.offset = record.offset_ms  # type: ignore[attr-defined]

    def close(self) -> int:  # type: ignore[override]
        return 1


class Right(hr.Processor):
    """Only what it calls is wrong."""

    def init(self, context: hr.Context) -> None:
        context.schedule("1 second", self.process)  # type: ignore[arg-type]
        context.schedule(1.5, self.tick)  # type: ignore[arg-type]
        context.schedule("1 second", self.tick, "wall")  # type: ignore[call-arg]
        context.store("n").fetch("k")  # type: ignore[attr-defined]
        context.window_store("n").get("k")  # type: ignore[call-arg]
        context.session_store("n").put("k", 1, start=1, end=2)  # type: ignore[arg-type]
        context.global_table("rates").put("k", 1)  # type: ignore[attr-defined]
        context.global_table("rates").delete("k")  # type: ignore[attr-defined]
        context.forward({"n": 1})  # type: ignore[call-arg]
        context.cancel(self.tick)  # type: ignore[arg-type]

    def process(self, record: hr.Record) -> None:
        """Nothing."""

    def tick(self, moment: object) -> None:
        """Nothing."""


class Tables(hr.BatchProcessor):
    """It takes records one by one."""

    def init(self, context: hr.BatchContext) -> None:
        context.store("n").get("k")  # type: ignore[attr-defined]

    def process_batch(self, records: pa.Table, record: hr.Record) -> None:  # type: ignore[override]
        """Nothing."""


class Unfinished(hr.Processor):
    """It has no process."""


def too_few(key: Mapping[str, Any], records: Iterator[hr.Record]) -> Iterator[Mapping[str, Any]]:
    yield {}


Unfinished()  # type: ignore[abstract]
STREAM.process(Right(), output="n INT")  # type: ignore[arg-type]
STREAM.process(int, output="n INT")  # type: ignore[arg-type]
STREAM.process(Right)  # type: ignore[call-arg]
STREAM.process(Right, output=["n INT"])  # type: ignore[arg-type]
STREAM.process(Right, output="n INT", stores=STORE)  # type: ignore[arg-type]
STREAM.process(Right, output="n INT", stream_wait=1.5)  # type: ignore[arg-type]
STREAM.process(Right, output="n INT", on_errors="stop")  # type: ignore[call-arg]
hr.processor(too_few, state="n INT")  # type: ignore[arg-type]
hr.processor(too_few)  # type: ignore[call-arg, arg-type]
STREAM.process(Right, output="n INT", stores=[STREAM])  # type: ignore[list-item]
hr.global_table("rates", STREAM)  # type: ignore[arg-type]
hr.global_table("rates")  # type: ignore[call-arg]
hr.window_store("w", "k INT", "n INT")  # type: ignore[call-arg]
hr.key_value_store("s", "k INT", "n INT", "1 hour")  # type: ignore[call-arg]
