"""The PostgreSQL sink: a node's current or final rows as a table of a database, in one transaction per micro-batch.

A delivery, in this order:
  1. the target table is made, or checked; the staging table is emptied;
  2. executors, or for few rows this process, copy the rows into the staging table, each its own part, in a transaction of
     its own;
  3. one transaction merges staging into the target, newer rows over older ones, and empties the staging table;
  4. rows that the database refused in 2 or 3 go to the table of refused rows.
A crash anywhere leaves the target as it was before 3 or as it is after it; the same delivery again changes nothing.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.description.quota import Quota, check_quota
from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value
from headrace.errors import DescriptionError, TerminalError
from headrace.extras import named_extra

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headrace.description.node import Node
    from headrace.description.sink import Delivery

DSN_VARIABLE = "HEADRACE_POSTGRES_DSN"
CONNECTIONS_MAX = 4
NAME_BYTES_MAX = 63
MEMORY_ENDING = "__deleted"  # of the name of the table of deleted identities
_SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
# The companion tables' names are longer, and PostgreSQL has 63.
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")


@explained_call
@dataclass(frozen=True)
class PostgresSink:
    """Delivers what a node emits to a table of PostgreSQL: one row for each identity, the newest.

    In:     table        its name, or `schema.table`; made when it is missing, with a unique key over the identity
            dsn          the name of the environment variable that holds the connection string, or Dagster's `EnvVar`;
                         never the connection string itself, which is a secret
            connections  how many executor tasks write at a time
            quota        how much it takes in a second (see `hr.Quota`); None: as much as PostgreSQL does
    Out:    the columns of the rows, and `__sequence` and `__place`, by which an older row is told from a newer one;
            structs, arrays and maps as `jsonb`, timestamps as `timestamptz`, decimals as `numeric`; deleted identities
            leave the table and are remembered in `<table>__deleted`, so that nothing older brings them back
    Law:    one transaction for each micro-batch. A row replaces what is older, or as old, of its identity: delivered
            again, in parts or out of order, the same rows lead to the same table. A backfill that changes or removes rows
            does the same here (see `CorrectableSink`).
            A writer that is stopped, or whose machine is gone, holds the table's locks for twenty seconds; then the
            server ends its session, and the next writer goes on. Before PostgreSQL 14 a server does so only for a
            session with an open transaction.
    Raises: DescriptionError; while it delivers TransientError when the database is away, after a few attempts with
            back-off: the stream waits. A row that the database refuses goes to the table of refused rows with the
            reason, and the others pass. TerminalError when the table cannot take the rows at all.
    """

    of_a_server: ClassVar[bool] = True  # a TestDriver leaves it out
    table: str
    dsn: str = DSN_VARIABLE
    connections: int = CONNECTIONS_MAX
    quota: Quota | None = None

    def __post_init__(self) -> None:
        parts = self.table.split(".") if isinstance(self.table, str) else []
        if not 1 <= len(parts) <= 2 or not all(_TABLE.fullmatch(part) for part in parts):
            raise DescriptionError(
                f"PostgresSink: table {a_value(self.table)} is not a name in letters, digits and underscores, of at "
                "most 48 characters, with a schema before it or without.",
                hint="Write for example 'visit_batches' or 'shop.visit_batches'.",
            )
        if self.table.endswith(MEMORY_ENDING):
            raise DescriptionError(
                f"PostgresSink: a table '{self.table}' is where the sink of '{self.table.removesuffix(MEMORY_ENDING)}' "
                "remembers what it deleted.",
                hint=f"Give it a name that does not end with {MEMORY_ENDING}.",
            )
        object.__setattr__(self, "dsn", _variable(self.dsn))
        check_quota(self.quota, "PostgresSink")
        count = self.connections
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise DescriptionError(
                f"PostgresSink: connections {a_value(count)} is not a whole number above 0."
            )

    @property
    def name(self) -> str:
        """Tells the sinks of a node apart."""
        return f"postgres-{self.table}"

    @property
    def exclusive_store(self) -> tuple[str, str]:
        """The table, which takes the rows of one node alone (see `Sink`). A name without a schema is one in `public`."""
        return self.dsn, self.table if "." in self.table else f"public.{self.table}"

    def check(self, node: Node) -> None:
        """Raise DescriptionError for a column whose name PostgreSQL would cut short or keeps for itself."""
        for name in node.columns:
            if name in _SYSTEM_COLUMNS or len(name.encode()) > NAME_BYTES_MAX:
                why = "one of its own" if name in _SYSTEM_COLUMNS else f"longer than {NAME_BYTES_MAX} bytes"
                raise DescriptionError(
                    f"PostgresSink '{self.table}': PostgreSQL takes no column '{name}': the name is {why}.",
                    hint="Give the column another name before it is grouped or aggregated: .with_column('name', …).",
                )

    def deliver(self, rows: DataFrame, delivery: Delivery) -> None:
        """Put the rows into the table (see `Sink.deliver`)."""
        self._merge(rows, delivery, None)

    def deliver_table(self, rows: pa.Table, delivery: Delivery) -> None:
        """The same of few rows, in this process (see `TableSink`)."""
        self._merge(rows, delivery, None)

    def correct(self, rows: DataFrame, delivery: Delivery, through: int) -> None:
        """Put right what the table holds of some identities (see `CorrectableSink.correct`)."""
        self._merge(rows, delivery, through)

    def identities(self, spark: SparkSession, delivery: Delivery) -> DataFrame:
        """The identities that the table holds, and those that it has refused (see `ReadableSink.identities`)."""
        with named_extra():
            from headrace.sinks.postgres_identities import identities_in_table

        return identities_in_table(spark, self._secret(), self.table, delivery)

    def _merge(self, rows: DataFrame | pa.Table, delivery: Delivery, through: int | None) -> None:
        import pyarrow

        with named_extra():
            from headrace.sinks.postgres_copy import Copier
            from headrace.sinks.postgres_merge import merge
            from headrace.sinks.postgres_session import kept_open, session
            from headrace.sinks.postgres_tables import Target
        from headrace.sinks.refusals import record_refusals, refusals_of
        from headrace.spark.one_task import spark_schema

        dsn, store = self._secret(), f"PostgreSQL's table '{self.table}'"
        few = isinstance(rows, pyarrow.Table)
        target = Target.of(self.table, delivery, spark_schema(rows.schema) if few else rows.schema)
        with session(dsn, store) as connection:
            target.prepare(connection)
            connection.commit()
            copier = Copier(dsn, target.copy_statement(), store, target.copied)
            with kept_open(connection):
                outcomes = copier.of_table(rows) if few else copier.of_frame(rows, self.connections)
            refused = refusals_of(outcomes, store)
            staged = sum(row[-1] or 0 for row in outcomes)
            refused += merge(connection, target, staged=staged, through=through)
        record_refusals(rows, delivery, refused, store)

    def _secret(self) -> str:
        dsn = os.environ.get(self.dsn)
        if not dsn:
            raise TerminalError(
                f"PostgresSink '{self.table}': the environment variable {self.dsn} is not set.",
                hint="Set it to the connection string, such as postgresql://user:password@host:5432/database.",
            )
        return dsn


def _variable(value: object) -> str:
    """The name of the variable that holds the connection string; the string itself is neither kept nor shown."""
    named = getattr(value, "env_var_name", value)
    if not isinstance(named, str) or not _VARIABLE.fullmatch(named):
        raise DescriptionError(
            "PostgresSink: dsn is not the name of an environment variable, in capitals, digits and underscores.",
            hint=f"Put the connection string into a variable, and give its name: dsn='{DSN_VARIABLE}'.",
        )
    return str(named)
