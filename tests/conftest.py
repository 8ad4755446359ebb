"""What the tests share: one Spark session for the process, and how many examples the laws try."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from jinja2 import BytecodeCache, Environment
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from headrace.lake.storage import hadoop_settings
from headrace.local.object_store import BUCKET
from headrace.local.servers.broker_config import HOST, free_port
from headrace.spark.jars import spark_jars
from headrace.spark.session import build_session, pipeline_session, spark_conf
from headrace.testing import TestDriver
from tests.expressions.both_ways import write_both
from tests.watched_store import WatchedStore

if TYPE_CHECKING:
    from jinja2.bccache import Bucket
    from pyspark.sql import SparkSession

    from headrace.description import Node

if folder := os.environ.get("HEADRACE_BOTH_WAYS"):
    write_both(Path(folder))

# `CI` decides the profile; HEADRACE_EXAMPLES says how many random worlds each law is tried in.
COMMON: dict[str, Any] = {
    "max_examples": int(os.environ.get("HEADRACE_EXAMPLES", "4")),
    "deadline": None,
    "print_blob": True,
    # A world takes a minute to live through, and shrinking it takes hundreds: what failed is printed as it is.
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
}
settings.register_profile("local", settings(**COMMON))
settings.register_profile("ci", settings(**COMMON, database=None, derandomize=True))
settings.load_profile("ci" if os.environ.get("CI") else "local")

# The quick compiler alone is twice as fast for minutes, if what it compiles has room; and so have young objects and classes.
OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    "-Xms1500m -XX:NewSize=640m -XX:MetaspaceSize=512m"
)
# Nobody looks at plans: Spark writes each for its listeners before a job begins, and by default each operator with its columns.
SHORT_LIVED = {"spark.driver.extraJavaOptions": OPTIONS, "spark.sql.ui.explainMode": "simple"}


# A script's background ignores SIGINT, and so would every process of tests, of which some are interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test sees a power cut: without this, every fourth second of the fast ones goes by in waiting for the disk.
pytest.MonkeyPatch().setattr(os, "fsync", lambda _: None)

# Tests write hundreds of thousands of small files: in memory, where there is room, each takes a tenth of the time.
MEMORY, ROOM_BYTES = Path("/dev/shm"), 8 << 30


class _Compiled(BytecodeCache):
    """What templates were compiled to, by their place and content."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Any] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """See `BytecodeCache`."""
        bucket.code = self._kept.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """See `BytecodeCache`."""
        self._kept[bucket.key, bucket.checksum] = bucket.code


COMPILED, MADE = _Compiled(), Environment.__init__


def _keep_compiled(environment: Environment, *given: Any, **named: Any) -> None:
    MADE(environment, *given, **named)
    environment.bytecode_cache = environment.bytecode_cache or COMPILED


# Great Expectations compiles its templates anew for each report: a fifth of what a check of a small table takes.
pytest.MonkeyPatch().setattr(Environment, "__init__", _keep_compiled)


def _has_room(folder: Path) -> bool:
    """Whether files of tests fit there, and programs among them run."""
    if not os.access(folder, os.W_OK) or disk_usage(folder).free < ROOM_BYTES:
        return False
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and _has_room(MEMORY):
    os.environ |= {"TMPDIR": str(MEMORY), "SPARK_LOCAL_DIRS": str(MEMORY)}
    tempfile.tempdir = None

# Files of minutes, of which any worker can take any test.
TEST_BY_TEST = {f"tests/lives/{name}.py" for name in ("test_lives", "test_whole_lives")}

# A test so marked waits for processes of its own: brokers, servers, stream runs.
WAITING = ("broker", "dagster", "postgres", "browser", "s3")

# Spark's JVM and the processes of tests see the environment that they start with: so it names the S3 server before that
# starts, and never one that a developer uses.
for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]
S3_CREDENTIALS = (secrets.token_hex(10).upper(), secrets.token_urlsafe(30))
S3_PORT, ICEBERG_PORT = free_port(), free_port()
os.environ |= {
    "AWS_ACCESS_KEY_ID": S3_CREDENTIALS[0],
    "AWS_SECRET_ACCESS_KEY": S3_CREDENTIALS[1],
    "AWS_ENDPOINT_URL": f"http://{HOST}:{S3_PORT}",
    "AWS_REGION": "us-east-1",
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m "fast…"` imports no file without a fast test: the others bring Dagster, brokers and Great Expectations."""
    if config.option.markexpr.startswith("fast") and collection_path.match("test_*.py"):
        return ("mark.fast" not in collection_path.read_text()) or None
    return None


