"""The names of one folder in the order of keys, however many they are."""

import enum
import heapq
import os
import tempfile
from collections.abc import Iterator
from itertools import islice
from typing import IO, NamedTuple

from schemas.errors import FatalError
from transforms.sources.tree.patterns import described_by

RUN_NAMES = 20_000
"""So many names are sorted in memory; beyond that they wait in a temporary file."""

_BLOCK_BYTES = 1 << 14


class Is(enum.Enum):
    """What a name is of; whether what is taken for a file is one, is only told by its status."""

    FILE = "f"
    FOLDER = "d"
    LINK = "l"
    UNNAMED = "u"


class Name(NamedTuple):
    r"""A name as it stands in a key: that of a folder with a `/` at its end.

    One that is not UTF-8 is UNNAMED, and its bytes are written as `\xff`.
    """

    text: str
    kind: str  # the value of an `Is`, whose members have no order


class Names(Iterator[Name]):
    """The names of a folder, all read, in the order of their UTF-8 bytes; to be closed."""

    def __init__(self, names: Iterator[Name], *, run_names: int) -> None:
        self.has_sidecars = False
        self._stream: IO[bytes] | None = None
        try:
            self._ordered = self._in_order(names, run_names)
        except BaseException:
            self.close()
            raise

    def __next__(self) -> Name:
        return next(self._ordered)

    def close(self) -> None:
        """Give back the temporary file, if there is one."""
        if self._stream is not None:
            self._stream.close()

    def _in_order(self, names: Iterator[Name], run_names: int) -> Iterator[Name]:
        run = self._run(names, run_names)
        if len(run) < run_names:
            return iter(run)
        places = []
        while run:
            places.append(self._spill(run))
            run = self._run(names, run_names)
        return heapq.merge(*(self._unspill(*place) for place in places))

    def _run(self, names: Iterator[Name], run_names: int) -> list[Name]:
        run = sorted(islice(names, run_names))
        self.has_sidecars |= any(described_by(name.text) is not None for name in run)
        return run

    def _spill(self, run: list[Name]) -> tuple[int, int]:
        """Write a run, each name behind its kind and before a NUL, which no name has in it."""
        try:
            if self._stream is None:
                self._stream = tempfile.TemporaryFile()  # noqa: SIM115 # closed by close
            begin = self._stream.tell()
            self._stream.writelines(f"{name.kind}{name.text}\0".encode() for name in run)
            return begin, self._stream.tell()
        except OSError as exc:
            reason = f"{tempfile.gettempdir()}: {exc.strerror}; expected to write there"
            raise FatalError(reason) from exc

    def _unspill(self, begin: int, end: int) -> Iterator[Name]:
        """Yield a run from what was written, block by block, in turns with other runs."""
        rest = b""
        while self._stream is not None and begin < end:
            self._stream.seek(begin)
            block = self._stream.read(min(_BLOCK_BYTES, end - begin))
            begin += len(block)
            *lines, rest = (rest + block).split(b"\0")
            for line in lines:
                text = line.decode()
                yield Name(text[1:], text[0])


def read_names(path: str, *, follows_links: bool, run_names: int = RUN_NAMES) -> Names:
    """Return the names of a folder; raise OSError where it cannot be read to its end.

    With `follows_links` a link to a folder is a FOLDER, and any other a FILE.
    """
    with os.scandir(path) as found:
        names = (_name_of(one, follows_links=follows_links) for one in found)
        return Names(names, run_names=run_names)


def _name_of(found: "os.DirEntry[str]", *, follows_links: bool) -> Name:
    slash = "/" if _is_folder(found, follows_links=follows_links) else ""
    text = found.name
    if not text.isascii() and not is_unicode(text):
        return Name(os.fsencode(text).decode("utf-8", "backslashreplace") + slash, Is.UNNAMED.value)
    if slash:
        return Name(text + slash, Is.FOLDER.value)
    is_link = not follows_links and found.is_symlink()
    return Name(text, (Is.LINK if is_link else Is.FILE).value)


def _is_folder(found: "os.DirEntry[str]", *, follows_links: bool) -> bool:
    try:
        return found.is_dir(follow_symlinks=follows_links)
    except OSError:  # a link that leads to itself, or where nobody may look
        return False


def is_unicode(text: str) -> bool:
    """Whether the bytes of a name were UTF-8: others are half surrogate pairs here."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
