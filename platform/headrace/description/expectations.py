"""Expectations: what users expect of the rows of a node, in Great Expectations' own words.

Law: an expectation alters no row. Checks judge it: on each increment those that look at one row alone, and on the schedule
all of them on the whole table. Only `quarantine` splits rows, by steps in SQL: so the split is a function of each row.

Great Expectations is not imported here: its import takes seconds, and its objects are read by their public attributes.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.description.row_conditions import condition_of, words_of
from headrace.description.wording import a_value, listed
from headrace.errors import DescriptionError

if TYPE_CHECKING:
    from headrace.description.shape import Shape

ERROR, WARN = "error", "warn"
FAILED = "failed_expectations"  # the column of quarantined rows that names what they fail
# What Great Expectations keeps beside the claim itself.
ASIDE = (
    "meta",
    "notes",
    "description",
    "severity",
    "id",
    "rendered_content",
    "result_format",
    "batch_id",
    "windows",
)
# The arguments that name columns.
COLUMNS = ("column", "column_A", "column_B")
COLUMN_LISTS = ("column_list",)


@dataclass(frozen=True)
class Expectation:
    """One expectation of Great Expectations about the rows of a node.

    of         its class
    arguments  its arguments, as JSON with sorted keys
    severity   "error" where Great Expectations says "critical", else "warn"
    description       the description that the user gave it; empty: none
    name       the name of its check, which no other expectation of the node has
    """

    of: type
    arguments: str
    severity: str
    description: str
    name: str = ""

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The arguments by name."""
        kwargs: Mapping[str, Any] = json.loads(self.arguments)
        return kwargs

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names."""
        lists = [name for each in COLUMN_LISTS for name in self.kwargs.get(each) or ()]
        return (*(self.kwargs[each] for each in COLUMNS if each in self.kwargs), *lists)

    @property
    def claim(self) -> str:
        """Its claim, in one sentence."""
        return self.description or f"{words_of(self.of.__name__, self.kwargs)}."

    @property
    def condition(self) -> str | None:
        """SQL that is true for a row that meets it, and never null; None: one row alone does not tell."""
        return condition_of(self.of.__name__, self.kwargs)

    def gx_expectation(self) -> Any:
        """The object of Great Expectations."""
        return self.of(
            **self.kwargs,
            description=self.claim,
            severity="critical" if self.severity == ERROR else "warning",
        )


def checked_expectations(expectations: object, columns: Sequence[str]) -> tuple[Expectation, ...]:
    """The expectations of a node, each with the name of its check.

    In:     columns  of the node
    Raises: DescriptionError for what is no expectation, and for a column that the node does not have
    """
    if isinstance(expectations, str) or not isinstance(expectations, Sequence):
        raise DescriptionError(
            f"expectations: {a_value(expectations)} is not a list of expectations.",
            hint="Write expectations=[gx.expectations.ExpectColumnValuesToBeBetween(column='n', min_value=0)].",
        )
    found: list[Expectation] = []
    for each in expectations:
        one = each if isinstance(each, Expectation) else _read(each)
        unknown = [name for name in one.columns if name not in columns]
        if unknown:
            raise DescriptionError(
                f"expectations: {one.of.__name__}: column '{unknown[0]}' does not exist; columns are {listed(columns)}."
            )
        found.append(_named(one, [other.name for other in found]))
    return tuple(found)


def split_conditions(expectations: Sequence[object], shape: Shape) -> tuple[str, str]:
    """How `quarantine` splits rows.

    Out:    SQL that is true for rows that meet all expectations; SQL that names those that a row fails
    Raises: DescriptionError for an expectation that one row alone cannot meet or fail, and where FAILED is a column already
    """
    if not expectations:
        raise DescriptionError(
            "quarantine: no expectations.",
            hint="Write .quarantine(gx.expectations.ExpectColumnValuesToNotBeNull(column='value')).",
        )
    if shape.columns is not None and FAILED in shape.columns:
        raise DescriptionError(
            f"quarantine: the rows have a column '{FAILED}', which says what a quarantined row fails.",
            hint=f"Leave it out with .select(…), or give it another name than '{FAILED}'.",
        )
    found = checked_expectations(
        expectations, shape.columns or [c for e in expectations for c in _read(e).columns]
    )
    conditions = []
    for each in found:
        if each.condition is None:
            raise DescriptionError(
                f"quarantine: {each.of.__name__}({each.arguments}) is not about one row alone, so it splits no rows.",
                hint="Give it to .named(…, expectations=[…]): a check judges it on the whole table.",
            )
        conditions.append((each.name, each.condition))
    names = ", ".join(f"CASE WHEN {condition} THEN NULL ELSE '{name}' END" for name, condition in conditions)
    return " AND ".join(f"({condition})" for _, condition in conditions), f"concat_ws(', ', {names})"


def _read(argument: Any) -> Expectation:
    configuration: Any = getattr(argument, "configuration", None)
    kwargs = getattr(configuration, "kwargs", None)
    if isinstance(argument, type) or not isinstance(kwargs, Mapping):
        raise DescriptionError(
            f"expectations: {a_value(argument)} is no expectation of Great Expectations.",
            hint="Write for example gx.expectations.ExpectColumnValuesToNotBeNull(column='value').",
        )
    arguments = {name: value for name, value in kwargs.items() if name not in ASIDE}
    severity = str(getattr(argument.severity, "value", argument.severity))
    text = json.dumps(arguments, sort_keys=True, default=_plain)
    return Expectation(
        type(argument), text, ERROR if severity == "critical" else WARN, argument.description or ""
    )


def _named(one: Expectation, taken: Sequence[str]) -> Expectation:
    """The same with the name of its check: the class in small letters and the columns, numbered where they repeat."""
    kind = re.sub(r"(?<!^)(?=[A-Z][a-z])", "_", one.of.__name__).lower()
    base = re.sub(r"\W", "_", "_".join([kind, *one.columns]), flags=re.ASCII)
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return Expectation(one.of, one.arguments, one.severity, one.description, name)


def _plain(value: object) -> object:
    """A value of an argument as JSON has it."""
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, set | frozenset | tuple):
        return sorted(value)
    return getattr(value, "value", None) or str(value)
