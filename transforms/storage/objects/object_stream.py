"""An object as a stream that can be sought, by requests for ranges of one version of it."""

import errno
import io
import re

import obstore
from obstore.exceptions import BaseError

from feedferry.schemas.span import FileSignature
from feedferry.transforms.storage.files.block_stream import RemoteStream
from feedferry.transforms.storage.objects.requests import client_of, os_error, signature_of

FIRST_BYTES = 1 << 17
"""Bytes of the first request for an object, which show its format; later requests are larger."""
REQUEST_BYTES = 4 << 20
_NO_RANGE = re.compile("status code: 416|non-partial response")  # it may end before


class ObjectStream(RemoteStream):
    """An object as it was when it was opened, from an offset on; it can be sought.

    Raise FileNotFoundError without such an object, and another OSError if it cannot be read.
    """

    def __init__(self, bucket: str, key: str, offset: int = 0, *, uri: str = "") -> None:
        self._bucket = bucket
        self._key = key
        self._uri = uri or f"{bucket}/{key}"  # what errors show
        self._position = self._begin = offset
        self._request_bytes = FIRST_BYTES
        self._signature, self._block = self._request(offset, offset + FIRST_BYTES)

    def signature(self) -> FileSignature:
        return self._signature

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read_block(self, max_bytes: int) -> bytes:
        if self._position >= self._size:
            return b""
        if not self._begin <= self._position < self._begin + len(self._block):
            self._take_next()
        begin = self._position - self._begin
        block = bytes(self._block[begin : begin + max_bytes])
        self._position += len(block)
        return block

    @property
    def _size(self) -> int:
        return self._signature.size or 0

    def _take_next(self) -> None:
        """Request the bytes at the position: few after a seek, and more with each request."""
        is_after = self._position == self._begin + len(self._block)
        self._request_bytes = (
            min(8 * self._request_bytes, REQUEST_BYTES) if is_after else FIRST_BYTES
        )
        end = min(self._position + self._request_bytes, self._size)
        present, self._block = self._request(self._position, end)
        self._begin = self._position
        if present != self._signature:
            raise OSError(errno.EIO, "changed while it was read", self._uri)

    def _request(self, begin: int, end: int) -> tuple[FileSignature, memoryview]:
        """Return the present signature of the object, and its bytes in a range."""
        try:
            found, block = self._get(begin, end)
        except (BaseError, OSError, ValueError) as exc:
            raise os_error(exc, self._uri) from exc
        if begin + len(block) < min(end, found.size or 0):
            ended = f"the connection ended after {begin + len(block)} of {found.size} bytes"
            raise OSError(errno.EIO, ended, self._uri)
        return found, block

    def _get(self, begin: int, end: int) -> tuple[FileSignature, memoryview]:
        store = client_of(self._bucket)
        try:
            response = obstore.get(store, self._key, options={"range": (begin, end)})
            found, block = response.meta, memoryview(response.bytes())
        except BaseError as exc:
            if not _NO_RANGE.search(str(exc)):
                raise
            found, block = obstore.head(store, self._key), memoryview(b"")
            if found["size"] > begin:
                raise
        return signature_of(found["size"], found["last_modified"], found["e_tag"]), block
