"""Files of lines that are too long for the memory: lines are read again when they are needed."""

import os
import weakref
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

_BLOCK_BYTES = 1 << 20
_LINE_BYTES = 1 << 12


class LineFile:
    """Reads the lines of a file, which is opened by the first read and stays open.

    So it reads the same lines after the file is replaced or removed. Safe from several threads.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        """Yield all lines, without their ends."""
        rest = b""
        offset = 0
        while block := os.pread(self._file, _BLOCK_BYTES, offset):
            offset += len(block)
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
        if rest:
            yield rest

    def line_at(self, offset: int) -> bytes:
        """Return the line that begins at an offset, without its end."""
        line, size = b"", _LINE_BYTES
        while block := os.pread(self._file, size, offset + len(line)):
            head, end, _ = block.partition(b"\n")
            line += head
            if end:
                break
            size = _BLOCK_BYTES
        return line

    @cached_property
    def _file(self) -> int:
        file = os.open(self._path, os.O_RDONLY)
        weakref.finalize(self, os.close, file)
        return file
