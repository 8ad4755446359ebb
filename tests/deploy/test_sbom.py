"""The bill of materials has each package of the lock and each jar, with its digests."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.docs.documents import ROOT

pytestmark = pytest.mark.fast
specification = importlib.util.spec_from_file_location("sbom", ROOT / "deploy" / "release" / "sbom.py")
assert specification is not None
assert specification.loader is not None
sbom = importlib.util.module_from_spec(specification)
specification.loader.exec_module(sbom)


def test_each_package_of_the_lock_is_a_component_with_its_digests() -> None:
    lock = sbom.LOCK.read_text(encoding="utf-8")
    parts = list(sbom.packages(lock))
    assert [part.name for part in parts] == [
        name.lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
    ]
    assert sum(len(part.digests) for part in parts) == lock.count("--hash=sha256:")


def test_each_jar_is_a_component_once_with_its_version() -> None:
    parts = list(sbom.jars(sbom.SUMS.read_text(encoding="utf-8")))
    digests = {line.split()[0] for line in sbom.SUMS.read_text(encoding="utf-8").splitlines()}
    assert {part.digests[0] for part in parts} == digests
    assert len(parts) == len(digests)
    assert all(part.version for part in parts)
