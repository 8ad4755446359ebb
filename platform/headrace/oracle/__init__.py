"""Each operator once more, in plain Python and record by record, short enough to read.

An oracle takes a node's description and the rows of its logs, and says what the node's table holds. It shares no code with
the kernel (`headrace.fold`), so that where both agree, neither has proved itself. It is slow: it is for tests, and for some
keys of a real lake (`headrace verify --oracle`).

Rows have passed the user's row-wise steps before: SQL computes these, in Spark, for the kernel and for an oracle alike.
"""

from headrace.oracle.log import Log, Results, Row
from headrace.oracle.results import changes, read_by, results

__all__ = ["Log", "Results", "Row", "changes", "read_by", "results"]
