"""Data quality: claims about logs and results, judged by Great Expectations; the one place that knows it.

Law: a check states a fact about one snapshot of the tables. It writes nothing but its pages, and a stream
that runs meanwhile cannot make it fail.
"""

from headrace.quality.checks import check_log, check_node
from headrace.quality.results import (
    DEFAULT_THRESHOLDS,
    GUARD_CHECKS,
    LOG_CHECKS,
    CheckResult,
    Thresholds,
    log_checks,
    node_checks,
)

__all__ = [
    "DEFAULT_THRESHOLDS", "GUARD_CHECKS", "LOG_CHECKS", "CheckResult", "Thresholds",
    "check_log", "check_node", "log_checks", "node_checks",
]  # fmt: skip
