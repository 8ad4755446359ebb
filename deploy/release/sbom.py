"""The bill of materials of a release, as CycloneDX: Python packages of the image's lock, and the jars.

Usage: python deploy/release/sbom.py DESTINATION

Out:    a JSON document of CycloneDX 1.6: a component for each package and jar, with version, package URL and SHA-256
Notes:  both lists are what `make setup` verifies, so the document names what is installed. Licences are not in a lock.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "deploy" / "image" / "requirements.lock"
SUMS = ROOT / "deploy" / "jars" / "SHA256SUMS"
PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
JAR = re.compile(r"^(?P<name>.+?)-(?P<version>\d[\w.+-]*?)\.(?:jar|tar\.gz)$")


class Part(NamedTuple):
    """A package or a jar.

    In: digests  SHA-256 of the files that may be installed
    """

    kind: str
    name: str
    version: str
    digests: tuple[str, ...]


def packages(lock: str) -> Iterator[Part]:
    """The packages of a lock with hashes."""
    for block in re.split(r"\n(?=\S)", lock):
        if named := PACKAGE.match(block):
            yield Part("pypi", named[1].lower(), named[2], tuple(re.findall(r"sha256:([0-9a-f]{64})", block)))


def jars(sums: str) -> Iterator[Part]:
    """The jars of Spark, of the broker and of the registry, each once."""
    known: dict[str, Part] = {}
    for line in sums.splitlines():
        digest, path = line.split()
        file = path.rpartition("/")[2]
        named = JAR.match(file)
        name, version = (named["name"], named["version"]) if named else (file, "")
        known[digest] = Part("generic", name, version, (digest,))
    yield from known.values()


def document(parts: list[Part]) -> str:
    """The bill of materials as JSON."""
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion
    from packageurl import PackageURL

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bom = Bom()
    root = Component(name=project["name"], version=project["version"], type=ComponentType.APPLICATION)
    bom.metadata.component = root
    for part in parts:
        hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in part.digests]
        url = PackageURL(type=part.kind, name=part.name, version=part.version or None)
        component = Component(name=part.name, version=part.version, purl=url, bom_ref=str(url), hashes=hashes)
        bom.components.add(component)
    bom.register_dependency(root, bom.components)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)


def parts() -> list[Part]:
    """All that a release is made of."""
    return [*packages(LOCK.read_text(encoding="utf-8")), *jars(SUMS.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(document(parts()), encoding="utf-8")
    print(f"sbom: {len(parts())} components in {target}")
