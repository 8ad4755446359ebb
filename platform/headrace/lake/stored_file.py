"""A file in an object store, as Python and Arrow read files."""

from __future__ import annotations

import io

from headrace.lake.storage import store_of


class StoredFile(io.RawIOBase):
    """A file in an object store. Each read is one request for a range of bytes.

    In: uri   of the file
        size  in bytes; None: asked for, by one more request
    """

    def __init__(self, uri: str, size: int | None = None) -> None:
        """Nothing is read yet."""
        import obstore

        self._store, self._path = store_of(uri)
        self._size = obstore.head(self._store, self._path)["size"] if size is None else size
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
        found = bytes(obstore.get_range(self._store, self._path, start=self._at, end=end))
        self._at = end
        return found
