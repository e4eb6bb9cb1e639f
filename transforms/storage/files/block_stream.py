"""Raw streams that are read block by block, of local and remote files."""

import io
from abc import abstractmethod

from feedferry.schemas.span import FileSignature


class BlockStream(io.RawIOBase):
    """A raw stream over a function that returns its next block."""

    @abstractmethod
    def read_block(self, max_bytes: int, /) -> bytes:
        """Return at most `max_bytes` bytes, none at the end."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray", /) -> int:  # type: ignore[override]  # only these are passed
        block = self.read_block(len(buffer))
        buffer[: len(block)] = block
        return len(block)


class RemoteStream(BlockStream):
    """A raw stream of a remote file, which states its version."""

    @abstractmethod
    def signature(self) -> FileSignature:
        """Return the signature of the file; raise SourceError if it is removed."""
