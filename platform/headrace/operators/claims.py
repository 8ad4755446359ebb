"""The claims that checks judge of a node's results, by the operators that make them."""

from __future__ import annotations

from collections.abc import Mapping

Claims = Mapping[str, str]  # by the name of the check, in the order in which they are judged

OF_ROWS: Claims = {"rows_are_unique": "The results hold one row for each identity."}
OF_WINDOWS: Claims = {
    "windows_are_final": "The results hold one row per group and window: nothing was emitted twice.",
    "late_drops_below": "Few of the records delivered came after every window of theirs had closed.",
}
OF_BATCHES: Claims = {
    "batches_within_limits": "No batch has more records or bytes, or was open for longer, than its description allows.",
    "no_batch_lost_or_repeated": (
        "Every record kept is in exactly one batch or in an open one, and each batch is there once, also in the sinks that "
        "can be read."
    ),
}
OF_OUTER_JOINS: Claims = {
    **OF_ROWS,
    "join_equals_recomputation": "Each row is the join of the left row and the right row that the node's state holds.",
}
# In a full outer join no row refers to another one.
OF_JOINS: Claims = {
    **OF_OUTER_JOINS,
    "no_orphans_above": "Few of the left rows refer to a right row that does not exist.",
}
OF_PAIRS: Claims = {
    **OF_ROWS,
    "late_drops_below": "Few of the records delivered came after the time in which they could have found a partner.",
}
LATE_FOR_ANY = "Few of the records delivered came too late to count."
UNANSWERED = "Few of the records have found no row of the table."
UNMATCHED = "Few of the rows are records that found no partner."
# Where two operators claim other things by one name, the later claim is the one on the page of checks.
OF_OPERATORS = (OF_PAIRS, {"no_unmatched_above": UNMATCHED}, OF_WINDOWS, OF_BATCHES, OF_JOINS)
