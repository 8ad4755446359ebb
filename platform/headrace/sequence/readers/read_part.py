"""The result of reading the keys or the values of some records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.sequence.reasons import Reasons


@dataclass(frozen=True)
class ReadPart:
    """One row for each record.

    structs  null where there is nothing, and where it is malformed
    asked    address and id of schemas that a registry has to be asked for: what is read of their records does not count
    deleted  which records delete their key although they have a value; None: none do
    """

    structs: pa.StructArray
    asked: frozenset[tuple[str, int]] = frozenset()
    deleted: np.ndarray | None = None


Read = Callable[[pa.Array, Reasons], ReadPart]
