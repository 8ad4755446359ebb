"""The needs of a deployment from outside, tried before anything starts: Kafka, the lake, Spark, databases.

Each part gives findings: what was tried, whether it is as it should be, and if not, what to do. Only the lake is written
to: one small file, which is removed.
"""

from headrace.preflight.finding import Finding
from headrace.preflight.run import check_configuration

__all__ = ["Finding", "check_configuration"]
