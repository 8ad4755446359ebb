"""What deploy/ describes is valid, and names commands, files and settings that there are. No container engine is needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from dagster._config import validate_config

from headrace.cli.configuring import SECTIONS
from headrace.nodes.descriptions.topics import topics_of
from headrace.settings import load_pipeline
from headrace.sinks.kafka import KafkaSink

pytestmark = pytest.mark.fast

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = sorted((ROOT / "deploy" / "kubernetes").rglob("*.yaml"))
COMPOSE = ROOT / "deploy" / "compose.yaml"
BIN = Path(sys.executable).parent
IMAGE = re.compile(r"(^|/)headrace:")
VERSION = "1.33"  # of Kubernetes
# Read by other parts than `headrace.settings`.
OTHERS = {"HEADRACE_DOCS", "HEADRACE_DOCS_URL", "HEADRACE_CODE_HOST", "HEADRACE_POSTGRES_DSN"}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def described(kind: str) -> list[dict[str, Any]]:
    return [each for path in KUBERNETES for each in documents(path) if each["kind"] == kind]


def own_containers() -> Iterator[tuple[str, list[str]]]:
    """Each container of the project's image, with its command."""
    for name, service in documents(COMPOSE)[0]["services"].items():
        if IMAGE.search(service["image"]):
            yield f"compose {name}", service["command"]
    for deployment in described("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            yield f"kubernetes {container['name']}", container["args"]


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_kubernetes_knows_each_object_and_each_of_its_fields(path: Path) -> None:
    for each in documents(path):
        kubernetes_validate.validate(each, VERSION, strict=True)
        assert each["kind"] == "Namespace" or each["metadata"]["namespace"] == "headrace"


def test_compose_is_what_its_schema_allows() -> None:
    command = [str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_service_of_one_host_starts_again_and_says_whether_it_is_well() -> None:
    services = documents(COMPOSE)[0]["services"]
    assert all(service.get("restart") for service in services.values())
    unwatched = {name for name, service in services.items() if "healthcheck" not in service}
    assert unwatched == {"spark-worker", "topics", "check", "report"}


@pytest.mark.parametrize(("where", "command"), list(own_containers()), ids=lambda value: str(value)[:30])
def test_the_image_has_each_command_and_the_file_that_it_names(where: str, command: list[str]) -> None:
    assert shutil.which(command[0], path=str(BIN)), f"{where}: {command[0]}"
    for word in command:
        if word.endswith(".py"):
            assert (ROOT / word).is_file(), f"{where}: {word}"
        if word.startswith("/opt/headrace/"):
            assert f"COPY deploy/image/{Path(word).name} /opt/headrace/" in dockerfile(), f"{where}: {word}"


def dockerfile() -> str:
    return (ROOT / "deploy/image/Dockerfile").read_text(encoding="utf-8")


def test_containers_are_given_settings_that_there_are() -> None:
    known = {
        f"{section.model_config.get('env_prefix', '')}{name}".upper()
        for section in SECTIONS
        for name in section.model_fields
    }
    text = "\n".join(path.read_text(encoding="utf-8") for path in [COMPOSE, *KUBERNETES])
    given = set(re.findall(r"\bHEADRACE_[A-Z_]+\b", text))
    assert given - OTHERS - known == set()


@pytest.mark.slow
def test_on_kubernetes_dagsters_instance_is_the_same_but_for_the_launcher() -> None:
    (config_map,) = [
        each for each in described("ConfigMap") if each["metadata"]["name"] == "dagster-instance"
    ]
    instance = yaml.safe_load(config_map["data"]["dagster.yaml"])
    launcher = instance.pop("run_launcher")
    assert instance == yaml.safe_load((ROOT / "deploy/dagster.yaml").read_text(encoding="utf-8"))
    assert (launcher["module"], launcher["class"]) == ("dagster_k8s", "K8sRunLauncher")
    described_by: Any = import_module(launcher["module"])
    checked = validate_config(described_by.K8sRunLauncher.config_type(), launcher["config"])
    assert checked.success, checked.errors
    assert instance["run_monitoring"]["max_resume_run_attempts"] == 0


def test_a_pod_that_has_the_reports_folder_may_write_there_and_executors_belong_to_their_run() -> None:
    (config_map,) = [
        each for each in described("ConfigMap") if each["metadata"]["name"] == "dagster-instance"
    ]
    runs = yaml.safe_load(config_map["data"]["dagster.yaml"])["run_launcher"]["config"]["run_k8s_config"]
    ours = {"run_as_user": 10001, "run_as_non_root": True, "fs_group": 10001}
    assert runs["pod_spec_config"]["security_context"] == ours, "as the image's user, with the volume's group"
    for deployment in described("Deployment"):
        context = deployment["spec"]["template"]["spec"]["securityContext"]
        assert (context["runAsUser"], context["fsGroup"]) == (10001, 10001)
    named = {
        each["name"]: each["value_from"]["field_ref"]["field_path"]
        for each in runs["container_config"]["env"]
    }
    assert named == {
        "HEADRACE_SPARK_DRIVER_HOST": "status.podIP",
        "HEADRACE_SPARK_DRIVER_POD": "metadata.name",
    }


def test_compose_makes_each_topic_that_its_check_looks_for() -> None:
    made = documents(COMPOSE)[0]["services"]["topics"]["environment"]["TOPICS"].split()
    nodes = load_pipeline("assets")
    asked = set(topics_of(nodes)) | {
        sink.topic for node in nodes for sink in node.sinks if isinstance(sink, KafkaSink)
    }
    assert set(made) == asked


def test_kubernetes_is_given_what_compose_is_but_for_what_each_has_of_its_own() -> None:
    """A database of a sink was missing, so the check before the code server never ended well."""
    given = {
        name
        for each in (*described("ConfigMap"), *described("Secret"))
        for name in {**each.get("data", {}), **each.get("stringData", {})}
    }
    of_compose = set(documents(COMPOSE)[0]["x-headrace"]["environment"])
    sizes = {name for name in of_compose if name.startswith("HEADRACE_SPARK_")}
    by_role = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"}
    assert of_compose - given - sizes - by_role == set()


def test_the_entrypoint_runs_commands_and_starts_executors_of_spark() -> None:
    script = ROOT / "deploy/image/entrypoint.sh"
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
    assert "KubernetesExecutorBackend" in script.read_text(encoding="utf-8")
    assert 'ENTRYPOINT ["/opt/headrace/entrypoint.sh"]' in dockerfile()


def entrypoint(tmp_path: Path, *arguments: str, **variables: str) -> str:
    """What the image's entry point runs: `tini` and `java` are written here, and print what they are given."""
    for program, text in (("tini", 'shift\nexec "$@"'), ("java", 'printf "%s\\n" java "$@"')):
        stand_in = tmp_path / program
        stand_in.write_text(f"#!/bin/sh\n{text}\n")
        stand_in.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(BIN), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", str(ROOT / "deploy/image/entrypoint.sh"), *arguments],
        env={"PATH": path, "HEADRACE_JARS": "/opt/headrace/jars", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_entry_point_runs_commands_and_begins_an_executor_where_spark_on_kubernetes_asks_for_one(
    tmp_path: Path,
) -> None:
    assert entrypoint(tmp_path, "python", "-c", "print('ran')") == "ran\n"
    told = {
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "headrace-exec-3",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
    }
    words = entrypoint(tmp_path, "executor", **told).splitlines()
    main = words.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    assert words[:4] == ["java", "-Dspark.driver.port=7078", "-Xms1g", "-Xmx1g"]
    jars = words[main - 1].split(":")
    assert jars[-1] == "/opt/headrace/jars/spark/*"
    assert list(Path(jars[-2].removesuffix("*")).glob("spark-kubernetes_*.jar")), (
        "the class is in PySpark's own"
    )
    given = dict(zip(words[main + 1 :: 2], words[main + 2 :: 2], strict=True))
    assert given["--driver-url"] == told["SPARK_DRIVER_URL"]
    assert (given["--hostname"], given["--podName"]) == ("10.0.0.7", "headrace-exec-3")
