"""Where the jars of Spark, of the local Kafka broker and of the local schema registry are, and the Java that runs them."""

from __future__ import annotations

import os
import shutil
from importlib.resources import files
from pathlib import Path

from headrace.errors import TerminalError

VARIABLE = "HEADRACE_JARS"
OFTEN_READ = ("spark-core_", "spark-sql_", "spark-catalyst_", "scala-library-")


class JarsMissing(TerminalError):
    """The jars are not where they should be, or Java is not; the hint says what to do."""


def project_root() -> Path:
    """Give the checkout that this package runs from, or the working directory when it is installed."""
    checkout = Path(__file__).resolve().parents[3]
    return checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()


def jars_dir() -> Path:
    """Give the folder of `spark/`, `broker/` and `registry/`: $HEADRACE_JARS, or `.headrace/jars` of the project."""
    named = os.environ.get(VARIABLE)
    return Path(named).absolute() if named else project_root() / ".headrace" / "jars"


def spark_jars() -> list[str]:
    """List what Spark loads besides PySpark's own jars: Delta, S3, and Spark's Kafka source for the benchmarks.

    Out:    absolute paths, in the order of their names.
    Raises: JarsMissing.
    """
    return _jars("spark")


def often_read_jars() -> list[str]:
    """List the jars of PySpark that most classes are read from, to stand first on a local driver's class path.

    Spark reads the class of each closure that it sends to tasks, in each job; the JVM seeks it in one jar after the other,
    of which there are three hundred.
    """
    home = os.environ.get("SPARK_HOME") or str(files("pyspark"))
    folder = Path(home, "jars")
    return [str(jar) for name in OFTEN_READ for jar in sorted(folder.glob(f"{name}*.jar"))]


def broker_classpath() -> str:
    """Compose the class path of a Kafka broker.

    Raises: JarsMissing.
    """
    return os.pathsep.join(_jars("broker"))


def registry_jar() -> str:
    """Give the program of the schema registry, which names its own class path.

    Raises: JarsMissing.
    """
    return _jars("registry")[0]


def iceberg_jar() -> str:
    """Give Spark's reader of Iceberg; only tests of the mirror use it.

    Raises: JarsMissing.
    """
    return _jars("iceberg")[0]


def java() -> str:
    """Give the Java that Spark would use too: the one of $JAVA_HOME, or the first on the path.

    Raises: JarsMissing when there is none.
    """
    home = os.environ.get("JAVA_HOME")
    named = str(Path(home, "bin", "java")) if home else "java"
    found = shutil.which(named)
    if found is None:
        raise JarsMissing(
            f"Java '{named}' is not there.", hint="Install a full JDK or JRE, 17 or 21, or set JAVA_HOME."
        )
    return found


def _jars(kind: str) -> list[str]:
    folder = jars_dir() / kind
    found = sorted(str(jar) for jar in folder.glob("*.jar"))
    if not found:
        raise JarsMissing(
            f"There are no jars in '{folder}'.",
            hint=f"Run `make setup` or `headrace fetch-jars`, or let {VARIABLE} name their folder.",
        )
    return found
