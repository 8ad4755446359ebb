"""Pages that are made of the code, so that they say what it does: the API, commands, metrics, errors."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages

import headrace as hr
from docs.tools.members import members_of
from headrace.cli.commands import EXIT_CODES
from headrace.errors import HeadraceError
from headrace.observe.figures import MEANINGS
from headrace.observe.metrics import COUNTED
from headrace.orchestration.keys import ADVANCING
from headrace.orchestration.verdicts.advancing import CLAIM
from headrace.quality.results import CLAIMS, ERROR, SEVERITIES

# Public modules that users import beside `import headrace as hr`.
PLATFORM = (
    "headrace.orchestration.build_definitions",
    "headrace.orchestration.HeadraceComponent",
    "headrace.quality.Thresholds",
    "headrace.testing.TestDriver",
    "headrace.testing.SinkKit",
    "headrace.spark.session.build_session",
    "headrace.spark.session.spark_conf",
    "headrace.observe.views.Views",
    "headrace.oracle.results",
)
# A guide answers a search before the reference does.
MADE = "---\nsearch:\n  boost: 0.3\n---\n\n<!-- Made by docs/tools/reference.py. -->\n\n"
# What `hr` gives, by the page's sections; a name that is in none is shown under the last.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Topics": (
        "Topic",
        "Avro",
        "Protobuf",
        "JsonSchema",
        "Json",
        "Csv",
        "Text",
        "Bytes",
        "Number",
        "Debezium",
        "ReplayGuard",
        "source_chain",
        "from_table",
        "from_files",
    ),
    "Windows": (
        "tumbling",
        "hopping",
        "sliding",
        "session",
        "TimeWindows",
        "SlidingWindows",
        "SessionWindows",
    ),
    "Suppression": ("until_window_closes", "until_time_limit", "UntilWindowCloses", "UntilTimeLimit"),
    "Processors": (
        *("Processor", "Timer", "Context", "Record", "KeyValueStore", "key_value_store", "value_store"),
        *("WindowStore", "window_store", "SessionStore", "session_store", "processor"),
        *("global_table", "ReadOnlyStore"),
        *("BatchProcessor", "BatchContext", "BatchStore", "ProcessorError", "increase"),
    ),
    "Sinks": ("KafkaSink", "PostgresSink", "each", "DeliveredRow", "Sink", "CorrectableSink", "Delivery"),
    "Looking": ("describe", "preview", "Preview", "local"),
    "Errors": ("HeadraceError", "TerminalError", "TransientError", "DescriptionError"),
    "Aggregates, and more": (),
}
# The classes that chains of calls go through.
CHAINED = (
    *("stream.Stream", "grouped.GroupedStream", "grouped.WindowedStream", "windowed.WindowedAggregate"),
    *("running.RunningAggregate", "batches.Batches", "table.Table", "regrouped.GroupedTable"),
)


def pages() -> dict[str, str]:
    """The generated pages by their path below docs/."""
    return {
        "reference/api.md": MADE + api(),
        "reference/platform.md": MADE + platform(),
        "reference/command-line.md": MADE + command_line(),
        "reference/checks.md": MADE + checks(),
        "reference/metrics.md": MADE + metrics(),
        "reference/errors.md": MADE + errors(),
    }


def api() -> str:
    """Every public name of `headrace`."""
    placed = {name for names in SECTIONS.values() for name in names}
    text = "# Describing pipelines\n\nEvery name that `import headrace as hr` gives.\n"
    for title, names in SECTIONS.items():
        shown = names or [name for name in hr.__all__ if name not in placed]
        text += f"\n## {title}\n\n" + "".join(_shown(_home(getattr(hr, name), name)) for name in shown)
    chained = "".join(_shown(f"headrace.description.{name}") for name in CHAINED)
    return text + f"\n## Chains\n\nThe methods of a topic lead to these.\n\n{chained}"


def platform() -> str:
    """The public modules beside it."""
    return "# Dagster, tests and more\n\n" + "".join(_shown(name) for name in PLATFORM)


def _shown(path: str) -> str:
    module, _, name = path.rpartition(".")
    members = ""
    if inspect.isclass(shown := getattr(import_module(module), name)):
        members = f"      members: {json.dumps(members_of(shown))}\n"
    return f"::: {path}\n    options:\n      heading_level: 3\n{members}\n"


def _home(found: object, name: str) -> str:
    """Where the name is defined: there griffe finds its docstring."""
    module = inspect.getmodule(found)
    return f"{module.__name__ if module else 'headrace'}.{name}"


def command_line() -> str:
    """What `headrace --help` says, and that of every command."""
    command = [sys.executable, "-m", "typer", "headrace.cli", "utils", "docs", "--name", "headrace"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return found.stdout.replace("# `headrace`", f"# Command line\n\n{exit_codes()}\n## Commands", 1)


def exit_codes() -> str:
    """What each exit code means, as `headrace.cli` has them."""
    return "\n".join(
        [
            "## Output and exit codes",
            "",
            "Every command prints sentences for people. With `--json` it prints one JSON object a line, and an error as",
            "an object on stderr. Long work shows its progress on stderr: a bar on a terminal, else a line for each step.",
            "",
            "| exit code | meaning |",
            "| --- | --- |",
            *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()),
            "",
        ]
    )


def checks() -> str:
    """All claims, with what a failure of each means."""
    claims = {ADVANCING: CLAIM, **CLAIMS}
    return "\n".join(
        [
            "# Checks",
            "",
            "An *error* means that a table or a log cannot be trusted. A *warning* means that the tables are right,",
            "and someone should look. `Thresholds` sets limits and severities.",
            "[Backfills and checks](../guides/backfills-and-checks.md#the-checks) says what to do when one fails.",
            "",
            "| check | claim | if it fails |",
            "| --- | --- | --- |",
            *(f"| `{name}` | {claims[name]} | {SEVERITIES.get(name, ERROR)} |" for name in sorted(claims)),
            "",
        ]
    )


def metrics() -> str:
    """The figures of a stream run, as its endpoint names them."""
    rows = [
        f"| `headrace_{COUNTED[name]}_total` | counter | {meaning} |"
        if name in COUNTED
        else f"| `headrace_{name}` | gauge | {meaning} |"
        for name, meaning in MEANINGS.items()
    ]
    return "\n".join(
        [
            "# Metrics",
            "",
            "A stream run serves these to Prometheus if `HEADRACE_METRICS_PORT` is set. Each has the label `asset`:",
            "`log/<topic>` or `stream/<node>_stream`, as in Dagster. The pages of the assets show the same figures.",
            "",
            "| metric | kind | meaning |",
            "| --- | --- | --- |",
            *rows,
            "| `headrace_state` | gauge | 1 for the state that the query is in (label `state`). |",
            "",
        ]
    )


def errors() -> str:
    """All classes of errors, with what each means and whether a retry can help."""
    lines = [
        "# Errors",
        "",
        "Every error that Headrace raises on purpose is an `hr.HeadraceError`. Its text names the thing, its value",
        "and the fix. An `hr.TerminalError` needs a person: a retry cannot help. An `hr.TransientError` may go away,",
        "and streams try again by themselves.",
        "",
        "| error | kind | meaning |",
        "| --- | --- | --- |",
    ]
    for module in walk_packages(hr.__path__, "headrace."):
        import_module(module.name)
    for error in sorted(set(_below(HeadraceError)), key=lambda each: each.__name__):
        kind = "transient" if issubclass(error, hr.TransientError) else "terminal"
        lines.append(f"| `{error.__name__}` | {kind} | {_first_sentence(error)} |")
    return "\n".join([*lines, ""])


def _below(error: type[HeadraceError]) -> Iterator[type[HeadraceError]]:
    for each in error.__subclasses__():
        yield each
        yield from _below(each)


def _first_sentence(found: type) -> str:
    text = " ".join((found.__doc__ or "").split("\n\n")[0].split())
    return text.replace("|", "\\|")
