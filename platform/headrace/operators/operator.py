"""What every kind of node gives the runtime: verbs on frames. The runtime knows nothing of windows, totals or joins.

A node's results are of one of two kinds:
- *appended*: written once and never revised (closed windows, batches), each row on a UTC day;
- *current*: one row per identity, revised. Its result table is a base that is folded off the hot path, and the rows of
  the state table that are not folded into it yet are the changes since (merge on read). What must be remembered beside
  the results lies in *parts*: further bases, folded from the same changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.description import Node, quote
from headrace.errors import DescriptionError
from headrace.operators.progress import Progress, Tally
from headrace.spark.varying import varying

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.errors import TerminalError
    from headrace.operators.columnar import Columnar

N = TypeVar("N", bound=Node)
CUT_ONE_BY_ONE = "it reads several topics in one order, and logs are cut one by one"


@dataclass(frozen=True)
class Schemas:
    """The columns of `decide`, of a node's result table, of its state table, and of its parts by name."""

    inputs: T.StructType
    results: T.StructType
    state: T.StructType
    parts: Mapping[str, T.StructType] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """What a node's tables hold as of a micro-batch.

    results  rows of the result table; None: none yet, or (appended results, while folding) not needed
    rows     of the state table, or what reads them (see `state_within`); None: none yet
    earlier  gives, for each topic, rows of the log that were folded before: those whose `ingested_at`, in ms, lies in one of
             some intervals, both ends included; None: none were
    parts    rows of each part by name; a part may have folded more of the state than the results, never less
    """

    results: DataFrame | None = None
    rows: DataFrame | Callable[..., DataFrame] | None = None
    earlier: Callable[[Sequence[tuple[int, int]]], Mapping[str, DataFrame]] | None = None
    parts: Mapping[str, DataFrame] = field(default_factory=dict)

    @property
    def state(self) -> DataFrame | None:
        """Rows of the state table; of current results those that are not folded into `results` yet; None: none yet."""
        return self.rows() if callable(self.rows) else self.rows

    def state_within(self, column: str, first: int, last: int | None = None) -> DataFrame | None:
        """Rows of the state, among them all where a column is from `first` through `last` (None: however large).

        Files that have none of these may be left out.
        """
        return self.rows(column, first, last) if callable(self.rows) else self.rows


@dataclass(frozen=True)
class Folded:
    """What one increment leads to.

    results   appended results: the rows to append; None when there are none
    state     what to add to the state table
    progress  the node's progress afterwards
    emitted   gives the rows for sinks: the result columns, `__deleted` BOOLEAN, `__timestamp` TIMESTAMP, and `__sequence`
              BIGINT and `__ordinal` INT, which increase in the log's order; None when there are none
    release   frees what was cached; call it when everything has been written
    refused   why a stream has to stop before it writes any of this; one that only computes may go on
    """

    results: DataFrame | None
    state: DataFrame
    progress: Progress
    emitted: Callable[[], DataFrame] | None
    release: Callable[[], object]
    refused: TerminalError | None = None


class Operator(ABC, Generic[N]):
    """One kind of node. Every method is a pure function of its arguments and of the description."""

    appended: ClassVar[bool]
    clock: ClassVar[str] = "timestamp"  # the log's column by which a record belongs to a day of the results
    rows_max: ClassVar[int | None] = (
        None  # of the log in one increment, unless one commit has more; None: any number
    )
    final_at: ClassVar[str] = ""  # of appended results: the column that says when a row was final

    def __init__(self, node: N) -> None:
        """The operator of one node."""
        self.node = node

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell one row of the result table from all others."""
        return self.node.identity

    @property
    def ordered(self) -> bool:
        """Whether what is emitted depends on the order across topics: all are then read up to one commit time."""
        return False

    @property
    def uncuttable(self) -> str:
        """Why rows of its logs cannot be cut off; empty: they can."""
        return ""

    @property
    def throttle_ms(self) -> int:
        """The shortest time, of commit time, between two micro-batches; 0: none."""
        return 0

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """Of current results: what is remembered beside them, by name, each with the columns of its identity."""
        return {}

    @abstractmethod
    def decide(self, logs: Mapping[str, DataFrame]) -> DataFrame:
        """The rows of the logs after the row-wise steps (see `rows_of`), with `__fate` and `__reason` completed.

        Law: row by row; no row is dropped.
        """

    @abstractmethod
    def schemas(self, logs: Mapping[str, DataFrame]) -> Schemas:
        """The columns of the node's tables, read off logs that may be empty; all nullable."""

    @abstractmethod
    def fold(
        self, logs: Mapping[str, DataFrame], upto_ms: Mapping[str, int], held: Held, progress: Progress
    ) -> Folded:
        """Fold rows of the logs into what is held.

        In:     logs  for each topic, whole log commits after `progress.upto_ms` and through `upto_ms`
        Law:    folding a log in pieces leads to the same results as folding it whole.
        """

    def columnar(self, schemas: Schemas) -> Columnar | None:
        """How Arrow folds increments; None: `fold` alone can."""
        return None

    @abstractmethod
    def read(self, held: Held, progress: Progress, inputs: T.StructType) -> DataFrame:
        """The results as people see them; columns beginning with `__` are internal.

        In: held    with its results; inputs: the schema of `decide`
        """

    @abstractmethod
    def updates(self, held: Held, progress: Progress, inputs: T.StructType) -> DataFrame:
        """Raw updates, conflated per micro-batch: the columns of `read` and `__batch` (null: the last word).

        Law: each identity's row with the highest `__batch`, nulls last, is what `read` (and open windows) hold.
        """

    @abstractmethod
    def open_records(self, state: DataFrame, progress: Progress) -> DataFrame | None:
        """Rows of the state that stand for records still open: `__topic`, `__partition`, `__records`; None: none can be."""

    def late(self, decided: DataFrame) -> DataFrame:
        """Late records, one row for each record and closed window.

        Raises: DescriptionError when nothing can be late.
        """
        raise DescriptionError(
            f"Node '{self.node.required_name}' has no windows: nothing can be late for it.",
            hint="Ask a node with .window(…).",
        )

    def open_windows(self, state: DataFrame, progress: Progress, inputs: T.StructType) -> DataFrame:
        """The windows that are not closed yet, with their values so far; columns as `read`.

        Raises: DescriptionError when the node has no windows.
        """
        raise DescriptionError(f"Node '{self.node.required_name}' has no windows.", hint="Read its table.")

    @property
    def superseding(self) -> tuple[str, ...] | None:
        """Of these columns the state's row with the highest `__batch` stands for all before; None: rows add up."""
        return None

    def expired(self, progress: Progress) -> Expr | None:
        """Which rows of the state, of those that none supersedes, nothing will read any more; None: none."""
        return None

    def still_read(self, state: DataFrame, progress: Progress, *, whole: bool = True) -> DataFrame:
        """Rows of the state without those that nothing will read any more.

        In: whole  False: others lie beside these, so that an expired row may stand for one of them, and stays
        """
        if self.superseding is not None:
            state = newest_of(state, [F.col(quote(name)) for name in self.superseding])
            if not whole:
                return state
        expired = self.expired(progress)
        return state if expired is None else state.where(~F.coalesce(expired, F.lit(False)))

    def condensed(self, state: DataFrame, inputs: T.StructType) -> DataFrame:
        """Fewer rows of the state that stand for these; as many where each stands for itself.

        Law: what is computed from rows of the state is the same from their merger and the rows beside them, but for the
        updates in between, which depend on cuts. `__batch` is that of the newest row merged.
        """
        return state

    def asks_again_ms(self, state: DataFrame, progress: Progress) -> int | None:
        """Since which commit time what is open asks for rows of the log again, in ms; None: for none."""
        return None

    def settled(self, progress: Progress) -> Expr:
        """Of appended results: which rows of the table a log read that far leads to."""
        return F.lit(True)

    @abstractmethod
    def recompute(
        self, logs: Mapping[str, DataFrame], progress: Progress, span_ms: tuple[int, int] | None
    ) -> DataFrame:
        """Rows of the result table from the log alone, as of a progress.

        In:     span_ms  of appended results: rows of these days at least, as first and last moment; None: all
        """


