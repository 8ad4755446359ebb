"""Spark starts without its usual lines, and a line that matters reaches stderr."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headrace.spark.quiet_start import NOISE, _forward

PROGRAM = """
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, spark_conf
spark = build_session(spark_conf(spark_jars()))
spark._jvm.java.lang.System.err.println("a line that matters")
spark.stop()
"""


@pytest.mark.fast
def test_lines_that_are_no_noise_pass_in_their_order() -> None:
    lines = [b"first\n", *(b"26/11/28" + noise + b" and more\n" for noise in NOISE), b"last, without an end"]
    (reading, writing), (read_here, stderr) = os.pipe(), os.pipe()
    os.write(writing, b"".join(lines))
    os.close(writing)
    _forward(reading, stderr)
    with os.fdopen(read_here, "rb") as found:
        assert found.read() == b"first\nlast, without an end"


@pytest.mark.spark
@pytest.mark.long
def test_a_session_starts_without_a_line_of_its_own() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == "a line that matters\n"  # before: eight lines more
