"""Which limits are in force at each row of the log: those described, until a control row says otherwise.

Law: a function of the description and of the control rows up to the row. A control row whose limits the described policy
cannot have alters nothing: what was in force before stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from pyspark.sql import functions as F

from headrace.description.limits import Limits, with_limits
from headrace.description.suppression import Policy
from headrace.errors import DescriptionError
from headrace.log.columns import SET_LIMITS
from headrace.log.limits import limits_set

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

    from headrace.log.limits import LimitsSet

P = TypeVar("P", bound=Policy)


@dataclass(frozen=True)
class InForce(Generic[P]):
    """A policy over a stretch of the log.

    begun    as of the stretch's beginning
    changes  from which commit time in ms on, rising, it is another
    altered  the limits that were set up to its end, in place of those described
    """

    begun: P
    changes: tuple[tuple[int, P], ...] = ()
    altered: Limits = field(default_factory=dict)

    @property
    def last(self) -> P:
        """As of the stretch's end."""
        return self.changes[-1][1] if self.changes else self.begun

    def at(self, value: Callable[[P], int | None]) -> Expr:
        """Of a row with `__ingested_ms`: a value of the policy that is in force there, BIGINT."""
        found = F.lit(value(self.begun)).cast("long")
        for from_ms, policy in self.changes:
            new = F.lit(value(policy)).cast("long")
            found = F.when(F.col("__ingested_ms") >= from_ms, new).otherwise(found)
        return found


def in_force(described: P, before: Limits, entries: Iterable[LimitsSet] = ()) -> InForce[P]:
    """What is in force over a stretch of the log.

    In: before   limits set before it
        entries  those set in it, oldest first
    """
    begun, known = _tried(described, before) or described, before
    now, changes = begun, []
    for entry in entries:
        changed = _tried(now, entry.limits)
        if changed is not None:
            now, known = changed, {**known, **entry.limits}
            changes.append((entry.ingested_at_ms, changed))
    return InForce(begun, tuple(changes), known)


def own_limits(name: str) -> Expr:
    """Whether a row sets limits of the node with this name. In: rows as `rows_of` gives them."""
    own = F.get_json_object("__reason", "$.node") == name
    return F.coalesce((F.col("__fate") == SET_LIMITS) & own, F.lit(False))


def limits_row(name: str) -> Expr:
    """Commit time and JSON of such a row, as a struct; null for others. To be collected as a set."""
    return F.when(own_limits(name), F.struct("__ingested_ms", "__reason"))


def entries_of(collected: Iterable[Collection[tuple[int, str]]]) -> list[LimitsSet]:
    """The limits in sets of `limits_row`, each once, oldest first."""
    rows = {(ms, control) for found in collected for ms, control in found}
    return [limits_set(control, ms) for ms, control in sorted(rows)]


def entries_in(rows: DataFrame, name: str) -> list[LimitsSet]:
    """The limits set in rows as `rows_of` gives them."""
    found = rows.where(own_limits(name)).select("__ingested_ms", "__reason").distinct().collect()
    return entries_of([[(row["__ingested_ms"], row["__reason"]) for row in found]])


def _tried(policy: P, limits: Limits) -> P | None:
    try:
        return with_limits(policy, limits)  # type: ignore[return-value]
    except DescriptionError:
        return None
