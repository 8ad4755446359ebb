"""The members of a class that users call or read. The reference shows them, and the list of public names holds them.

Descriptions answer many questions of the platform: these answers are no part of the interface, whatever their names are.
"""

from __future__ import annotations

import inspect

# Classes of descriptions that hand their attributes to the code of users, or that users derive from.
READ = {
    *("BatchContext", "Context", "CorrectableSink", "DeliveredRow", "Delivery", "Preview", "Record", "Sink"),
    *("KeyValueStore", "ReadOnlyStore", "SessionStore", "WindowStore", "BatchStore"),
}
DESCRIPTIONS = ("headrace.description", "headrace.sinks")
# Questions of the platform to a description, its formats, sinks and aggregates.
INTERNAL = {
    *(
        "added_values",
        "check",
        "check_inputs",
        "closes",
        "columns",
        "event_time",
        "fingerprint",
        "how_to_type",
    ),
    *("identities", "key_columns", "property_type", "reached_by", "reader", "reader_schema", "reads_headers"),
    *("correct", "deliver", "records", "require_own_keys", "rules", "seconds", "value_columns"),
}


def members_of(described: type) -> list[str]:
    """The names of the members, sorted. Of a description's properties there is none: its parameters say them."""
    return [name for name, member in inspect.getmembers(described) if _is_shown(described, name, member)]


def _is_shown(described: type, name: str, member: object) -> bool:
    owner = next((each for each in described.__mro__ if name in vars(each)), object)
    if name.startswith("_") or not owner.__module__.startswith("headrace"):
        return False
    if not described.__module__.startswith(DESCRIPTIONS) or described.__name__ in READ:
        return True
    return inspect.isroutine(member) and name not in INTERNAL
