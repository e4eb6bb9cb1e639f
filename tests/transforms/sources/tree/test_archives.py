"""Archives that are opened: whole ones, damaged ones, and hostile ones."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections import deque
from collections.abc import Callable
from random import Random

import pytest

from feedferry.schemas.errors import RecordError
from feedferry.transforms.sources.tree.documents.archives import (
    DEFAULT_LIMITS,
    ArchiveLimits,
    ArchiveMember,
    is_archive,
    is_openable,
    open_archive,
)

DAY = (2024, 5, 6, 7, 8, 10)
DAY_NS = 1_714_979_290_000_000_000
SMALL = ArchiveLimits(max_members=3, max_bytes=1000, max_ratio=1, max_content_bytes=100)
Contents = list[tuple[str, bytes | str]]
Pack = Callable[..., bytes]


def zipped(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    return zipped_infos(
        *((zipfile.ZipInfo(path, DAY), data) for path, data in files), method=method
    )


def zipped_infos(*files: tuple[zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for info, content in files:
            archive.writestr(info, content, method)
    return stream.getvalue()


def tarred(*files: tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for path, content in files:
            archive.addfile(header(path, size=len(content)), io.BytesIO(content))
    return stream.getvalue()


def tarred_header(path: str, *, mtime: str = "", kind: bytes = tarfile.REGTYPE) -> bytes:
    stream, info = io.BytesIO(), header(path, kind=kind)
    info.pax_headers = {"mtime": mtime} if mtime else {}
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(info)
    return stream.getvalue()


def header(path: str, *, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mtime, info.size, info.type = 1_714_979_290, size, kind
    return info


def members(
    name: str, archive: bytes, limits: ArchiveLimits = DEFAULT_LIMITS
) -> list[ArchiveMember]:
    return list(open_archive(name, io.BytesIO(archive), limits=limits))


def read(member: ArchiveMember) -> bytes | str:
    """Return the bytes of a member, or the code by which it has none."""
    try:
        return member.code or member.read()
    except RecordError as exc:
        return exc.code


def read_all(name: str, archive: bytes, limits: ArchiveLimits = DEFAULT_LIMITS) -> Contents:
    """Return the members to the end, or to the code of the error that ends them."""
    contents: Contents = []
    try:
        for member in open_archive(name, io.BytesIO(archive), limits=limits):
            contents.append((member.path, read(member)))
    except RecordError as exc:
        contents.append(("", exc.code))
    return contents


def error(
    name: str, archive: bytes | io.BytesIO, limits: ArchiveLimits = DEFAULT_LIMITS
) -> tuple[str, str]:
    """Return code and reason of the first error of an archive."""
    stream = io.BytesIO(archive) if isinstance(archive, bytes) else archive
    with pytest.raises(RecordError) as caught:
        deque(member.read() for member in open_archive(name, stream, limits=limits))
    return caught.value.code, caught.value.reason


TWO = (("a.txt", b"first"), ("b/c.txt", b"second" * 300))
DAMAGED = {(("", "bad-archive"),)}
BOTH = pytest.mark.parametrize(("name", "pack"), [("a.zip", zipped), ("a.tar", tarred)])
COMPRESSED = pytest.mark.parametrize(
    ("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)]
)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("a.zip a.tar a.tar.gz a.TGZ a.txt.gz a.tbz2 a.xz", (True, True)),
        ("a.7z a.rar a.jar a.deb", (True, False)),
        ("a.docx a.odt a.epub a.pdf a zip", (False, False)),
    ],
)
def test_archives_are_recognised_by_name_or_type_and_some_can_be_opened(
    names: str, expected: tuple[bool, bool]
) -> None:
    for name in names.split():
        assert (is_archive(name), is_openable(name)) == expected
        assert is_archive(name, "application/zip")
        assert is_openable(name, "application/x-tar")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_the_members_of_a_zip_archive_come_in_order(method: int) -> None:
    archive = zipped(*TWO, method=method)
    assert read_all("a.zip", archive) == list(TWO)
    assert [member.size for member in members("a.zip", archive)] == [5, 1800]


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("a.tar", bytes),
        ("a.tar.gz", gzip.compress),
        ("a.tgz", gzip.compress),
        ("a.tar.bz2", bz2.compress),
        ("a.txz", lzma.compress),
    ],
)
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_the_members_of_a_tar_archive_come_in_order(
    name: str, compress: Callable[[bytes], bytes], form: int
) -> None:
    assert read_all(name, compress(tarred(*TWO, form=form))) == list(TWO)


@COMPRESSED
def test_a_compressed_file_is_one_member(suffix: str, compress: Callable[[bytes], bytes]) -> None:
    assert read_all(f"b.txt.{suffix}", compress(b"first")) == [("b.txt", b"first")]


def test_a_type_may_be_given_to_a_name_without_one() -> None:
    stream = io.BytesIO(gzip.compress(b"first"))
    (member,) = open_archive("backup", stream, mimetype="application/gzip")
    assert (member.path, read(member), stream.closed) == ("backup", b"first", False)


def test_members_that_are_not_read_are_skipped() -> None:
    archive = gzip.compress(tarred(("a", b"a" * 5000), ("b", b"b" * 512), ("c", b"c")))
    assert [member.path for member in members("a.tgz", archive)] == ["a", "b", "c"]


@pytest.mark.parametrize("size", [100_000, 3_000_000])
@BOTH
def test_large_members_between_small_ones_are_whole(name: str, pack: Pack, size: int) -> None:
    noise = Random(size).randbytes(size)
    files = [("a", b"x" * 700), ("folder/" * 40 + "b", noise), ("c", b"y"), ("d", noise[::-1])]
    assert read_all(name, pack(*files)) == files


@pytest.mark.parametrize(
    ("name", "archive", "expected"),
    [
        ("a.zip", zipped(("a", b"x")), DAY_NS),
        ("a.zip", zipped_infos((zipfile.ZipInfo("a", (1980, 0, 0, 0, 0, 0)), b"x")), None),
        ("a.tar", tarred_header("a", mtime="1714979290.25"), DAY_NS + 250_000_000),
        ("a.tar", tarred_header("a", mtime="inf"), None),
        ("a.tar", tarred_header("a", mtime="nan"), None),
    ],
)
def test_times_are_utc_and_a_time_that_cannot_be_is_not_stated(
    name: str, archive: bytes, expected: int | None
) -> None:
    (member,) = members(name, archive)
    assert member.modified_ns == expected


def info_of(path: str, *, system: int, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(path, DAY)
    info.create_system, info.external_attr = system, mode << 16
    return info


@pytest.mark.parametrize(
    ("name", "archive"),
    [
        *(
            ("a.tar", tarred_header("a", kind=kind))
            for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)
        ),
        ("a.zip", zipped(("a/", b""))),
        ("a.zip", zipped_infos((info_of("a", system=3, mode=0o120777), b"/etc/passwd"))),
    ],
)
def test_a_folder_a_link_or_a_device_is_left_out(name: str, archive: bytes) -> None:
    assert [code for _, code in read_all(name, archive)] == ["no-file"]


def test_the_folder_in_which_tar_was_called_is_not_in_paths() -> None:
    assert read_all("a.tar", tarred(("./b/a.txt", b"x"))) == [("b/a.txt", b"x")]


def test_folders_as_windows_writes_them_are_folders() -> None:
    archive = zipped_infos((info_of("b\\a.txt", system=0), b"x"))
    assert read_all("a.zip", archive) == [("b/a.txt", b"x")]


def test_a_second_member_of_a_path_is_rejected() -> None:
    archive = tarred(("a", b"x"), ("./a", b"y"), ("b", b"z"))
    assert read_all("a.tar", archive) == [("a", b"x"), ("a", "duplicate-member"), ("b", b"z")]
    assert members("a.tar", archive)[1].reason == (
        "'a' for a second time; expected one member of a path"
    )


def test_an_encrypted_member_costs_itself() -> None:
    archive = bytearray(zipped(("a", b"x")))
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        archive[archive.index(mark) + offset] |= 1
    (member,) = members("a.zip", bytes(archive))
    assert (member.code, member.reason) == (
        "archive-encrypted",
        "'a' is encrypted; expected members that need no password",
    )


def test_a_member_whose_bytes_are_damaged_costs_itself() -> None:
    archive = zipped(("a", b"x" * 50), ("b", b"y"), method=zipfile.ZIP_STORED)
    damaged = archive.replace(b"x" * 50, b"x" * 49 + b"z")
    assert read_all("a.zip", damaged) == [("a", "bad-archive"), ("b", b"y")]
    reason = "'a': Bad CRC-32 for file 'a'; expected a complete archive"
    assert error("a.zip", damaged) == ("bad-archive", reason)


def test_a_tar_archive_yields_the_members_before_the_damage() -> None:
    archive = bytearray(tarred(("a", b"x"), ("b", b"y"), ("c", b"z")))
    archive[1024 + 148] ^= 1
    assert read_all("a.tar", bytes(archive)) == [("a", b"x"), ("", "bad-archive")]


def test_a_tar_archive_without_its_end_mark_is_damaged() -> None:
    reason = "'a.tar': no end mark after the last member; expected a complete archive"
    assert error("a.tar", tarred(("a", b"x"))[:1024]) == ("bad-archive", reason)
    assert read_all("a.tar", tarred()) == []


@pytest.mark.parametrize("name", ["a.tar", "a.zip", "a.tgz", "a.gz", "a.bz2", "a.xz"])
@pytest.mark.parametrize("content", [b"", b"plan", b"\x01" * 600, b"\xff" * 600])
def test_a_file_that_is_no_archive_raises_no_other_exception(name: str, content: bytes) -> None:
    assert read_all(name, content) in ([("", "bad-archive")], [("a", b"")])


def test_a_zip_archive_cut_off_anywhere_is_damaged() -> None:
    whole = zipped(("a", b"x" * 50), ("b", b"y"))
    assert {tuple(read_all("a.zip", whole[:end])) for end in range(len(whole))} == DAMAGED


def test_a_tar_archive_cut_off_anywhere_is_damaged() -> None:
    whole = tarred(("a", b"x" * 50), ("b", b"y"))[: 4 * 512 + 512]
    assert {read_all("a.tar", whole[:end])[-1] for end in range(len(whole))} == {
        ("", "bad-archive")
    }


@COMPRESSED
def test_a_compressed_archive_or_file_cut_off_anywhere_is_damaged(
    suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    whole = compress(tarred(("a", bytes(range(256))), ("b", b"y")))
    ends = [read_all(f"a.tar.{suffix}", whole[:end])[-1] for end in range(len(whole))]
    assert set(ends) == {("", "bad-archive")}
    single = compress(b"A plan, and more.")
    files = {tuple(read_all(f"a.{suffix}", single[:end])) for end in range(1, len(single))}
    assert files == DAMAGED


@BOTH
def test_no_flipped_byte_raises_another_exception(name: str, pack: Pack) -> None:
    whole = pack(("a", b"x" * 20), ("b", b"y"))[:2560]
    flips = (whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(len(whole)))
    assert all(isinstance(read_all(name, flip), list) for flip in flips)


@pytest.mark.parametrize(
    "info", [header("a", kind=b"x", size=-512), header("a", size=-1024), header("b", size=-512)]
)
def test_a_tar_archive_that_leads_backwards_comes_to_an_end(info: tarfile.TarInfo) -> None:
    archive = info.tobuf(tarfile.GNU_FORMAT) + tarred(("c", b"z"))
    assert read_all("a.tar", archive)[-1] == ("", "bad-archive")


def test_a_chain_of_headers_comes_to_an_end() -> None:
    long = header("x", kind=tarfile.GNUTYPE_LONGNAME, size=1).tobuf() + b"n".ljust(512, b"\0")
    (code,) = [code for _, code in read_all("a.tar", long * 1500)]
    assert code in ("bad-archive", "archive-too-large")


def test_headers_and_directories_of_any_size_are_not_read_into_memory() -> None:
    archive = header("x", kind=tarfile.XHDTYPE, size=1 << 40).tobuf(tarfile.GNU_FORMAT)
    assert error("a.tar", archive + bytes(5000)) == (
        "archive-too-large",
        "a header or directory of 1099511627776 bytes; expected at most 1048576",
    )
    whole = bytearray(zipped(("a", b"x")))
    end = whole.index(b"PK\5\6")
    whole[end + 12 : end + 16] = (40 << 20).to_bytes(4, "little")
    assert error("a.zip", bytes(60 << 20) + whole) == (
        "archive-too-large",
        "a header or directory of 41943040 bytes; expected at most 33554432",
    )


TOO_MANY = "more than 3 members; expected at most that"
TOO_LARGE = "at most 100 bytes; raise --max-content-bytes to read it"


@pytest.mark.parametrize(
    ("name", "archive", "expected"),
    [
        ("a.zip", zipped(("a", bytes(101))), f"'a' has 101 bytes; expected {TOO_LARGE}"),
        (
            "a.gz",
            gzip.compress(bytes(101), mtime=0),
            f"'a.gz' has more than 100 bytes; expected {TOO_LARGE}",
        ),
        ("a.zip", zipped(*((str(number), b"") for number in range(4))), TOO_MANY),
        ("a.tar", tarred(*((str(number), b"") for number in range(4))), TOO_MANY),
        ("a.tar", tarred(*[("a", b"")] * 4), TOO_MANY),
    ],
    ids=range(5),
)
def test_the_members_of_an_archive_have_limits(name: str, archive: bytes, expected: str) -> None:
    code = "archive-too-large" if expected == TOO_MANY else "content-too-large"
    assert error(name, archive, SMALL) == (code, expected)


def test_a_bomb_is_recognised_before_it_is_decompressed() -> None:
    limits = ArchiveLimits(max_bytes=1000, max_ratio=0)
    bomb = zipped(*[(f"{number}", bytes(90)) for number in range(60)])
    assert [code for _, code in read_all("a.zip", bomb, limits)][10:12] == [
        bytes(90),
        "archive-too-large",
    ]
    reason = "more than 1000 bytes when it is opened; expected at most that"
    assert error("a.tar", tarred(("a", bytes(3000))), limits) == ("archive-too-large", reason)
    compressed = gzip.compress(tarred(("a", bytes(100_000)), ("b", b"y")))
    contents = read_all("a.tgz", compressed, ArchiveLimits(max_bytes=1000, max_ratio=100))
    assert (contents[0][0], contents[-1]) == ("a", ("", "archive-too-large"))


def test_a_larger_archive_may_have_more_bytes() -> None:
    archive, limits = tarred(("a", bytes(3000))), ArchiveLimits(max_bytes=1, max_ratio=1)
    assert read_all("a.tar", archive, limits) == [("a", bytes(3000))]


class Endless(io.BytesIO):
    """A stream that can be sought, but whose end is unknown, as of some web servers."""

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end")
        return super().seek(offset, whence)


class Dying(io.BytesIO):
    """A stream whose medium breaks."""

    def read(self, _size: int | None = -1) -> bytes:
        raise OSError(5, "Input/output error")


def test_an_archive_of_unknown_size_is_not_read() -> None:
    reason = "'a.zip': unknown size; expected a server that states it"
    assert error("a.zip", Endless(zipped(*TWO))) == ("unreadable", reason)


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tgz", "a.gz"])
def test_an_error_of_the_medium_is_not_taken_for_damage(name: str) -> None:
    reason = f"'{name}': Input/output error; expected a file that can be read"
    assert error(name, Dying(b"x" * 100)) == ("unreadable", reason)
