"""How much a sink takes in a second."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.description.ways_on import explained_call
from headrace.description.wording import a_value
from headrace.errors import DescriptionError


@explained_call
@dataclass(frozen=True)
class Quota:
    """The rows and bytes a second that a sink takes on average: `hr.KafkaSink("out", quota=hr.Quota(rows_per_second=500))`.

    In:     bytes_per_second  of the rows as Parquet; None, as for rows: no bound
    Law:    a full quota drops nothing and changes no row. A micro-batch is delivered whole; the node's next one begins when
            the quota has room again, so it takes all records that came meanwhile.
    Raises: DescriptionError for a number that is not above 0, and without any
    """

    rows_per_second: float | None = None
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        bounds = {"rows_per_second": self.rows_per_second, "bytes_per_second": self.bytes_per_second}
        for name, bound in bounds.items():
            if bound is not None and (
                isinstance(bound, bool) or not isinstance(bound, int | float) or not bound > 0
            ):
                raise DescriptionError(f"Quota: {name} {a_value(bound)} is no number above 0.")
        if all(bound is None for bound in bounds.values()):
            raise DescriptionError(
                "Quota: there is no bound.", hint="Write for example hr.Quota(rows_per_second=500)."
            )

    def seconds(self, rows: int, size_bytes: int) -> float:
        """How long a delivery fills the quota."""
        of_rows = 0.0 if self.rows_per_second is None else rows / self.rows_per_second
        of_bytes = 0.0 if self.bytes_per_second is None else size_bytes / self.bytes_per_second
        return max(of_rows, of_bytes)


def quota_of(sink: object) -> Quota | None:
    """The quota of a sink; None: it has none."""
    quota = getattr(sink, "quota", None)
    return quota if isinstance(quota, Quota) else None


def check_quota(quota: object, what: str) -> None:
    """Raise DescriptionError when this is neither a quota nor None."""
    if quota is not None and not isinstance(quota, Quota):
        raise DescriptionError(
            f"{what}: quota {a_value(quota)} is no quota.", hint="Write quota=hr.Quota(rows_per_second=500)."
        )