class AppendedOperator(Operator[N]):
    """Its results are appended, each row once: final from then on."""

    appended = True

    @abstractmethod
    def emitted(self, results: DataFrame) -> DataFrame:
        """Rows of the table as sinks get them (see `Folded.emitted`).

        In: results  with all rows that were final at the same moment, or none of them
        """


class CurrentOperator(Operator[N]):
    """Its results are revised: a table of those folded, and changes in the state."""

    appended = False

    @abstractmethod
    def compacted(self, held: Held, inputs: T.StructType) -> DataFrame:
        """The rows to put into the base, and `__deleted`; one row for each identity in `held.state`."""

    @abstractmethod
    def emitted(
        self, logs: Mapping[str, DataFrame], held: Held, state: DataFrame, after: Progress
    ) -> DataFrame:
        """Rows for sinks of one increment (see `Folded.emitted`).

        In: held   as it was before
            state  what the increment adds to the state table
            after  the progress with it
        """

    def compacted_parts(self, held: Held) -> Mapping[str, DataFrame]:
        """For each part what `compacted` gives for the base.

        Law: folding the same changes again alters nothing, for a crash may strike between the part and the base.
        """
        return {}

    def expired_parts(self, progress: Progress) -> Mapping[str, Expr]:
        """Which rows of a part no later record can need; parts that are not named have none."""
        return {}


def newest_of(state: DataFrame, by: Sequence[Expr]) -> DataFrame:
    """Of the rows of the state with the same values those with the highest `__batch`."""
    newest = state.withColumn("__newest", F.max("__batch").over(Window.partitionBy(*by)))
    return newest.where(F.col("__batch") == F.col("__newest")).drop("__newest")


def tallies(partials: DataFrame) -> list[Tally]:
    """Count the fates of an increment.

    In: partials  rows with `__topic`, `__partition`, `__fate`, `__records`, `__stream_ms`
    """
    counted = partials.groupBy("__topic", "__partition", "__fate").agg(
        F.sum("__records").alias("records"),
        F.max("__stream_ms").alias("stream_ms"),
        F.count(F.lit(1)).alias("rows"),
    )
    return [
        Tally(r["__topic"], r["__partition"], r["__fate"], r["records"], r["stream_ms"], r["rows"])
        for r in counted.collect()
    ]


def of_batch(rows: DataFrame, batch: int) -> DataFrame:
    """Rows of the state with `__batch`, the micro-batch that appends them."""
    return rows.withColumn("__batch", varying(batch).cast("int"))


def nullable(frame: DataFrame) -> T.StructType:
    """The frame's schema with everything in it nullable, as tables have it."""
    schema = _nullable(frame.schema)
    assert isinstance(schema, T.StructType)
    return schema


def _nullable(data_type: Any) -> Any:
    match data_type:
        case T.StructType():
            return T.StructType(
                [T.StructField(f.name, _nullable(f.dataType), True) for f in data_type.fields]
            )
        case T.ArrayType():
            return T.ArrayType(_nullable(data_type.elementType), True)
        case T.MapType():
            return T.MapType(_nullable(data_type.keyType), _nullable(data_type.valueType), True)
        case _:
            return data_type
