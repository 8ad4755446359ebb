"""The changes between two descriptions of a node, told by their rules alone.

Law: equal rules give no change. For two that differ at least one change is named, or a node that is read and has changed.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.description.durations import format_duration
from headrace.description.spark_steps import BASELINE, SPARK
from headrace.description.unnamed import is_unnamed

Rules = Mapping[str, Any]
NONE = "none"
CODE_SHOWN_MAX = 60  # characters of a value; a digest is longer
STEPLESS = "a step without a name"
BY_NAME = "by_name"  # the rule of a node that is read by its name
# By which rule an operator is told from the others; the first that is there counts.
OPERATORS = {
    "stream": "the rows of a stream",
    "distinct": "distinct records",
    "merged": "merged branches",
    "flat_map": "a flat map",
    "process": "a processor",
    "stream_join": "a join of streams",
    "lookup": "a lookup",
    "left": "a join of tables",
    "refined": "a table with steps",
    "window": "windows",
    "running": "totals",
    "collect": "batches",
    "conditions": "a table",
    "aggregates": "groups of a table",
}
COLUMNS_READ, ORDER = "columns read", "order of the columns"
WORDS = {
    "by": "groups",
    "value": COLUMNS_READ,
    "on": "joined on",
    "how": "kind of join",
    "steps": "step",
    "conditions": "condition",
    "order_by": "order",
    "suppression": "suppressed",
    "limit": "time limit",
    "decoded": "records read",
    SPARK: "computed by Spark",
}
TOLD_BY = ("running", "chained")  # they are there or not, with the operator


@dataclass(frozen=True)
class ColumnChange:
    """An aggregate that is new (`before` is None), removed (`after` is None), or another one."""

    column: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """One line."""
        if self.before is None:
            return f"+ {self.column} = {self.after}"
        if self.after is None:
            return f"- {self.column} (was {self.before})"
        return f"~ {self.column}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Changes:
    """The changes.

    columns  the aggregates
    others   everything else that alters rows, one line each
    follows  the nodes that it reads and that have changed, by name
    """

    columns: tuple[ColumnChange, ...] = ()
    others: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """True if there is one."""
        return bool(self.columns or self.others or self.follows)

    @property
    def lines(self) -> tuple[str, ...]:
        """One line each."""
        return (*map(str, self.columns), *self.others, *(f"follows {name}" for name in self.follows))


def compare_rules(stored: Rules, described: Rules) -> Changes:
    """The changes from the stored rules to the described ones. In: rules as a node's `rules()`, through JSON."""
    one, other = (_own(json.loads(json.dumps(rules))) for rules in (stored, described))
    columns, others = list[ColumnChange](), list[str]()
    for found in _changes(one, other, ""):
        (columns if isinstance(found, ColumnChange) else others).append(found)  # type: ignore[arg-type]
    before, after = nodes_read(stored), nodes_read(described)
    follows = [name for name, of in after.items() if name in before and before[name] != of]
    return Changes(tuple(columns), tuple(dict.fromkeys(others)), tuple(follows))


def nodes_read(rules: Any) -> dict[str, str]:
    """The named nodes that are read, directly or through steps without names; each with its generation."""
    found: dict[str, str] = {}
    if isinstance(rules, Mapping):
        topic, step = rules.get("topic"), rules.get("node")
        if isinstance(topic, str) and (step is not None or BY_NAME in rules):
            name, _, generation = topic.partition("@")
            return nodes_read(step) if is_unnamed(name) else {name: generation}
        for value in rules.values():
            found |= nodes_read(value)
    elif isinstance(rules, list | tuple):
        for value in rules:
            found |= nodes_read(value)
    return found


def logs_of_steps(rules: Any, *, is_step: bool = False) -> set[str]:
    """The logs that steps without names read. In: rules  of a node that reads these steps, or of such a step."""
    found = set[str]()
    if isinstance(rules, Mapping):
        topic = rules.get("topic")
        if isinstance(topic, str):
            found |= {topic} if is_step else set()
            if "node" in rules or BY_NAME in rules:
                unnamed = is_unnamed(topic.partition("@")[0])
                return found | (logs_of_steps(rules.get("node"), is_step=True) if unnamed else set())
        rules = [*rules.values()]
    if isinstance(rules, list | tuple):
        found |= {log for each in rules for log in logs_of_steps(each, is_step=is_step)}
    return found


