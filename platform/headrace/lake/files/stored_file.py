"""A file in an object store, as Python and Arrow read files."""

from __future__ import annotations

import io

from headrace.lake.files.byte_cache import ByteCache
from headrace.lake.storage import store_of

# Small files that this process has written to object stores, by URI: nearly always it is the one that reads them next. Names
# of data files are never used again.
SMALL_BYTES = 256 << 10
OWN_FILES: ByteCache[str, bytes] = ByteCache(16 << 20)


class StoredFile(io.RawIOBase):
    """A file in an object store. Each read is one request for a range of bytes, if it is none of `OWN_FILES`.

    In: uri   of the file
        size  in bytes; None: asked for, by one more request
    """

    def __init__(self, uri: str, size: int | None = None) -> None:
        """Nothing is read yet."""
        import obstore

        self._store, self._path = store_of(uri)
        self._own = OWN_FILES.get(uri)
        known = size if self._own is None else len(self._own)
        self._size = obstore.head(self._store, self._path)["size"] if known is None else known
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins, in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Say where the next read begins."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`; a negative number: all that are left."""
        import obstore

        end = self._size if size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        at, self._at = self._at, end
        if self._own is not None:
            return self._own[at:end]
        return bytes(obstore.get_range(self._store, self._path, start=at, end=end))
