"""The id of a batch: the position of its first record, which makes it unique, and its group, which helps people."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headrace.fold.contract import OFFSET, PARTITION, TOPIC
from headrace.fold.json_text import json_objects


def batch_ids(first: Mapping[str, pa.ChunkedArray], by: Mapping[str, pa.Array], *, plain: bool) -> pa.Array:
    """`topic/partition/offset/group`; the group as a JSON object, unless it is `plain`.

    In: first  TOPIC, PARTITION and OFFSET of each batch's first record
        by     its group columns
        plain  the group is the text of its only column
    """
    group = next(iter(by.values())).cast(pa.string()).fill_null("null") if plain else json_objects(by)
    numbers = (first[name].cast(pa.string()) for name in (PARTITION, OFFSET))
    return pc.binary_join_element_wise(first[TOPIC], *numbers, group, "/")
