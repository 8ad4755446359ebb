"""Classes of the JVM, each looked up once.

A name asked of Py4J is a round trip and a reflection; a dotted one asks for every package on the way, which the JVM seeks
in all its jars. PySpark asks for the class `functions`, and then for the function, with every column expression: seven
hundred times in a small micro-batch, a seventh of its driver's time. A column by name, and a literal, it makes anew each
time; one that is kept does as well, for columns never change.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import SparkSession

# What PySpark asks for again and again, by the names that it uses.
FUNCTIONS = ("org.apache.spark.sql.functions", "functions")
OFTEN = (
    *FUNCTIONS,
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.classic.SparkSession",
)
KEPT, KEPT_MAX = ("col", "lit"), 4096  # of these functions the results, for so many arguments
PLAIN = (str, int, bool, type(None))  # of floats 0 and -0 are equal


class _Known:
    """A class of the JVM that remembers its static members."""

    def __init__(self, java_class: Any, kept: Collection[str] = ()) -> None:
        """In: kept  members that give for equal arguments what is as good as the same."""
        self._java_class, self._kept = java_class, kept

    def __call__(self, *arguments: Any) -> Any:
        return self._java_class(*arguments)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java_class, name)
        if name in self._kept:
            member = _kept(member)
        setattr(self, name, member)
        return member


def _kept(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @lru_cache(KEPT_MAX, typed=True)
    def known(argument: Any) -> Any:
        return function(argument)

    return lambda argument: known(argument) if isinstance(argument, PLAIN) else function(argument)


def java_class(spark: SparkSession, name: str) -> Any:
    """A class by its full name: to call, for an object, or to take static members of."""
    names = vars(spark._jvm)
    if not isinstance(names.get(name), _Known):
        names[name] = _Known(getattr(spark._jvm, name), KEPT if name in FUNCTIONS else ())
    return names[name]


def scala_seq(spark: SparkSession, *items: Any) -> Any:
    """A Scala `Seq` of these."""
    return java_class(spark, "PythonUtils").toSeq([*items])


def remember_often(spark: SparkSession) -> None:
    """Make PySpark find what it asks for most without asking the JVM."""
    for name in OFTEN:
        java_class(spark, name)
