"""The notebook of the documents runs from its first cell to its last, and shows what it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from headrace.spark.jars import jars_dir

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.broker
@pytest.mark.spark
def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_JARS", str(jars_dir()))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "platform"), str(ROOT)]))
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    read: Any = nbformat.read
    notebook = read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3")
    client.execute(cwd=str(tmp_path))
    said = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "execute_result"
    ]
    begun, none_yet, rows, late, proven = said
    assert begun.startswith("hr.local(): a Kafka broker at 127.0.0.1:")
    assert none_yet == "[]"
    assert "|a" in rows.replace(" ", "")  # frames print their rows, not their types
    assert "|3|7.0|" in rows.replace(" ", "")
    assert (late, proven) == ("1", "True")
