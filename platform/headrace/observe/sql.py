"""SQL over a lake, answered by DuckDB in the process that asks. Neither Spark nor a stream takes part.

| name in a query | rows |
| --- | --- |
| `<node>` | what `Views.read` gives: final windows if suppressed, else every window as of now; current rows |
| `open_windows.<node>` | the windows that are not closed yet, with their values so far |
| `logs.<topic>` | the log, with dead letters, ticks and control rows |

Law: each node is read as of one micro-batch. Its table is read by DuckDB's Delta reader at an exact version; what the state
alone knows (open windows, current rows that are not in the table yet) is computed by the kernel and joins it.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from headrace.description.wording import did_you_mean
from headrace.engine.folding.operators import stored_results
from headrace.engine.state_files import StateSource
from headrace.engine.state_reads import read_state
from headrace.errors import TerminalError
from headrace.extras import named_extra
from headrace.fold.changes.collect import RESULTS
from headrace.fold.contract import BATCH, DELETED, KEY, Needs
from headrace.lake import open_table
from headrace.lake.storage import delta_uri
from headrace.nodes.descriptions.references import resolve_all_references
from headrace.nodes.descriptions.stored_columns import stored_operator
from headrace.nodes.descriptions.topics import topics_of
from headrace.nodes.node_tables import current_base, progress_of
from headrace.observe.duckdb_readers import literal, load_readers
from headrace.operators.contract import SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.description import Node
    from headrace.lake import LakeTable
    from headrace.lake.paths import Lake
    from headrace.nodes.progress import Progress

LOGS, OPEN, MAIN = "logs", "open_windows", "main"
SHOW_TABLES = re.compile(r"show\s+(all\s+)?tables\s*;?", re.IGNORECASE)
EXPLAIN = re.compile(r"^\s*explain\b(\s*analyze\b)?(\s*\([^()]*\))?", re.IGNORECASE)  # before a query
NO_TABLE = re.compile(r"Table with name (\S+) does not exist")
SUGGESTION = re.compile(r"\nDid you mean [^\n]*")  # of DuckDB's own tables, such as pg_tablespace
NAMED = re.compile(r'(?:(\w+)\.)?(?:"([^"]+)"|(\w+))')  # a table, as DuckDB says that a query names it


class LakeSql:
    """Answers SQL over the tables of a lake. One thread asks at a time."""

    def __init__(self, lake: Lake, nodes: Sequence[Node]) -> None:
        """Start DuckDB in this process; no table is opened before a query names it.

        In:     nodes  whose tables queries may name, and the logs of whose topics
        Raises: TerminalError when DuckDB has no credentials for the lake
        """
        with named_extra():
            import duckdb

        found = resolve_all_references(lake, nodes)
        self._lake, self._nodes = lake, {node.required_name: node for node in found}
        self._topics = topics_of(nodes)
        config = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,  # no variable of this process is a table
        }
        self._duckdb = duckdb.connect(config=config)  # type: ignore[arg-type]
        self._errors, self._made = duckdb.Error, 0
        self._views, self._registered = list[str](), list[str]()  # of the query under way
        self._duckdb.execute("SET TimeZone = 'UTC'")
        load_readers(self._duckdb, lake.root)
        for schema in (LOGS, OPEN):
            self._duckdb.execute(f"CREATE SCHEMA {schema}")

    def __enter__(self) -> LakeSql:
        return self

    def __exit__(self, *_: object) -> None:
        self._duckdb.close()

    @property
    def names(self) -> list[str]:
        """List the names that a query may use: those of tables that exist."""
        nodes = [name for name in self._nodes if open_table(self._lake.table(name)).exists]
        windows = [f"{OPEN}.{name}" for name in nodes if self._nodes[name].has_windows]
        logs = [f"{LOGS}.{quoted_name(n)}" for n in self._topics if open_table(self._lake.log(n)).exists]
        return [*map(quoted_name, nodes), *windows, *logs]

    def query(self, text: str) -> pa.Table:
        """Answer a query as of now.

        Out:    each column by a name of its own: a second `n` is `n_1`, as in a table that DuckDB makes of the query
        Raises: TerminalError when DuckDB refuses the query; the errors of the tables that it names
        """
        if SHOW_TABLES.fullmatch(text.strip()):
            return pa.table({"name": pa.array(self.names, pa.string())})
        try:
            if not self._duckdb.extract_statements(text):
                raise TerminalError("The text holds no query.", hint="Without a query the tables are listed.")
            named = self._named(text)
        except self._errors as error:
            raise self._refused(text, error) from None
        try:
            for schema, table in sorted(named):
                self._show(schema, table)
            found = self._duckdb.execute(text).to_arrow_table()
            return found.rename_columns(_distinct_names(found.column_names))
        except self._errors as error:
            raise self._refused(text, error) from None
        finally:
            self._forget()

    def _named(self, text: str) -> set[tuple[str, str]]:
        """Schema and name of the tables that a query names, in lower case.

        DuckDB tells the names only of queries that it can bind, and `JOIN … USING` needs the tables for that. So another
        parser reads the query, and DuckDB only what that one cannot read.
        """
        try:
            trees = [tree for tree in parse(EXPLAIN.sub("", text), dialect="duckdb") if tree is not None]
        except SqlglotError:
            told = self._duckdb.get_table_names(text, qualified=True)
            matches = [NAMED.fullmatch(name.lower()) for name in told]
            return {(found[1] or MAIN, found[2] or found[3]) for found in matches if found}
        tables = [table for tree in trees for table in tree.find_all(exp.Table)]
        return {(table.db.lower() or MAIN, table.name.lower()) for table in tables}

    def _show(self, schema: str, table: str) -> None:
        """Make the view that a query names; a name that is not of the lake is left to DuckDB."""
        topic = next((each for each in self._topics if each.lower() == table), None)
        if schema == LOGS and topic is not None:
            self._view(LOGS, topic, f"SELECT * FROM {_scan(open_table(self._lake.log(topic)), topic)}")
        elif schema == OPEN and table in self._nodes and self._nodes[table].has_windows:
            node = self._nodes[table]
            self._view(OPEN, table, f"SELECT * FROM {self._rows(_users(self._open_windows(node)))}")
        elif schema == MAIN and table in self._nodes:
            node = self._nodes[table]
            appended = node.has_days
            self._view(MAIN, table, self._appended(node) if appended else self._current(node))

    def _appended(self, node: Node) -> str:
        """The state first: what it says is closed is in the table then, and what comes later has a later commit time."""
        progress, state = self._progress(node)
        windows = self._windows(node, progress, state) if node.shows_open else None
        results = open_table(self._lake.table(node.required_name))
        upto_ms = progress.frontier_ms(node)
        table = _scan(results, node.required_name)
        final = f"SELECT {_users_of(results)} FROM {table} WHERE {SEQUENCE} <= {upto_ms}"
        if windows is None:
            return final
        return f"{final} UNION ALL BY NAME SELECT * FROM {self._rows(_users(windows))}"

    def _current(self, node: Node) -> str:
        """The base first: what is folded into it later is still in the state."""
        results = open_table(self._lake.table(node.required_name))
        _require(results, node.required_name)
        progress_of(self._lake, node)  # refuses tables of another description, and half of a swap
        base, users = current_base(results.uri, node.required_name), _users_of(results)
        table = _scan(results, node.required_name, base.version)
        state = open_table(self._lake.state(node.required_name))
        rows = read_state(
            StateSource.committed(state), stored_results(state), RESULTS, Needs(), remember=False
        ).rows
        since = self._rows(rows.filter(pc.greater(rows[BATCH], base.batch)))
        untouched = f"SELECT {users} FROM {table} WHERE {KEY} NOT IN (SELECT {KEY} FROM {since})"
        return f"{untouched} UNION ALL SELECT {users} FROM {since} WHERE NOT {DELETED}"

    def _open_windows(self, node: Node) -> pa.Table:
        return self._windows(node, *self._progress(node))

    def _progress(self, node: Node) -> tuple[Progress, StateSource]:
        """How far a node has come, and the files of the state as of then."""
        state = open_table(self._lake.state(node.required_name))
        _require(state, node.required_name)
        snapshot = state.snapshot()
        progress = progress_of(self._lake, node, through=snapshot.version)
        return progress, StateSource(state.uri, snapshot.files)

    def _windows(self, node: Node, progress: Progress, state: StateSource) -> pa.Table:
        operator = stored_operator(self._lake, node)
        is_open = operator.kernel.open_state
        assert is_open is not None
        assert is_open.windows is not None
        rows = read_state(state, operator.layout, is_open.table, Needs(), remember=False).rows
        return is_open.windows(rows, progress.clock)

    def _rows(self, rows: pa.Table) -> str:
        """Rows of Arrow as a relation of DuckDB, by a name of their own."""
        self._made += 1
        name = f"__rows_{self._made}"
        self._duckdb.register(name, rows)
        self._registered.append(name)
        return name

    def _view(self, schema: str, name: str, query: str) -> None:
        self._duckdb.execute(f"CREATE OR REPLACE VIEW {schema}.{quoted_name(name)} AS {query}")
        self._views.append(f"{schema}.{quoted_name(name)}")

    def _forget(self) -> None:
        """Drop what a query saw: the next one must not see it by another spelling, and rows of Arrow take memory."""
        for view in self._views:
            self._duckdb.execute(f"DROP VIEW IF EXISTS {view}")
        for name in self._registered:
            self._duckdb.unregister(name)
        self._views, self._registered = [], []

    def _refused(self, text: str, error: Exception) -> TerminalError:
        return TerminalError(
            f"DuckDB refuses the query: {text}",
            detail=SUGGESTION.sub("", str(error)) if NO_TABLE.search(str(error)) else str(error),
            hint=" ".join(self._hints(str(error))),
        )

    def _hints(self, refusal: str) -> Iterator[str]:
        """The table that was meant, if DuckDB does not know one, and all tables of the lake."""
        missing = NO_TABLE.search(refusal)
        meant = did_you_mean(missing[1], [name.strip('"') for name in self.names]) if missing else None
        if meant:
            yield meant
        yield f"Tables of this lake: {', '.join(self.names) or 'none yet'}."


def _scan(table: LakeTable, name: str, version: int | None = None) -> str:
    """A table as DuckDB reads it, at a version. In: version  None: the newest now."""
    _require(table, name)
    at = table.version if version is None else version
    return f"delta_scan({literal(delta_uri(table.uri))}, version => {at})"


def _require(table: LakeTable, name: str) -> None:
    if not table.exists:
        raise TerminalError(
            f"'{name}' has no table at {table.uri}.",
            hint="Start its stream, or correct the lake's root (HEADRACE_LAKE).",
        )


def _distinct_names(names: Sequence[str]) -> list[str]:
    """Names by which each column is another one: rows by name would lose values otherwise."""
    found = list[str]()
    for name in names:
        others = (f"{name}_{number}" for number in count(1))
        free = (each for each in others if each not in names and each not in found)
        found.append(next(free) if name in found else name)
    return found


def _users(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.column_names if not name.startswith("__")])


def _users_of(table: LakeTable) -> str:
    return ", ".join(quoted_name(name) for name in table.columns.names if not name.startswith("__"))


def quoted_name(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
