"""Small JSON files, written atomically: to a local disk by renaming, elsewhere with Spark's checkpoint writer.

A local disk is looked at by Python: of a file that is not there the JVM makes an exception, and PySpark a hundred calls.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError

from headrace.spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


# Each is a copy of some hundred settings; a file system, once open, asks it for nothing any more.
_CONFS: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
_SYSTEMS: WeakKeyDictionary[SparkSession, dict[tuple[str, ...], tuple[Any, bool]]] = WeakKeyDictionary()
CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"


def _path(spark: SparkSession, uri: str) -> Any:
    return java_class(spark, "org.apache.hadoop.fs.Path")(uri)


def _hadoop_conf(spark: SparkSession) -> Any:
    if spark not in _CONFS:
        _CONFS[spark] = spark._jsparkSession.sessionState().newHadoopConf()
    return _CONFS[spark]


def _opened(spark: SparkSession, uri: str) -> tuple[Any, bool]:
    """The file system, and whether it is this machine's disk."""
    systems, root = _SYSTEMS.setdefault(spark, {}), urlsplit(uri)[:2]
    if root not in systems:
        system = _path(spark, uri).getFileSystem(_hadoop_conf(spark))
        systems[root] = system, system.getUri().getScheme() == "file"
    return systems[root]


def _file_system(spark: SparkSession, uri: str) -> Any:
    return _opened(spark, uri)[0]


def _here(spark: SparkSession, uri: str) -> Path | None:
    """Where it lies on this machine's disk; None: it lies elsewhere."""
    _, local = _opened(spark, uri)
    return local_path(uri) if local else None


def local_path(uri: str) -> Path:
    """Where a `file:` URI points to."""
    return Path(re.sub("^file:(//[^/]*)?", "", uri))


def exists(spark: SparkSession, uri: str) -> bool:
    """Whether a file or a folder is there."""
    here = _here(spark, uri)
    if here is not None:
        return here.exists()
    return bool(_file_system(spark, uri).exists(_path(spark, uri)))


def write_json(spark: SparkSession, uri: str, content: Any, *, overwrite: bool = True) -> bool:
    """Write one file whole or not at all.

    In:     overwrite  False: only if no such file exists (the basis of leases)
    Out:    False if the file existed and `overwrite` was False
    """
    here, text = _here(spark, uri), json.dumps(content, sort_keys=True).encode()
    if here is not None:
        return _written_locally(here, text, overwrite=overwrite)
    if not overwrite and exists(spark, uri):  # who is refused later leaves a hidden file behind
        return False
    path = _path(spark, uri)
    manager = java_class(spark, f"{CHECKPOINTING}.CheckpointFileManager").create(
        path.getParent(), _hadoop_conf(spark)
    )
    manager.mkdirs(path.getParent())
    try:
        stream = manager.createAtomic(path, overwrite)
        stream.write(bytearray(text))
        stream.close()
    except Py4JJavaError as error:
        if not overwrite and "FileAlreadyExistsException" in str(error.java_exception.getClass().getName()):
            return False
        raise
    return True


def _written_locally(path: Path, text: bytes, *, overwrite: bool) -> bool:
    """Write a local file in one step; False if it was there and is not to be overwritten.

    On a local disk Hadoop looks whether the file is there and then renames, so two that create it at once may both succeed;
    and it renames the file and its checksum one after the other, so that who reads meanwhile may find them unlike.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f".{path.name}.{uuid4()}.tmp")
    whole.write_bytes(text)
    try:
        if overwrite:
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            whole.replace(path)
        else:
            os.link(whole, path)
    except FileExistsError:
        return False
    finally:
        whole.unlink(missing_ok=True)
    return True


def read_json(spark: SparkSession, uri: str) -> Any | None:
    """The file's content, or None if there is no such file."""
    text = read_text(spark, uri)
    return None if text is None else json.loads(text)


def read_text(spark: SparkSession, uri: str) -> str | None:
    """The file's text (UTF-8), or None if there is no such file."""
    here = _here(spark, uri)
    if here is not None:
        try:
            return here.read_bytes().decode()
        except FileNotFoundError:
            return None
    try:
        stream = _file_system(spark, uri).open(_path(spark, uri))
    except Py4JJavaError as error:
        if "FileNotFoundException" in error.java_exception.getClass().getName():
            return None
        raise
    try:
        return str(java_class(spark, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
    finally:
        stream.close()


def delete(spark: SparkSession, uri: str) -> None:
    """Remove a file or a folder with all below it; nothing happens when there is none."""
    _file_system(spark, uri).delete(_path(spark, uri), True)


def names(spark: SparkSession, uri: str) -> list[str]:
    """The names directly below a folder, sorted, but hidden ones (with a dot first); empty when there is no such folder."""
    here = _here(spark, uri)
    if here is not None:
        try:
            found = os.listdir(here)
        except FileNotFoundError:
            return []
        return _shown(found)
    system, path = _file_system(spark, uri), _path(spark, uri)
    if not system.exists(path):
        return []
    return _shown(status.getPath().getName() for status in system.listStatus(path))


def _shown(found: Iterable[str]) -> list[str]:
    return sorted(name for name in found if not name.startswith("."))


def usage(spark: SparkSession, uri: str) -> tuple[int, int]:
    """How many files lie below a folder, however deep, and their bytes."""
    summary = _file_system(spark, uri).getContentSummary(_path(spark, uri))
    return int(summary.getFileCount()), int(summary.getLength())
