"""Call a vectorised processor: for all records of an increment at once, and for fewer where it raises."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.description import BatchProcessor, ProcessorError
from headrace.description.batch_processor import GROUP, PLACE, RECORD
from headrace.description.outputs import OUTPUT
from headrace.description.processor import freeze
from headrace.description.processor_function import RunDependentError
from headrace.description.wording import a_value, listed
from headrace.operators.processors.fold.load_groups import POSITION
from headrace.operators.processors.fold.shape import Shape
from headrace.operators.processors.fold.stores.batch_stores import BatchRunContext


class BatchRunner:
    """One object of a vectorised processor, and the rows that it gives."""

    def __init__(self, shape: Shape) -> None:
        """Make the object, and call its `init`."""
        self._shape, self.context = shape, BatchRunContext(shape)
        self._output = pa.schema([field.with_nullable(True) for field in shape.output])
        self.forwarded: list[pa.Table] = []  # the columns of the output, and RECORD
        self.refused: dict[int, str] = {}  # the records that were set apart by number, and why
        try:
            made = shape.make()
            assert isinstance(made, BatchProcessor)
            made.init(self.context)
        except Exception as error:
            raise ProcessorError(
                f"Node '{shape.node}': its processor cannot be made: {type(error).__name__}: {error}",
                hint="Its class takes no arguments but those that functools.partial gives it, and init reads no store.",
            ) from error
        freeze(made)
        self._processor = made

    def run(self, records: pa.Table, numbers: np.ndarray) -> None:
        """All records of some groups.

        In:     records  group after group, each in its order; numbers: the group of each, rising from 0
        Raises: ProcessorError when it raises for a record
        """
        self._records, self._numbers = records, numbers
        if len(numbers):
            self._take(0, len(numbers))

    def rows(self) -> pa.Table:
        """All rows that were given, and RECORD."""
        empty = self._output.append(pa.field(RECORD, pa.int64())).empty_table()
        return pa.concat_tables([empty, *self.forwarded])

    def _take(self, first: int, end: int) -> None:
        """Some records; where it raises for several the halves, one after the other, until the record is found."""
        before = {name: len(store.changed) for name, store in self.context.stores.items()}
        for attempt in range(self._shape.attempts if end - first == 1 else 1):
            try:
                self.forwarded.append(self._called(first, end))
                return
            except RunDependentError:
                raise
            except Exception as error:
                for name, store in self.context.stores.items():
                    del store.changed[before[name] :]
                if end - first == 1 and attempt + 1 == self._shape.attempts:
                    self._refuse(first, error)
        if end - first > 1:
            middle = (first + end) // 2
            self._take(first, middle)
            self._take(middle, end)

    def _called(self, first: int, end: int) -> pa.Table:
        numbers = self._numbers[first:end]
        for store in self.context.stores.values():
            store.enter(int(numbers[0]), int(numbers[-1]) + 1)
        columns = self._records.slice(first, end - first)
        batch = columns.select([*self._shape.columns, *PLACE])
        batch = batch.add_column(len(self._shape.columns), GROUP, pa.array(numbers - numbers[0]))
        made = self._processor.process_batch(batch)
        return self._checked(made, first, end)

    def _checked(self, made: object, first: int, end: int) -> pa.Table:
        """The table of user code, as columns of the output and RECORD, which numbers the records of the increment."""
        if made is None:
            made = self._output.append(pa.field(RECORD, pa.int64())).empty_table()
        names = {*made.column_names} if isinstance(made, pa.Table) else None
        wanted = {*self._output.names}
        if names not in (wanted, wanted | {RECORD}):
            found = a_value(made) if names is None else f"a table of {listed(sorted(names))}"
            raise ProcessorError(
                f"process_batch gives {found}, and the output has {listed(self._output.names)}.",
                hint=f"Give a table of these columns, and {RECORD} where rows are not those of the records.",
            )
        assert isinstance(made, pa.Table)
        rows = made.select(self._output.names).cast(self._output)
        if self._shape.outputs:
            known = pc.is_in(rows[OUTPUT], value_set=pa.array([*self._shape.outputs]))
            if not pc.all(known, min_count=0).as_py():
                there = listed([*self._shape.outputs])
                raise ProcessorError(f"process_batch: '{OUTPUT}' names no output; there are {there}.")
        if RECORD in made.column_names:
            which = made[RECORD].cast(pa.int64())
            valid = pc.and_(pc.greater_equal(which, 0), pc.less(which, end - first))
            if which.null_count or not pc.all(valid, min_count=0).as_py():
                raise ProcessorError(
                    f"process_batch: {RECORD} is not below {end - first}, the number of records."
                )
        elif rows.num_rows != end - first:
            raise RunDependentError(
                f"Node '{self._shape.node}': {self._shape.called}.process_batch gives {rows.num_rows} rows for "
                f"{end - first} records, without {RECORD}.",
                hint=f"Let {RECORD} say for which record each row is given.",
            )
        else:
            which = pa.chunked_array([pa.array(np.arange(end - first))])
        return rows.append_column(RECORD, pc.add(which, first))

    def _refuse(self, number: int, error: Exception) -> None:
        """Set a record apart, or stop."""
        said = f"{type(error).__name__}: {error}"
        if self._shape.sets_apart:
            self.refused[number] = f"{self._shape.called}.process_batch raises {said}"
            return
        record = self._records.slice(number, 1).to_pylist()[0]
        topic, partition, offset = (record[name] for name in POSITION)
        key = {field.name: record[own] for field, own in zip(self._shape.group, self._shape.by, strict=True)}
        raise ProcessorError(
            f"Node '{self._shape.node}': {self._shape.called}.process_batch raises for {topic}, partition {partition}, "
            f"offset {offset}, key {key!r}: {said}",
            hint="Mend the processor and run `headrace apply`; or filter such records before it.",
        ) from error
