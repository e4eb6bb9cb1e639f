"""Archives and compressed files: which files are archives, and what their members are.

Opened are zip, tar (plain, or compressed by gzip, bzip2 or xz), and single files compressed by one
of these; no other kind, and no archive in an archive. Members come one at a time, in the order of
the archive, and are read only on demand.

The costs of an archive are bounded by `ArchiveLimits`. A damaged archive yields the members before
the damage; a zip archive without the directory at its end yields none.

**Times:** a zip archive has local times of an unknown zone, which are taken as UTC.

**Spec:** APPNOTE.TXT 6.3.10; POSIX.1-2001 pax and ustar; RFC 1952.
"""

import errno
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import IO

import msgspec

from feedferry.schemas.content import MAX_CONTENT_BYTES, content_too_large
from feedferry.schemas.errors import RecordError
from feedferry.transforms.content_types.mimetype_table import (
    BZIP2,
    GZIP,
    TAR,
    XZ,
    ZIP,
    is_archive_type,
    type_of_name,
)
from feedferry.transforms.sources.files import decompress
from feedferry.transforms.sources.remote import error_text
from feedferry.transforms.sources.tree.rules.urls import decode_name, is_unicode
from feedferry.transforms.storage.files.block_stream import BlockStream

_NO_FILE = "no-file"
_TOO_LARGE = "archive-too-large"
_DIRECTORY_BYTES = 32 << 20
_HEADER_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 20
_TAR_SUFFIXES = ("tar", "tgz", "taz", "tbz", "tbz2", "tb2", "txz")
_END_OF_TAR = bytes(tarfile.BLOCKSIZE)
_DIRECTORY_ENTRY = b"PK\x01\x02"
_ENCRYPTED = 0x1
_UTF_8 = 0x800
_ZIP_CHARSET = "cp437"
_FAT, _UNIX = 0, 3
_COMPRESSIONS = {GZIP: ".gz", BZIP2: ".bz2", XZ: ".xz"}
_OPENED = frozenset((ZIP, TAR, *_COMPRESSIONS))
_DAMAGE = (
    ArithmeticError,
    EOFError,
    LookupError,
    OSError,  # bz2 and gzip raise it for damage, without a number
    RuntimeError,  # NotImplementedError is one
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class ArchiveLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one archive.

    Decompressed, it may have `max_bytes`, or `max_ratio` times its own size if that is more: text
    is compressed to a tenth, and only long runs of zeros to less than a two-hundredth.
    """

    max_members: int = 100_000
    max_bytes: int = 1 << 30
    max_ratio: int = 200
    max_content_bytes: int = MAX_CONTENT_BYTES


DEFAULT_LIMITS = ArchiveLimits()

_Stream = IO[bytes] | io.RawIOBase


class ArchiveMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member; if it is not to be read it has a `code`, and a `reason` if it is rejected.

    The charset of the path `is_guessed` if nothing states it.
    `read` returns its bytes, or raises RecordError; it must be called before the next member is
    asked for.
    """

    path: str
    size: int = 0
    modified_ns: int | None = None
    code: str = ""
    reason: str = ""
    is_guessed: bool = False
    read: Callable[[], bytes] = bytes


def is_archive(name: str, mimetype: str | None = None) -> bool:
    """Whether a file is an archive or compressed, by its type, or by its name if none is given.

    Office documents are no archives, though they are zip files.
    """
    return is_archive_type(mimetype or type_of_name(name))


def is_openable(name: str, mimetype: str | None = None) -> bool:
    """Whether it is an archive of a kind that is opened."""
    return (mimetype or type_of_name(name)) in _OPENED


def open_archive(
    name: str,
    stream: IO[bytes],
    *,
    mimetype: str | None = None,
    limits: ArchiveLimits = DEFAULT_LIMITS,
    name_charset: str | None = None,
) -> Iterator[ArchiveMember]:
    """Yield the members of an archive that is openable; its type is by its name, unless given.

    Paths of members have no `./` at their beginning; a second member of one path is rejected. Names
    that are not UTF-8 have the `name_charset`. Raise RecordError if the archive is damaged, exceeds
    a limit, or cannot be read. The stream stays open.
    """
    paths: set[str] = set()
    with _translate_errors(name):
        try:
            budget = _Budget(limits, stream.seek(0, io.SEEK_END))
        except io.UnsupportedOperation as exc:
            reason = f"{name!r}: unknown size; expected a server that states it"
            raise RecordError("unreadable", reason) from exc
        stream.seek(0)
        kind = mimetype or type_of_name(name)
        members = _members(name, stream, budget, kind, name_charset)
        for count, member in enumerate(members, start=1):
            budget.count(count)
            path = member.path
            while path.startswith("./"):
                path = path[2:].lstrip("/")
            if path in paths and not member.code:
                reason = f"{path!r} for a second time; expected one member of a path"
                yield ArchiveMember(path=path, code="duplicate-member", reason=reason)
                continue
            if not member.code:
                paths.add(path)
            yield msgspec.structs.replace(member, path=path)


class _Budget:
    """The bytes and members that may still be read of an archive of `size` bytes."""

    def __init__(self, limits: ArchiveLimits, size: int) -> None:
        self._max_bytes = max(limits.max_bytes, limits.max_ratio * size)
        self._limits = limits
        self._bytes_read = 0

    def count(self, members: int) -> None:
        """Raise RecordError for an archive of more members than allowed."""
        limit = self._limits.max_members
        if members > limit:
            raise RecordError(_TOO_LARGE, f"more than {limit} members; expected at most that")

    def check_position(self, position: int) -> None:
        """Raise RecordError for a position after the last byte that may be decompressed."""
        if position > self._max_bytes:
            reason = f"more than {self._max_bytes} bytes when it is opened; expected at most that"
            raise RecordError(_TOO_LARGE, reason)

    def read(self, name: str, stream: _Stream, size: int | None) -> bytes:
        """Return the bytes of a member; a size of None is unknown.

        Raise RecordError for a member of more bytes than a document may have.
        """
        limit = self._limits.max_content_bytes
        if size is not None and size > limit:
            raise content_too_large(f"{name!r} has {size} bytes", limit)
        wanted = limit + 1 if size is None else size
        blocks = []
        while wanted > 0 and (block := stream.read(min(wanted, _BLOCK_BYTES))):
            blocks.append(block)
            wanted -= len(block)
            self._bytes_read += len(block)
            self.check_position(self._bytes_read)
        if size is None and wanted == 0:
            raise content_too_large(f"{name!r} has more than {limit} bytes", limit)
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)