def _own(rules: Any) -> Any:
    """The rules without those of named nodes that are read: these change by themselves."""
    if isinstance(rules, list):
        return [_own(each) for each in rules]
    if not isinstance(rules, dict):
        return rules
    if "suppressed" in rules:
        limit = {name: value for name, value in rules.items() if name != "suppressed"}
        return {**_own(rules["suppressed"]), "limit": limit}
    if ("node" in rules or BY_NAME in rules) and isinstance(rules.get("topic"), str):
        name = rules["topic"].partition("@")[0]
        rest = {key: _own(value) for key, value in rules.items() if key not in ("node", "topic", BY_NAME)}
        if is_unnamed(name):
            return {**rest, "topic": STEPLESS, "made of": _own(rules["node"])}
        return {**rest, "topic": name}
    return {name: _own(value) for name, value in rules.items()}


def _changes(one: Any, other: Any, where: str) -> Iterator[ColumnChange | str]:
    if one == other:
        return
    name = where.rpartition(".")[2]
    if name == "parts" and isinstance(one, dict) and isinstance(other, dict):
        yield from _of_code(one, other, where.rpartition(".")[0])
    elif isinstance(one, dict) and isinstance(other, dict):
        yield from _of_rules(one, other, where)
    elif name == "aggregates":
        yield from _of_columns(one or [], other or [], where.rpartition(".")[0])
    elif name in ("steps", "conditions"):
        yield from _of_steps(one or [], other or [], where)
    elif name == "branches" and not _lists_of_one_length(one, other):
        yield f"topics read: {_topics(one)} -> {_topics(other)}"
    elif name == "branches":
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _changes(left, right, _branch(where, left, right, number, len(one)))
    elif name == "value" and isinstance(one, str | None) and isinstance(other, str | None):
        yield f"{_words(where)}: {' -> '.join(map(_text, _differing(one, other)))}"
    else:
        yield f"{_words(where)}: {_value(name, one)} -> {_value(name, other)}"


def _differing(one: str | None, other: str | None) -> tuple[list[str], list[str]]:
    """The columns of two lists in DDL that only one of them has; both lists as they are if the order alone differs."""
    before, after = (_columns_of(ddl or "") for ddl in (one, other))
    left = [column for column in before if column not in after]
    right = [column for column in after if column not in before]
    return (left, right) if left or right else (before, after)


def _columns_of(ddl: str) -> list[str]:
    """The columns of DDL as they are written: commas within a type do not part them."""
    columns, depth = [""], 0
    for part in ddl.split(", "):
        columns[-1] += f", {part}" if depth else part
        depth += sum(part.count(mark) for mark in "<(") - sum(part.count(mark) for mark in ">)")
        if not depth:
            columns.append("")
    return [column for column in columns if column]


def _of_rules(one: Rules, other: Rules, where: str) -> Iterator[ColumnChange | str]:
    left, right = _operator(one), _operator(other)
    names = [*one, *(name for name in other if name not in one)]
    if left != right:
        yield f"{_words(where) + ': ' if where else ''}{left or NONE} -> {right or NONE}"
        # Of another operator only what both have can be told column by column; a limit and aggregates may come or go.
        names = [name for name in names if (name in one and name in other) or name in ("limit", "aggregates")]
    for name in names:
        if name not in TOLD_BY:
            yield from _changes(one.get(name), other.get(name), f"{where}.{name}".lstrip("."))


def _of_code(one: Rules, other: Rules, where: str) -> Iterator[str]:
    """The parts of a processor's code: a value as it was and is, a text only by its path."""
    for path in sorted({*one, *other}):
        before, after = one.get(path, NONE), other.get(path, NONE)
        if before != after:
            short = max(len(before), len(after)) <= CODE_SHOWN_MAX and "text" not in before + after
            yield f"{_words(where)}, code of {path}" + (f": {before} -> {after}" if short else " changed")


def _operator(rules: Rules) -> str | None:
    return next((words for name, words in OPERATORS.items() if rules.get(name) is not None), None)


def _of_columns(one: Sequence[Any], other: Sequence[Any], where: str) -> Iterator[ColumnChange | str]:
    before, after = ({name: _aggregate(rules) for name, rules in side} for side in (one, other))
    inside = f"{_words(where)}: " if where else ""
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name):
            yield ColumnChange(f"{inside}{name}", before.get(name), after.get(name))
    both = [name for name in before if name in after]
    if both != [name for name in after if name in before]:
        yield f"{inside}{ORDER}: {', '.join(before)} -> {', '.join(after)}"
    for (name, left), (_, right) in _pairs(one, other):
        if left != right and _aggregate(left) == _aggregate(right):
            yield ColumnChange(f"{inside}{name}", _aggregate(left), f"{_aggregate(right)}, with other code")


