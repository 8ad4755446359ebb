"""All aggregates of a node: partial columns `__<name>_<suffix>`, and results by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.fold.aggregates.cardinality import ApproxCountDistinct
from headrace.fold.aggregates.distinct import CountDistinct
from headrace.fold.aggregates.extremes import Extreme
from headrace.fold.aggregates.kind import Inputs, Kind, whole
from headrace.fold.aggregates.ordered import ByPosition, Collect
from headrace.fold.aggregates.own import Own
from headrace.fold.aggregates.quantiles import Quantiles
from headrace.fold.aggregates.ranked import BestBy, Top
from headrace.fold.aggregates.sums import Avg, Count, Sum, Variance
from headrace.fold.positions import POSITION

if TYPE_CHECKING:
    from headrace.description import Aggregate

# Of each kind how it is made for the columns that it reads, each with its name and type.
KINDS: dict[str, Callable[..., Kind]] = {
    "sum": lambda aggregate, of: Sum(of.name, of.type, aggregate.scale),
    "avg": lambda aggregate, of: Avg(of.name, of.type, aggregate.scale),
    "variance": lambda aggregate, of: Variance(of.name, of.type, aggregate.scale, root=False),
    "stddev": lambda aggregate, of: Variance(of.name, of.type, aggregate.scale, root=True),
    "count": lambda aggregate, *of: Count(of[0].name if of else None),
    "min": lambda aggregate, of: Extreme(of.name, of.type, highest=False),
    "max": lambda aggregate, of: Extreme(of.name, of.type, highest=True),
    "first": lambda aggregate, of: ByPosition(of.name, of.type, last=False),
    "last": lambda aggregate, of: ByPosition(of.name, of.type, last=True),
    "collect": lambda aggregate, of: Collect(of.name, of.type, aggregate.max_items),
    "count_distinct": lambda aggregate, of: CountDistinct(of.name, of.type),
    "approx_count_distinct": lambda aggregate, of: ApproxCountDistinct(of.name, of.type, aggregate.error),
    "quantiles": lambda aggregate, of: Quantiles(of.name, of.type, aggregate.at, aggregate.error),
    "max_by": lambda aggregate, value, by: BestBy(value, by, highest=True),
    "min_by": lambda aggregate, value, by: BestBy(value, by, highest=False),
    "own": lambda aggregate, *of: Own(aggregate.own, of),
    "top": lambda aggregate, value, by: Top(
        value, by, aggregate.max_items, aggregate.ascending, ties=bool(aggregate.ties)
    ),
}


@dataclass(frozen=True)
class Aggregates:
    """Aggregates over rows of one schema.

    kinds  by name, in the order of their columns
    asked  of each name the kind and the column as described, for reasons
    """

    kinds: Mapping[str, Kind]
    asked: Mapping[str, tuple[str, str | None]]

    @classmethod
    def of(cls, aggregates: Sequence[tuple[str, Aggregate]], inputs: pa.Schema) -> Aggregates:
        """The aggregates of a description.

        In: inputs  the schema of the rows to be aggregated
        """
        kinds = {name: _kind(aggregate, inputs) for name, aggregate in aggregates}
        return cls(kinds, {name: (aggregate.kind, aggregate.column) for name, aggregate in aggregates})

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows that are read, those of the position among them if they are."""
        read = [column for kind in self.kinds.values() for column in kind.columns]
        return tuple(dict.fromkeys([*read, *(POSITION if self.by_position else ())]))

    @property
    def by_position(self) -> bool:
        """Whether one goes by the log's order."""
        return any(kind.by_position for kind in self.kinds.values())

    @property
    def invertible(self) -> bool:
        """Whether rows can be taken out again (see `negate`)."""
        return all(kind.invertible for kind in self.kinds.values())

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The partial columns."""
        return tuple(
            pa.field(f"__{name}_{suffix}", of)
            for name, kind in self.kinds.items()
            for suffix, of in kind.fields.items()
        )

    @property
    def results(self) -> tuple[pa.Field, ...]:
        """The columns of results."""
        return tuple(pa.field(name, kind.result) for name, kind in self.kinds.items())

    def unusable(self, rows: pa.Table) -> list[tuple[np.ndarray, str]]:
        """Rows with an input that cannot be represented: which, and the reason; the first that holds is the row's."""
        inputs, found = Inputs(rows), []
        for name, kind in self.kinds.items():
            usable = kind.usable(inputs)
            if usable is not None and not usable.all():
                what, column = self.asked[name]
                reason = (
                    f"{kind.refusal}: {name}" if kind.refusal else f"out of range: {column} for {what} {name}"
                )
                found.append((~usable, reason))
        return found

    def partials(self, rows: pa.Table, codes: np.ndarray, groups: int) -> dict[str, pa.Array]:
        """The partials of rows.

        In:  rows    `columns`; every row is aggregated
             codes   of each row the number of its group
        Out: the partial columns; one row per group, also for one that has no rows
        """
        inputs = Inputs(rows)
        return self._each(lambda name, kind: kind.partial(inputs, codes, groups))

    def merge(
        self, partials: pa.Table | Mapping[str, pa.Array], codes: np.ndarray, groups: int
    ) -> dict[str, pa.Array]:
        """The partials of partials; one row per group."""
        return self._each(lambda name, kind: kind.merge(_parts(partials, name, kind), codes, groups))

    def negate(self, partials: pa.Table | Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Partials that take away what these add. Raises: TypeError unless `invertible`."""
        return self._each(lambda name, kind: kind.negate(_parts(partials, name, kind)))

    def finish(self, partials: pa.Table | Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """The results by name, of partials."""
        return {name: kind.finish(_parts(partials, name, kind)) for name, kind in self.kinds.items()}

    def running(
        self, partials: pa.Table | Mapping[str, pa.Array], segment: np.ndarray
    ) -> tuple[dict[str, pa.Array], Aggregates]:
        """The results through each row of its segment, of kinds with a shorter way than merging; and the other kinds."""
        found = {
            name: kind.running(_parts(partials, name, kind), segment) for name, kind in self.kinds.items()
        }
        others = {name: kind for name, kind in self.kinds.items() if found[name] is None}
        return {name: each for name, each in found.items() if each is not None}, replace(self, kinds=others)

    def _each(self, parts: Callable[[str, Kind], Mapping[str, pa.Array]]) -> dict[str, pa.Array]:
        return {
            f"__{name}_{suffix}": part
            for name, kind in self.kinds.items()
            for suffix, part in parts(name, kind).items()
        }


def spelling(schema: pa.Schema, name: str) -> str:
    """How a schema spells the name of a column: names are compared without case."""
    found: str = next(field.name for field in schema if field.name.lower() == name.lower())
    return found


def _kind(aggregate: Aggregate, inputs: pa.Schema) -> Kind:
    return KINDS[aggregate.kind](aggregate, *(_field(inputs, name) for name in aggregate.columns))


def _field(inputs: pa.Schema, name: str) -> pa.Field:
    """A column, without a dictionary."""
    column = spelling(inputs, name)
    of = inputs.field(column).type
    return pa.field(column, of.value_type if pa.types.is_dictionary(of) else of)


def _parts(partials: pa.Table | Mapping[str, pa.Array], name: str, kind: Kind) -> dict[str, pa.Array]:
    return {suffix: whole(partials[f"__{name}_{suffix}"]) for suffix in kind.fields}
