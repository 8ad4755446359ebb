"""Spark SQL expressions: typed when they are described, evaluated over Arrow columns, left to Spark where nothing is proven.

Law: a term gives for every row the type, the value (its bits) and the null that Spark gives in the session that Headrace
pins: ANSI mode off, time zone UTC. A function is evaluated here only if the differential test has compared it with Spark.
Source: Spark 4.1, `TypeCoercion`, `DecimalPrecision`, and the expressions of `catalyst`.
"""

from headrace.expressions.bind import term_of
from headrace.expressions.functions import spelled_for_sqlglot
from headrace.expressions.term import Rows, SparkNeededError, Term

__all__ = ["Rows", "SparkNeededError", "Term", "spelled_for_sqlglot", "term_of"]
