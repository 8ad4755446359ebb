"""Foreign-key joins: for each left row the right row that it refers to, both as of now.

Law: a result row is a function of the latest left row of its key and the latest right row of the key that it refers to;
each of these is a function of its own topics' logs, so it does not matter which side was read first.

- a micro-batch changes some rows of either side; touched are the left rows among them, and those that refer to a right key
  among them. Their results are computed anew from the current rows of both sides;
- it appends what has changed, of both sides and of the result, in one commit; of what is folded it takes only the rows
  that it touches;
- all of it is folded off the hot path: the result into the node's table, the sides into parts beside it.
"""

from headrace.operators.joins.operator import JoinOperator

__all__ = ["JoinOperator"]
