"""The code server of `compose.yaml` runs outside a container: its command, and the one that asks whether it is well."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from headrace.local import lifeline
from headrace.local.broker_config import HOST, free_port

pytestmark = pytest.mark.dagster

ROOT = Path(__file__).resolve().parents[2]


def test_the_code_server_of_the_image_starts_with_the_command_of_compose_and_is_well(tmp_path: Path) -> None:
    service = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))["services"]["code"]
    port = str(free_port())
    here = {"4000": port, "0.0.0.0": HOST}
    command, asked = (
        [here.get(word, word) for word in words]
        for words in (service["command"], service["healthcheck"]["test"])
    )
    settings = {"HEADRACE_LAKE": f"file:{tmp_path}/lake", "DAGSTER_HOME": str(tmp_path)}
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | settings | {"PATH": path}
    server = lifeline.spawn(command, log=tmp_path / "code.log", env=environment, cwd=ROOT)
    try:
        deadline = time.monotonic() + 120
        while subprocess.run(asked[1:], env=environment, capture_output=True, check=False).returncode != 0:
            assert server.poll() is None, (tmp_path / "code.log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "code.log").read_text()
    finally:
        lifeline.stop(server)
