"""Archives and compressed files: which files are some, and what stands in them.

Opened are zip, tar (plain or compressed by gzip, bzip2 or xz), and single files compressed by one
of these; nothing else, and no archive in an archive. Members come one at a time, in the order of
the archive, and are read only when they are asked for.

What an archive may cost is bounded, by `Bounds`. One that is damaged gives the members before the
damage; a zip archive without its directory, which stands at its end, gives none.

**Times:** a zip archive has local times of nobody knows where, which are taken as UTC, unless the
extended timestamps of Info-ZIP tell UTC.

**Spec:** APPNOTE.TXT 6.3.10; POSIX.1-2001 pax and ustar; RFC 1952.
"""

import bz2
import gzip
import io
import lzma
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import IO, cast

import msgspec

from schemas.errors import RecordError
from transforms import mimetype_table as names
from transforms.mimetype_table import type_of_name
from transforms.sources.tree.archive_limits import USUAL, Bounded, Bounds, Budget, Guarded
from transforms.sources.tree.urls import is_unicode

NO_FILE = "no-file"

_DIRECTORY_BYTES = 32 << 20
_HEADER_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 20
_BUFFER_BYTES = 128 << 10
_TAR_SUFFIXES = ("tgz", "taz", "tbz", "tbz2", "tb2", "txz")
_END_OF_TAR = bytes(tarfile.BLOCKSIZE)
_ENTRY = b"PK\x01\x02"
_ENCRYPTED = 0x1
_FAT, _UNIX = 0, 3
_EXTENDED_TIMESTAMP = 0x5455
_SECOND_NS = 1_000_000_000
_DAMAGE = (
    ArithmeticError,
    EOFError,
    LookupError,
    OSError,  # bz2 and gzip raise it for what they read; what cannot be read is no OSError here
    RuntimeError,  # NotImplementedError is one
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in an archive at a path; a `code` says why it is not to be read.

    With a `reason` it is rejected, else filtered. `read` returns its bytes, or raises RecordError;
    it must be called before the next member is asked for.
    """

    path: str
    size: int = 0
    modified_ns: int | None = None
    code: str = ""
    reason: str = ""
    read: Callable[[], bytes] = bytes


def is_archive(name: str, mimetype: str | None = None) -> bool:
    """Whether a file is an archive or compressed, by its type, or by its name where none is given.

    Office documents are none, though they are zip archives.
    """
    return names.is_archive_type(mimetype or type_of_name(name))


def is_openable(name: str, mimetype: str | None = None) -> bool:
    """Whether it is an archive of a kind that is opened."""
    return (mimetype or type_of_name(name)) in _READERS


def open_archive(
    name: str, stream: IO[bytes], *, mimetype: str | None = None, bounds: Bounds = USUAL
) -> Iterator[Member]:
    """Yield the members of an archive that is openable; its type is by its name, unless given.

    Raises RecordError where it is damaged or holds too much. The stream stays open.
    """
    kind = mimetype or type_of_name(name)
    read = _read_tar if _is_tar(name) else _READERS[kind]
    paths: set[str] = set()
    with _damage(name), _sought(Guarded(name, stream)) as (sought, size):
        budget = Budget(bounds, size)
        for count, member in enumerate(read(name, sought, budget, kind)):
            budget.count(count + 1)
            checked = _checked(member, paths)
            if not checked.code:
                paths.add(checked.path)
            yield checked


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Make one kind of trouble of all that the libraries raise for bytes they do not expect."""
    try:
        yield
    except _DAMAGE as exc:
        cause = str(exc) or type(exc).__name__
        reason = f"{name!r}: {cause}; expected a whole archive"
        raise RecordError("bad-archive", reason) from exc


@contextmanager
def _sought(stream: Guarded) -> Iterator[tuple[IO[bytes], int]]:
    """A stream that can be sought in, if need be a copy that is gone afterwards; and its size."""
    size = stream.find_size()
    if size is not None:
        yield io.BufferedReader(stream, _BUFFER_BYTES), size
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy, _BLOCK_BYTES)
        size = copy.tell()
        copy.seek(0)
        yield copy, size


def _checked(member: Member, paths: set[str]) -> Member:
    """The member under the path that it has in urls; a reject if that cannot be."""
    path = member.path
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    named = msgspec.structs.replace(member, path=path)
    if member.code:
        return named
    if _is_outside(path):
        return _rejected(named, "file-name", f"{path!r}; expected a path below the archive")
    if not path.isprintable() and not is_unicode(path):
        return _rejected(named, "file-name", f"{path!r}; expected a name in UTF-8")
    if path in paths:
        reason = f"{path!r} for a second time; expected one member of a path"
        return _rejected(named, "duplicate-member", reason)
    return named


def _is_outside(path: str) -> bool:
    parts = path.split("/")
    return not parts[-1] or ".." in parts or "" in parts or "." in parts


def _rejected(member: Member, code: str, reason: str) -> Member:
    return msgspec.structs.replace(member, code=code, reason=reason, read=bytes)


def _is_tar(name: str) -> bool:
    stem, _, suffix = name.lower().rpartition(".")
    return suffix in (*_TAR_SUFFIXES, "tar") or (
        type_of_name(name) in _DECOMPRESSORS and stem.endswith(".tar")
    )


