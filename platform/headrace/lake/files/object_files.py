"""Files in an object store, by obstore. Its runtime does not survive a fork, so each function imports it."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from headrace.errors import HeadraceError, TerminalError, TransientError
from headrace.lake.files.byte_cache import ByteCache
from headrace.lake.storage import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from obstore import ObjectMeta

LISTED = 500
TOKEN = "headrace-token"  # in an object's metadata: which attempt created it
# The small objects that this process has created, by URI: the ETag (empty if the answer was lost), and the content.
OWN_OBJECTS: ByteCache[str, tuple[str, bytes]] = ByteCache(32 << 20, 256 << 10)


@dataclass(frozen=True)
class ListedObject:
    """An object as a listing shows it.

    e_tag  the store's name for its content
    """

    uri: str
    e_tag: str

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.uri.rpartition("/")[2]


def exists(uri: str) -> bool:
    """True if there is an object of that name, or one below it."""
    import obstore

    with reaching(uri):
        try:
            obstore.head(*store_of(uri))
        except FileNotFoundError:
            return any(True for _ in _below(uri))
    return True


def read(uri: str) -> bytes:
    """An object's content.

    Raises: FileNotFoundError.
    """
    import obstore

    with reaching(uri):
        return bytes(obstore.get(*store_of(uri)).bytes())


def modified_ms(uri: str) -> int:
    """When an object was written, in ms since 1970 by the store's clock.

    Raises: FileNotFoundError.
    """
    import obstore

    with reaching(uri):
        return round(obstore.head(*store_of(uri))["last_modified"].timestamp() * 1000)


def overwrite(uri: str, content: bytes) -> None:
    """Write an object, whether there is one or not."""
    import obstore

    with reaching(uri), _bucket_of(uri):
        obstore.put(*store_of(uri), content, mode="overwrite")


def create(uri: str, content: bytes) -> bool:
    """Write an object if there is none; of several writers one succeeds.

    Out:    False if there was one. An answer that was lost counts: the object tells which attempt created it.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    token, e_tag = uuid4().hex, ""
    with reaching(uri), _bucket_of(uri):
        try:
            put = obstore.put(*store_of(uri), content, mode="create", attributes={TOKEN: token})
            e_tag = put["e_tag"] or ""
        except AlreadyExistsError:
            if _token(uri) != token:
                return False
        except BaseError:
            if _token(uri) != token:
                raise
    OWN_OBJECTS.put(uri, (e_tag, content), len(content))
    return True


def share_store(one: str, other: str) -> bool:
    """True if both lie in one bucket."""
    return store_of(one)[0] is store_of(other)[0]


def copy(source: str, target: str) -> None:
    """Copy an object within its bucket; its content does not pass through this process."""
    import obstore

    with reaching(source):
        store, path = store_of(source)
        obstore.copy(store, path, store_of(target)[1])


def delete(uri: str) -> None:
    """Remove an object and all below its name. Nothing happens when there is none."""
    import obstore

    store, path = store_of(uri)
    with reaching(uri):
        with suppress(FileNotFoundError):
            obstore.delete(store, path)
        for found in _below(uri):
            obstore.delete(store, [each["path"] for each in found])


def delete_each(uris: Sequence[str]) -> None:
    """Remove objects of one store, many with each request; those that are gone are passed over."""
    import obstore

    store, paths = store_of(uris[0])[0], [store_of(uri)[1] for uri in uris]
    with reaching(uris[0]):
        try:
            obstore.delete(store, paths)
        except FileNotFoundError:  # not of S3, which takes no notice
            for path in paths:
                with suppress(FileNotFoundError):
                    obstore.delete(store, path)


def names(uri: str) -> list[str]:
    """The names directly below a prefix."""
    import obstore

    with reaching(uri):
        listed = obstore.list_with_delimiter(*store_of(uri))
    paths = [each["path"] for each in listed["objects"]] + list(listed["common_prefixes"])
    return [path.rpartition("/")[2] for path in paths]


