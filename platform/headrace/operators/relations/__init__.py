"""Relations made of tables and of aggregates of streams: foreign-key joins, and aggregates over rows; both as of now.

Law: a row of a join is a function of the latest left row of its key and the latest right row of the key that it refers to; a
group is a function of the rows that are in it. Each of these is a function of its own topics' logs, so it does not matter
which was read first.

- of a join a micro-batch changes some rows of either side; touched are the left rows among them, and those that refer to
  a right key among them. Their results are computed anew from the current rows of both sides;
- of a group it changes the partial aggregates: those of the rows that came are added, of the rows that went subtracted;
- of an aggregate of a stream it merges partials into those held (see `totals`);
- it appends what has changed, of the sides and of the result, in one commit; of what is folded it takes only the rows
  that it touches;
- all of it is folded off the hot path: the result into the node's table, the sides into parts beside it.
"""

from headrace.operators.relations.operator import RelationOperator

__all__ = ["RelationOperator"]