def _pairs(one: Sequence[Any], other: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    after = dict(other)
    return (((name, rules), (name, after[name])) for name, rules in one if name in after)


def _aggregate(rules: Rules) -> str:
    """An aggregate as it is written: `sum(value, scale=2)`."""
    code = rules.get("code")
    kind = code["name"] if isinstance(code, dict) and "name" in code else rules.get("kind", "aggregate")
    given = [str(rules["column"])] if rules.get("column") is not None else []
    given += [str(each) for each in rules.get("columns", ())]
    left_out = ("kind", "column", "columns", "code", "state", "result", "values")
    given += [
        f"{name}={_text(value)}"
        for name, value in sorted(rules.items())  # a lake holds rules in the order of their names
        if name not in left_out and value != 0
    ]
    return f"{kind}({', '.join(given)})"


def _of_steps(one: Sequence[Any], other: Sequence[Any], where: str) -> Iterator[str]:
    are_conditions = where.endswith("conditions")
    if are_conditions:
        one, other = ([_condition(each) for each in side] for side in (one, other))
    before, after = ([_step(step) for step in side] for side in (one, other))
    if are_conditions:
        before, after = ([words.removeprefix("where ") for words in side] for side in (before, after))
    found = False
    for line in difflib.ndiff(before, after):
        if line[:2] in ("- ", "+ "):
            found = True
            yield f"{_words(where)} {'removed' if line[0] == '-' else 'added'}: {line[2:]}"
    if not found:
        for left, right, words in zip(one, other, after, strict=True):
            if left != right:
                yield _other_step(where, left, right, words)


def _condition(rules: Any) -> Any:
    """A condition as a step: one that only another Spark than BASELINE computes stands there as one."""
    return rules if isinstance(rules, dict) else {"step": "Where", "expression": rules}


def _other_step(where: str, before: Any, after: Any, words: str) -> str:
    """A step whose words are the same, and whose rules are not."""
    versions = [of.get(SPARK, BASELINE) if isinstance(of, dict) else BASELINE for of in (before, after)]
    if versions[0] != versions[1]:
        return f"{words}: computed by Spark {' -> '.join(versions)}"
    return f"{_words(where)} changed: {words}, with other code or columns"


def _step(step: Any) -> str:
    if not isinstance(step, dict):
        return str(step)
    function = step.get("function")
    if isinstance(function, dict):
        return f"transform {function.get('name', 'a partial of a function')}"
    kind = {"Where": "where", "Select": "select", "WithColumn": "with column", "FlatMap": "flat map"}
    said = {name: value for name, value in step.items() if name not in ("step", "reads", "types", "shape")}
    words = [
        f"{_text(said[name])}" for name in ("name", "expression", "expressions") if said.get(name) is not None
    ]
    return f"{kind.get(str(step.get('step')), str(step.get('step')))} {' = '.join(words)}"


def _branch(where: str, one: Any, other: Any, number: int, of: int) -> str:
    """Where a branch stands; of one alone the rules are those of the stream."""
    above = where.rpartition(".")[0]
    if of == 1:
        return above
    known = [each.get("topic") for each in (one, other) if isinstance(each, dict)]
    name = known[0] if len({*known}) == 1 else f"branch {number + 1}"
    return f"{above}.{name}".lstrip(".")


def _topics(branches: Sequence[Any] | None) -> str:
    return ", ".join(str(each.get("topic")) for each in branches or ()) or NONE


def _lists_of_one_length(one: Any, other: Any) -> bool:
    return isinstance(one, list) and isinstance(other, list) and len(one) == len(other)


def _words(where: str) -> str:
    """A path as people read it."""
    parts = [part for part in where.split(".") if part and part != "refined"]  # a table with its steps
    return ", ".join(WORDS.get(part, part.removesuffix("_ms").replace("_", " ")) for part in parts)


def _value(name: str, value: Any) -> str:
    if name.endswith("_ms") and isinstance(value, int):
        return format_duration(value)
    if name == "suppression" and value == "UntilWindowCloses":
        return "until the window closes"
    if name == "clock" and value is None:
        return "stream"
    if isinstance(value, dict):
        known = ((key, _value(key, of)) for key, of in value.items() if of is not None)
        return ", ".join(f"{_words(key)} {of}" for key, of in known) or NONE
    return _text(value)


def _text(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or NONE
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(of)}" for name, of in value.items()) or NONE
    return str(value).replace("`", "") or NONE