def names_below(uri: str) -> list[str]:
    """The paths of all objects below a prefix, from it on."""
    above = len(store_of(uri)[1]) + 1
    with reaching(uri):
        return [each["path"][above:] for some in _below(uri) for each in some]


def listed_after(uri: str, name: str) -> list[ListedObject]:
    """The objects directly below a prefix whose names come after another; without those that have no ETag."""
    import obstore

    store, path = store_of(uri)
    with reaching(uri):
        listed = obstore.list(store, path, offset=f"{path}/{name}", chunk_size=LISTED)
        return [
            ListedObject(f"{uri}/{found}", each["e_tag"])
            for some in listed
            for each in some
            if each["e_tag"] and "/" not in (found := each["path"][len(path) + 1 :])
        ]


def read_listed(listed: ListedObject) -> bytes:
    """The content of an object that a listing showed; of one that this process created, without a request if remembered.

    Raises: FileNotFoundError if it is gone, or is another one by now
    """
    import obstore
    from obstore.exceptions import PreconditionError

    e_tag, content = OWN_OBJECTS.get(listed.uri) or ("", b"")
    if e_tag == listed.e_tag:
        return content
    with reaching(listed.uri):
        try:
            return bytes(obstore.get(*store_of(listed.uri), options={"if_match": listed.e_tag}).bytes())
        except PreconditionError:
            raise FileNotFoundError(listed.uri) from None


def stands(listed: ListedObject) -> bool:
    """True if an object still is the one that a listing showed."""
    import obstore

    with reaching(listed.uri):
        try:
            return obstore.head(*store_of(listed.uri))["e_tag"] == listed.e_tag
        except FileNotFoundError:
            return False


def usage(uri: str) -> tuple[int, int]:
    """The number of objects below a prefix, and their bytes."""
    with reaching(uri):
        sizes = [each["size"] for found in _below(uri) for each in found]
    return len(sizes), sum(sizes)


@contextmanager
def reaching(uri: str) -> Iterator[None]:
    """Turn the errors of obstore into ours; the caller handles FileNotFoundError and AlreadyExistsError.

    Raises: TerminalError when the store refuses the credentials or has no such bucket; TransientError for the rest.
    """
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        yield
    except (AlreadyExistsError, FileNotFoundError):
        raise
    except BaseError as error:
        raise _named(uri, str(error)) from None


def _named(uri: str, message: str) -> HeadraceError:
    """Turn a store's error into ours. Its whole answer is left out: it names the key that was used."""
    code, status = re.search(r"<Code>(\w+)</Code>", message), re.search(r"status code: (\d+)", message)
    why = code[1] if code else f"HTTP {status[1]}" if status else None
    if code and code[1] == "NoSuchBucket":
        return _no_bucket(uri)
    if status and status[1] in ("401", "403"):
        return TerminalError(
            f"Storage '{uri}': the store refuses access ({why}).",
            hint="Give this process other credentials (AWS_ACCESS_KEY_ID, …, or a role), or allow it the bucket.",
        )
    reason = why or message.strip().partition("\n")[0]
    return TransientError(f"Storage '{uri}': the store did not do as asked ({reason}).")


@contextmanager
def _bucket_of(uri: str) -> Iterator[None]:
    """Name the bucket when a write finds none."""
    try:
        yield
    except FileNotFoundError:
        raise _no_bucket(uri) from None


def _no_bucket(uri: str) -> TerminalError:
    return TerminalError(
        f"Storage '{uri}': there is no such bucket.", hint="Create it, or correct the lake's root."
    )


def _token(uri: str) -> str | None:
    import obstore

    try:
        return str(obstore.get(*store_of(uri)).attributes.get(TOKEN))
    except FileNotFoundError:
        return None


def _below(uri: str) -> Iterator[Sequence[ObjectMeta]]:
    """The objects below a prefix, some hundred at a time."""
    import obstore

    store, path = store_of(uri)
    return iter(obstore.list(store, path, chunk_size=LISTED))
