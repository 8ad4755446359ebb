"""Foreign-key joins of tables: each left row with the right row that it refers to.

Law (L16): the row of left key l is f(L(l), R(on(L(l)))), and L and R are functions of their own logs. A commit touches l if
it changes L(l), or R at the key that L(l) refers to; for all other l no argument of f has changed. The changes of a
commit are f of the rows before it and f of the rows after it, for the keys that it touches.

Steps: left changes go to the bucket of the key that they refer to, beside the right rows; changes of the join go back to
the bucket of the left key. A left row that moves to another right row leaves in one bucket and comes in another.
Source: Kafka Streams, KIP-213 (subscription and response).

A full outer join has the key of both sides, so its rows need no way back (see `outer_join`).
"""

from headrace.fold.joins.match_rows import ForeignKeyJoin
from headrace.fold.joins.orphans import orphans
from headrace.fold.joins.outer_join import OuterJoin
from headrace.fold.joins.refer import ByForeignKey

__all__ = ["ByForeignKey", "ForeignKeyJoin", "OuterJoin", "orphans"]
