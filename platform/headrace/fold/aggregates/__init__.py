"""Mergeable aggregates: partials of rows, merges of partials, and one value at the end.

Law (L9): `finish(merge(partials))` depends on the set of rows alone, not on how they were grouped into partials.

- count, sum, avg, variance and stddev form an abelian group: `negate` takes rows out again (L20);
- NaN is the highest number and -0.0 is 0.0 to minima and maxima; a sum that its type cannot hold is null;
- first, last and collect go by position in the log's order;
- count_distinct, approx_count_distinct and quantiles compare values as canonical keys do: one NaN, and -0.0 is 0.0;
- max_by, min_by and top go by a second column, and where that is equal by position.

A kind is a class with these operations (`kind.Kind`), and `table.KINDS` names them all.
"""

from headrace.fold.aggregates.kind import Inputs, Kind
from headrace.fold.aggregates.table import KINDS, Aggregates

__all__ = ["KINDS", "Aggregates", "Inputs", "Kind"]
