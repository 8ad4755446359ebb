"""Spark: whether its master can be reached, and whether this process can run a driver."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from typing import TYPE_CHECKING

from headrace.errors import TerminalError, TransientError
from headrace.preflight.finding import tried
from headrace.spark.jars import JarsMissing, java, spark_jars
from headrace.spark.session import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.preflight.finding import Finding
    from headrace.settings import SparkSettings

SECONDS = 5.0
PORTS = {"spark": 7077, "https": 443, "http": 80}


def check_spark(settings: SparkSettings) -> Iterator[Finding]:
    """Look for Java, for the jars and for the master."""
    yield tried("Java", _java)
    yield tried("Spark's jars", lambda: _jars(settings.master))
    yield tried(f"Spark master {settings.master}", lambda: _master(settings.master))


def _java() -> str:
    program = java()
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found[1]) not in (17, 21):
        raise TerminalError(
            f"Java '{program}' is of version {found[1] if found else 'unknown'}.",
            hint="Install a full JDK or JRE, 17 or 21, and set JAVA_HOME.",
        )
    return f"version {found[1]}"


def _jars(master: str) -> str:
    try:
        return f"{len(spark_jars())} beside PySpark's own"
    except JarsMissing:
        if is_local(master):
            raise
        return "none here, so the cluster has to have Delta's and Kafka's"


def _master(master: str) -> str:
    if is_local(master) or master.startswith("local-cluster["):
        return "this machine"
    if master == "yarn":
        folder = os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")
        if not folder:
            raise TerminalError(
                "YARN's configuration is not named.", hint="Set HADOOP_CONF_DIR to its folder."
            )
        return f"as {folder} says"
    url = re.fullmatch(r"(?:k8s://)?(\w+)://([^/]+?)/?", master)
    if url is None or url[1] not in PORTS:
        raise TerminalError(
            f"Spark has no master of the form '{master}'.",
            hint="Set HEADRACE_SPARK_MASTER to local[2], spark://host:7077, k8s://https://host:443 or yarn.",
        )
    refused: dict[str, str] = {}
    for each in url[2].split(","):  # one of several masters leads, and the others stand by
        host, _, given = each.partition(":")
        address = f"{host}:{given or PORTS[url[1]]}"
        try:
            socket.create_connection((host, int(given or PORTS[url[1]])), SECONDS).close()
        except (OSError, ValueError, OverflowError) as error:
            refused[address] = str(error)
        else:
            return f"{address} answers"
    raise TransientError(
        f"Nothing answers at {' or '.join(refused)}.",
        detail="; ".join(sorted(set(refused.values()))),
        hint="Start the master, or correct HEADRACE_SPARK_MASTER.",
    )
