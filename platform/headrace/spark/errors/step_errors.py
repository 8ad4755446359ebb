"""Spark's message about an expression or a function that raised for a row. Other failures are told apart.

Exceptions that an expression throws or that a Python function raises are about a row. A lost executor or worker, a cancelled
job, an error of reading or writing, lack of memory, and a module that a worker lacks are not about a row. Those may pass.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

# Of the innermost cause: what Spark, its storage and its machines throw.
OF_MACHINES = (
    "java.io.",
    "java.net.",
    "java.nio.",
    "java.util.concurrent.",
    "java.lang.InterruptedException",
    "org.apache.hadoop.",
    "org.apache.spark.SparkException",
    "org.apache.spark.SparkFile",
    "org.apache.spark.TaskKilled",
    "org.apache.spark.memory.",
    "org.apache.spark.rpc.",
    "org.apache.spark.shuffle.",
    "org.apache.spark.storage.",
    "software.amazon.",
)
OF_DEEP_PATTERNS = "java.lang.StackOverflowError"
OF_WORKERS = (OSError, MemoryError, ImportError, EOFError, SystemError)
LINE_MAX = 300


def raised_for_a_row(error: BaseException) -> str | None:
    """The first line of what an expression or a function raised in a job; None if the failure is not of a row."""
    if not isinstance(error, PySparkException | Py4JJavaError):
        return None
    if isinstance(error, PythonException):
        return _by_python(str(error))
    chain = [*_chain(error)]
    if not chain or _is_of_machines(chain[-1]):
        return None
    return _first_line(next((told for cause in chain if (told := _message(cause))), str(chain[-1])))


def _by_python(text: str) -> str | None:
    """The line of a traceback that names the exception: the first line after the frames that is not indented."""
    lines = text.partition("JVM stacktrace:")[0].splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    after = lines[frames[-1] + 1 :] if frames else lines
    told = next((line for line in after if line.strip() and not line.startswith(" ")), "")
    name = told.partition(":")[0].strip().rpartition(".")[2]
    kind = getattr(builtins, name, None)
    of_worker = isinstance(kind, type) and issubclass(kind, OF_WORKERS)
    return None if not told or of_worker or name.endswith("PicklingError") else _first_line(told)


def _chain(error: Any) -> Iterator[JavaObject]:
    """The exception of the JVM and its causes, the innermost last."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else error._origin
    while cause is not None:
        yield cause
        cause = cause.getCause()


def _is_of_machines(cause: JavaObject) -> bool:
    kind = cause.getClass()
    is_error = False
    name = str(kind.getName())
    if name == OF_DEEP_PATTERNS:
        return False
    while kind is not None and not is_error:
        is_error, kind = str(kind.getName()) == "java.lang.Error", kind.getSuperclass()
    return is_error or name.startswith(OF_MACHINES)


def _message(cause: JavaObject) -> str:
    """Give the words of an exception; none, if it only says which task failed."""
    said = str(cause.getMessage() or "")
    if said.startswith("Job aborted"):
        return ""
    name = str(cause.getClass().getSimpleName())
    return said if not said or said.startswith("[") else f"{name}: {said}"


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - 1]}…"
