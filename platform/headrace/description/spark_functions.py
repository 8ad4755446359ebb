"""The functions that Spark has, so that a misspelt one is refused while a description is built.

Source: Spark 4.1.3, SHOW ALL FUNCTIONS; tests/runtime/test_refused_expressions.py asks Spark again.
"""

from __future__ import annotations

from headrace.description import functions
from headrace.description.function_arguments import ARGUMENTS

# Calls that Spark's grammar reads, and that are no functions of its registry.
OF_THE_GRAMMAR = frozenset({"identifier", "timediff", "timestampadd", "timestampdiff", "try_cast"})
# Those with a number of arguments, those that are refused, and the rest.
SPARK_FUNCTIONS = frozenset(ARGUMENTS).union(
    functions.AGGREGATES,
    functions.WINDOW_FUNCTIONS,
    functions.GENERATORS,
    functions.TIME_WINDOWS,
    functions.RUN_DEPENDENT,
    functions.RUN_DEPENDENT_WITHOUT_ARGUMENTS,
    functions.RUN_DEPENDENT_WORDS,
    functions.RAISES_ON_PURPOSE,
    functions.TRY_FORMS,
    functions.names_in("""
        and array arrays_zip between case cast char collations concat decimal div ilike in like map map_concat
        named_struct not or python_worker_logs range regexp rlike sql_keywords struct time variant_explode
        variant_explode_outer when
        """),
)