def _read_zip(_name: str, source: IO[bytes], budget: Budget, _kind: str | None) -> Iterator[Member]:
    stream = Bounded(source)
    stream.allow(_DIRECTORY_BYTES)
    stream.watch = lambda block: budget.count(block.count(_ENTRY))
    with zipfile.ZipFile(cast(IO[bytes], stream)) as archive:
        stream.allow(None)
        for info in archive.filelist:
            yield _zip_member(archive, info, budget)


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> Member:
    path = info.filename
    if info.create_system == _FAT and "/" not in path:  # some programs of Windows write them so
        path = path.replace("\\", "/")
    member = Member(path=path, size=info.file_size, modified_ns=_zip_time(info))
    mode = stat.S_IFMT(info.external_attr >> 16) if info.create_system == _UNIX else 0
    if info.is_dir() or path.endswith("/") or mode not in (0, stat.S_IFREG):
        return msgspec.structs.replace(member, code=NO_FILE)
    if info.flag_bits & _ENCRYPTED:
        reason = f"{path!r} is encrypted; expected members that need no password"
        return _rejected(member, "archive-encrypted", reason)
    return msgspec.structs.replace(member, read=partial(_zip_bytes, archive, info, budget))


def _zip_time(info: zipfile.ZipInfo) -> int | None:
    if (seconds := _extended_timestamp(info.extra)) is not None:
        return seconds * _SECOND_NS
    try:
        return int(datetime(*info.date_time, tzinfo=UTC).timestamp()) * _SECOND_NS
    except ValueError:  # there is no month 0, and yet archives are full of it
        return None


def _extended_timestamp(extra: bytes) -> int | None:
    """Seconds since 1970, in a field of the extra ones of a member."""
    while len(extra) >= 4:
        tag, size = struct.unpack_from("<HH", extra)
        if tag == _EXTENDED_TIMESTAMP and size >= 5 and len(extra) >= 9 and extra[4] & 1:
            seconds: int = struct.unpack_from("<i", extra, 5)[0]
            return seconds
        extra = extra[4 + size :]
    return None


def _zip_bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> bytes:
    budget.check(info.filename, info.file_size)
    with _damage(info.filename), archive.open(info) as stream:
        return budget.read(info.filename, stream, info.file_size)


def _read_tar(_name: str, source: IO[bytes], budget: Budget, kind: str | None) -> Iterator[Member]:
    inner = _DECOMPRESSORS[kind](source) if kind in _DECOMPRESSORS else source
    stream = Bounded(inner, max_bytes=budget.max_bytes)
    stream.allow(_HEADER_BYTES)
    archive = tarfile.TarFile(
        fileobj=cast(IO[bytes], stream), encoding="utf-8", errors="surrogateescape"
    )
    while info := archive.next():
        archive.members.clear()  # type: ignore[attr-defined]  # it would keep them all
        if info.size < 0:
            raise tarfile.ReadError(f"{info.name!r} of {info.size} bytes")
        stream.allow(None)
        yield _tar_member(archive, info, budget)
        stream.allow(_HEADER_BYTES)
    if stream.last != _END_OF_TAR:  # tarfile takes a torn header for the end
        raise tarfile.ReadError("no end mark behind the last member")
    stream.allow(None)
    while stream.read(_BLOCK_BYTES):  # what is compressed has a checksum at its end
        pass


def _tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo, budget: Budget) -> Member:
    member = Member(path=info.name, size=info.size, modified_ns=_nanoseconds(info.mtime))
    if not info.isreg():
        return msgspec.structs.replace(member, code=NO_FILE)
    return msgspec.structs.replace(member, read=partial(_tar_bytes, archive, info, budget))


def _nanoseconds(seconds: float) -> int | None:
    try:
        return round(seconds * 1_000_000) * 1000
    except (OverflowError, ValueError):  # a pax header may say that it is infinite
        return None


def _tar_bytes(archive: tarfile.TarFile, info: tarfile.TarInfo, budget: Budget) -> bytes:
    budget.check(info.name, info.size)
    with _damage(info.name):
        stream = cast(IO[bytes], archive.extractfile(info))
        return budget.read(info.name, stream, info.size)


def _read_single(
    name: str, source: IO[bytes], budget: Budget, kind: str | None
) -> Iterator[Member]:
    """Yield the one file that is compressed; its size is not known before it is decompressed."""
    with _DECOMPRESSORS[kind](source) as stream:
        content = budget.read(name, stream, None)
    path = name.rpartition(".")[0] if type_of_name(name) in _DECOMPRESSORS else name
    yield Member(path=path, size=len(content), read=lambda: content)


def _gunzip(stream: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=stream))


def _bunzip(stream: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], bz2.BZ2File(stream))


def _unxz(stream: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], lzma.LZMAFile(stream))


_DECOMPRESSORS: dict[str | None, Callable[[IO[bytes]], IO[bytes]]] = {
    names.GZIP: _gunzip,
    names.BZIP2: _bunzip,
    names.XZ: _unxz,
}
_READERS: dict[str | None, Callable[..., Iterator[Member]]] = {
    names.ZIP: _read_zip,
    names.TAR: _read_tar,
    names.GZIP: _read_single,
    names.BZIP2: _read_single,
    names.XZ: _read_single,
}
