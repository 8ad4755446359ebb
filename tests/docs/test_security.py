"""The page on security lists all that listens: servers in the code, ports of the deployments, and bounded addresses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

pytestmark = pytest.mark.fast
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
SERVERS = {
    "start_http_server",
    "ThreadingHTTPServer",
    "HTTPServer",
    "TCPServer",
    "create_server",
    "start_server",
}

# The modules that open a server, or start a program that does, each with the words of its row.
LISTENS = {
    "observe/metrics.py": "`HEADRACE_METRICS_PORT`",
    "local/demos/report.py": "the quality report",
    "local/development/dev.py": "Dagster's UI in `headrace dev`",
    "local/servers/dagster_ui.py": "Dagster's UI in `headrace dev`",
    "local/servers/broker.py": "broker, registry",
    "local/schema_registry.py": "broker, registry",
    "local/object_store.py": "S3 server",
    "local/postgres.py": "PostgreSQL",
    "local/servers/server.py": "S3 server",
    "local/spark_cluster.py": "Spark master",
}


def calls(path: Path) -> set[str]:
    """The names of the functions and methods that a module calls."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    }


def modules(*parts: str) -> dict[str, Path]:
    package = ROOT / "platform" / "headrace"
    return {
        path.relative_to(package).as_posix(): path
        for part in parts
        for path in (package / part).rglob("*.py")
    }


def test_each_server_of_the_code_is_on_the_page() -> None:
    opened = {name for name, path in modules("").items() if calls(path) & SERVERS}
    assert opened
    assert not opened - LISTENS.keys(), "add it to SECURITY.md, and here"


def test_each_program_with_a_port_is_on_the_page() -> None:
    started = {name for name, path in modules("local").items() if calls(path) & {"Popen"}}
    ports = {
        name for name in started if re.search(r"\bport\b", modules("local")[name].read_text(encoding="utf-8"))
    }
    assert not ports - LISTENS.keys(), "add it to SECURITY.md, and here"
    assert not [name for name, words in LISTENS.items() if words not in PAGE]
    assert not LISTENS.keys() - modules("").keys()


@pytest.mark.parametrize("path", sorted((ROOT / "deploy").rglob("*.yaml")), ids=lambda path: path.name)
def test_each_port_of_a_deployment_is_on_the_page(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    published = re.findall(r'"((?:[\d.]+:)?\d+:(\d+))"', text)
    ports = {port for _, port in published} | set(re.findall(r"containerPort: (\d+)", text))
    assert not [port for port in ports if not re.search(rf"\b{port}\b", PAGE)]
    assert not [where for where, _ in published if not where.startswith("127.0.0.1:")]
