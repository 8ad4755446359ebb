"""Tables: the latest value of every key.

Law: a key's row is the maximum of its records by the table's order, a tombstone among them. A maximum does not depend on
how records were grouped, so neither do the rows.

- a micro-batch appends the latest record of each key that it touches, and reads nothing;
- these are folded into the table off the hot path; `read` merges what is not folded yet;
- where a later micro-batch may still bring an earlier record (order by timestamp, several topics), deletes are remembered
  beside the table, in the part `deleted`.
"""

from headrace.operators.tables.operator import TableOperator

__all__ = ["TableOperator"]