class _LimitedStream(BlockStream):
    """A stream with a limit for the bytes of headers and directories.

    While a header is read, the entries of a zip directory in it are counted, before zipfile makes
    an object of each. `last_block` is the block that was read last.
    """

    def __init__(self, stream: _Stream, budget: _Budget, *, limits_position: bool) -> None:
        self._stream = stream
        self._budget = budget
        self._limits_position = limits_position
        self._header_bytes = 0
        self._header_left: int | None = None
        self._entries = 0
        self._position = stream.tell()
        self.last_block = b""

    def begin_header(self, max_bytes: int) -> None:
        self._header_bytes = self._header_left = max_bytes

    def end_header(self) -> None:
        self._header_left = None

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        if self._header_left is not None:
            if size > self._header_left:
                limit = self._header_bytes
                reason = f"a header or directory of {size} bytes; expected at most {limit}"
                raise RecordError(_TOO_LARGE, reason)
            size = self._header_left if size < 0 else size
        block = self._stream.read(size) or b""
        if self._header_left is not None:
            self._header_left -= len(block)
            self._entries += block.count(_DIRECTORY_ENTRY)
            self._budget.count(self._entries)
        self.last_block = block
        self._move_to(self._position + len(block))
        return block

    read_block = read

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET:
            self._position = self._stream.seek(offset, whence)
        elif offset != self._position:
            self._move_to(offset)
            self._stream.seek(offset)
        return self._position

    def _move_to(self, position: int) -> None:
        if self._limits_position:
            self._budget.check_position(position)
        self._position = position


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Raise RecordError for an error of the medium, and for what libraries raise for damage."""
    try:
        yield
    except _DAMAGE as exc:
        if (error := _medium_error(exc)) is not None:
            raise unreadable(name, error) from exc
        reason = f"{name!r}: {str(exc) or type(exc).__name__}; expected a complete archive"
        raise RecordError("bad-archive", reason) from exc


def _medium_error(exc: BaseException | None) -> OSError | None:
    """Return the error of the medium from which an exception comes, if there is one.

    The libraries raise OSError too, without a number; a seek to a negative offset is EINVAL.
    """
    while exc is not None:
        if isinstance(exc, OSError) and exc.errno not in (None, errno.EINVAL):
            return exc
        exc = exc.__context__
    return None


def unreadable(name: str, exc: OSError) -> RecordError:
    """Return the error for a file that cannot be read."""
    reason = f"{name!r}: {error_text(exc)}; expected a file that can be read"
    return RecordError("unreadable", reason)


def _members(
    name: str, stream: IO[bytes], budget: _Budget, kind: str | None, charset: str | None
) -> Iterator[ArchiveMember]:
    if kind == ZIP:
        yield from _read_zip(stream, budget, charset)
        return
    compression = _COMPRESSIONS.get(kind or "")
    inner: _Stream = stream if compression is None else decompress(stream, compression)
    if kind == TAR or _is_tar(name):
        yield from _read_tar(inner, budget, charset)
        return
    content = budget.read(name, inner, None)
    path = name.rpartition(".")[0] if type_of_name(name) in _COMPRESSIONS else name
    yield ArchiveMember(path=path, size=len(content), read=lambda: content)


def _is_tar(name: str) -> bool:
    stem, _, suffix = name.lower().rpartition(".")
    is_compressed_tar = stem.endswith(".tar") and type_of_name(name) in _COMPRESSIONS
    return suffix in _TAR_SUFFIXES or is_compressed_tar


def _read_zip(stream: IO[bytes], budget: _Budget, charset: str | None) -> Iterator[ArchiveMember]:
    limited = _LimitedStream(stream, budget, limits_position=False)
    limited.begin_header(_DIRECTORY_BYTES)
    with zipfile.ZipFile(limited) as archive:
        limited.end_header()
        for info in archive.filelist:
            yield _zip_member(archive, info, budget, charset)


def _zip_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: _Budget, charset: str | None
) -> ArchiveMember:
    path, is_guessed = info.filename, False
    if not info.flag_bits & _UTF_8 and path == info.orig_filename:  # zipfile decodes it as CP437
        name = path.encode(_ZIP_CHARSET).decode("utf-8", "surrogateescape")
        name = decode_name(name, charset)
        is_guessed = not is_unicode(name)
        path = path if is_guessed else name
    if info.create_system == _FAT and "/" not in path:  # some programs of Windows write them so
        path = path.replace("\\", "/")
    mode = stat.S_IFMT(info.external_attr >> 16) if info.create_system == _UNIX else 0
    if info.is_dir() or path.endswith("/") or mode not in (0, stat.S_IFREG):
        return ArchiveMember(path=path, code=_NO_FILE)
    if info.flag_bits & _ENCRYPTED:
        reason = f"{path!r} is encrypted; expected members that need no password"
        return ArchiveMember(path=path, code="archive-encrypted", reason=reason)
    read = partial(_read_member, info.filename, info.file_size, partial(archive.open, info), budget)
    return ArchiveMember(
        path=path,
        size=info.file_size,
        modified_ns=_zip_time(info),
        is_guessed=is_guessed,
        read=read,
    )


def _zip_time(info: zipfile.ZipInfo) -> int | None:
    try:
        return int(datetime(*info.date_time, tzinfo=UTC).timestamp()) * 1_000_000_000
    except ValueError:  # archives without times have the month 0
        return None


def _read_tar(stream: _Stream, budget: _Budget, charset: str | None) -> Iterator[ArchiveMember]:
    limited = _LimitedStream(stream, budget, limits_position=True)
    limited.begin_header(_HEADER_BYTES)
    archive = tarfile.TarFile(fileobj=limited, encoding="utf-8", errors="surrogateescape")
    while info := archive.next():
        archive.members.clear()  # type: ignore[attr-defined]  # it would keep all of them
        if info.size < 0:
            raise tarfile.ReadError(f"{info.name!r} of {info.size} bytes")
        limited.end_header()
        member = _tar_member(archive, info, budget)
        yield msgspec.structs.replace(member, path=decode_name(member.path, charset))
        limited.begin_header(_HEADER_BYTES)
    if limited.last_block != _END_OF_TAR:  # tarfile takes a torn header for the end
        raise tarfile.ReadError("no end mark after the last member")
    limited.end_header()
    while limited.read(_BLOCK_BYTES):  # compressed data has a checksum at its end
        pass


def _tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo, budget: _Budget) -> ArchiveMember:
    if not info.isreg():
        return ArchiveMember(path=info.name, code=_NO_FILE)

    try:
        modified_ns = round(info.mtime * 1_000_000) * 1000
    except (OverflowError, ValueError):  # a pax header may state an infinite time
        modified_ns = None
    read = partial(_read_member, info.name, info.size, partial(archive.extractfile, info), budget)
    return ArchiveMember(path=info.name, size=info.size, modified_ns=modified_ns, read=read)


def _read_member(
    name: str, size: int, open_member: Callable[[], IO[bytes] | None], budget: _Budget
) -> bytes:
    with _translate_errors(name), open_member() or io.BytesIO() as stream:
        return budget.read(name, stream, size)