def pytest_collection_finish() -> None:
    """Imported objects stay, so the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that compute stand beside files that mostly wait, those of minutes first; what takes milliseconds comes last.

    Workers take files in this order: so a core is seldom idle, and no worker begins a long file when the others end.
    """
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    kinds: dict[str, list[list[pytest.Item]]] = defaultdict(list)
    for tests in sorted(files.values(), key=lambda tests: not _any(tests, "slow")):
        kinds[_kind(tests)].append(tests)
    nothing: list[pytest.Item] = []
    pairs = zip_longest(kinds["computing"], kinds["waiting"], fillvalue=nothing)
    items[:] = chain(*chain(*pairs), *kinds["fast"])


class _Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """A worker takes a file; of files whose tests share nothing it takes one test after the other."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return nodeid if file in TEST_BY_TEST else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """So two workers share what takes minutes in one file."""
    return _Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def _kind(tests: list[pytest.Item]) -> str:
    if all(test.get_closest_marker("fast") for test in tests):
        return "fast"
    return "waiting" if _any(tests, *WAITING) else "computing"


def _any(tests: list[pytest.Item], *markers: str) -> bool:
    """True if a test of a file has one of these markers."""
    return any(test.get_closest_marker(name) for test in tests for name in markers)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """With `--durations` also the files that take longest, fixtures included: a file is what a worker takes."""
    shown = terminalreporter.config.option.durations
    if shown is None:
        return
    seconds: dict[str, float] = defaultdict(float)
    for report in chain(*terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    slowest = sorted(seconds, key=lambda file: -seconds[file])[: shown or None]
    terminalreporter.write_sep("=", f"slowest {len(slowest)} files of {sum(seconds.values()):.0f} s")
    for file in slowest:
        terminalreporter.write_line(f"{seconds[file]:.1f} s {file}")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The process's Spark session; Java is neither generated nor compiled for a few rows.

    Processes of tests do generate it: streams that are killed, demos, the cluster.
    """
    conf = spark_conf(spark_jars()) | SHORT_LIVED | hadoop_settings(f"s3://{BUCKET}")
    session = build_session(conf, "headrace-tests")
    yield pipeline_session(session, interpreted=True)
    session.stop()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedStore]:
    """The process's S3 server; the environment names it."""
    folder = tmp_path_factory.mktemp("s3")
    with WatchedStore(folder, S3_PORT, S3_CREDENTIALS, ICEBERG_PORT) as running:
        yield running


@pytest.fixture
def s3_root(object_store: WatchedStore) -> str:
    """The root of a lake on S3, empty and this test's alone."""
    object_store.start().wait_ready()
    return f"{object_store.root}/{secrets.token_hex(4)}"


Drive = Callable[..., TestDriver]


@pytest.fixture
def drive(request: pytest.FixtureRequest) -> Iterator[Drive]:
    """Start test drivers for nodes, and close them after the test. Only tests with the mark `spark` may need Spark."""
    session = request.getfixturevalue("spark") if request.node.get_closest_marker("spark") else None
    drivers: list[TestDriver] = []

    def start(*nodes: Node) -> TestDriver:
        drivers.append(TestDriver(nodes, session))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


@pytest.fixture(autouse=True)
def _no_session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast test starts no Spark."""
    if request.node.get_closest_marker("fast"):
        monkeypatch.setattr("headrace.spark.on_demand.build_session", _refuse_session)


def _refuse_session(*_: object) -> None:
    raise AssertionError("a test with the mark `fast` starts Spark")
