"""Bounds that are global: what waits in a partition is judged over all buckets, before anything is committed.

Law: sizes after a log commit follow from the log. The bound is the one that is in force at the end of the micro-batch, so a
person who raises it lets a stream that is full go on from where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from headrace.description import WindowedAggregate
from headrace.description.limits import limited, policy_of
from headrace.description.suppression import Policy
from headrace.engine.fold_increment import FoldResult
from headrace.engine.operators import NodeOperator
from headrace.errors import TerminalError
from headrace.fold.bounds import Sizes, judge
from headrace.fold.contract import Times
from headrace.fold.open_sizes import SIZES
from headrace.fold.sessions import Sessions
from headrace.fold.sliding import SlidingWindows
from headrace.fold.time_limits import TimeLimit
from headrace.fold.time_limits.count_waiting import WAITING
from headrace.fold.time_limits.limits_in_force import limits_of_node
from headrace.fold.windows import Windows


def judged(
    operator: NodeOperator, result: FoldResult, times: Times, sizes: Sizes
) -> tuple[Sizes, TerminalError | None]:
    """How much waits after an increment, and why the stream has to stop before it commits anything.

    In:  times  with the limits that were set before the increment
         sizes  how much waited before it
    Out: no sizes without a bound that needs them. Nothing would be taken away from them as windows close, so a bound that is
         described again would count windows that are gone
    """
    match operator.kernel:
        case Windows(bounded=True) | SlidingWindows(bounded=True) | Sessions(bounded=True):
            policy = _last_policy(operator, times.limits)
            name = operator.node.required_name
            return judge(sizes, result.outputs.get(SIZES, ()), lambda _: policy.bound, name, "open windows")
        case TimeLimit():
            waiting = result.outputs.get(WAITING)
            refusal = operator.kernel.refusal(pa.concat_tables(waiting), times) if waiting else None
            return {}, refusal
    return {}, None


def _last_policy(operator: NodeOperator, rows: Iterable[tuple[int, str]]) -> Policy:
    """The policy after control rows. Limits that it cannot have alter nothing."""
    node = operator.node
    assert isinstance(node, WindowedAggregate)
    set_here = (limits_of_node(said, node.required_name) for _, said in rows)
    return limited(policy_of(node), (limits for limits in set_here if limits is not None))
