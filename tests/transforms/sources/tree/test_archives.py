"""Archives that are opened: honest ones, torn ones, and ones that were made to do harm."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from schemas.errors import RecordError
from transforms.sources.tree.archives import (
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
Read = tuple[str, bytes | str]


def zipped(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for path, content in files:
            archive.writestr(zipfile.ZipInfo(path, DAY), content, method)
    return stream.getvalue()


def tarred(*files: tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for path, content in files:
            archive.addfile(header(path, size=len(content)), io.BytesIO(content))
    return stream.getvalue()


def tarred_headers(*headers: tarfile.TarInfo) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for one in headers:
            archive.addfile(one)
    return stream.getvalue()


def header(path: str, *, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mtime, info.size, info.type = 1_714_979_290, size, kind
    return info


def with_flag(archive: bytes, flag: int) -> bytes:
    """The zip archive, of one member, with a flag set in both of its headers."""
    torn = bytearray(archive)
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        torn[archive.index(mark) + offset] |= flag
    return bytes(torn)


def members(
    name: str, archive: bytes, limits: ArchiveLimits = DEFAULT_LIMITS
) -> list[ArchiveMember]:
    return list(open_archive(name, io.BytesIO(archive), limits=limits))


def read(member: ArchiveMember) -> Read:
    """The path of a member, and its bytes or the code by which it has none."""
    try:
        return member.path, member.code or member.read()
    except RecordError as exc:
        return member.path, exc.code


def read_all(name: str, archive: bytes, limits: ArchiveLimits = DEFAULT_LIMITS) -> list[Read]:
    """The members to the end, or to the code of what ends them."""
    found: list[Read] = []
    try:
        for member in open_archive(name, io.BytesIO(archive), limits=limits):
            found.append(read(member))
    except RecordError as exc:
        found.append(("", exc.code))
    return found


def trouble(name: str, archive: bytes, limits: ArchiveLimits = DEFAULT_LIMITS) -> RecordError:
    with pytest.raises(RecordError) as caught:
        deque(member.read() for member in open_archive(name, io.BytesIO(archive), limits=limits))
    return caught.value


TWO = (("a.txt", b"first"), ("b/c.txt", b"second" * 300))


@pytest.mark.parametrize(
    "name", ["a.zip", "a.tar", "a.tar.gz", "a.TGZ", "a.gz", "a.7z", "a.rar", "a.jar", "a.iso"]
)
def test_these_are_archives(name: str) -> None:
    assert is_archive(name)


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.epub", "a.pdf", "a", "zip"])
def test_these_are_none(name: str) -> None:
    assert not is_archive(name)


def test_a_type_that_is_known_is_believed() -> None:
    assert is_archive("backup", "application/zip")


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.txt.gz", "a.tbz2", "a.xz"])
def test_these_are_opened(name: str) -> None:
    assert is_openable(name)


@pytest.mark.parametrize("name", ["a.7z", "a.rar", "a.jar", "a.deb", "a.pdf", "a"])
def test_these_are_not(name: str) -> None:
    assert not is_openable(name)


@pytest.mark.parametrize("name", ["a.7z", "a.jar"])
def test_another_type_decides_that_they_are(name: str) -> None:
    assert is_openable(name, "application/x-tar")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_zip_archive_gives_its_members_in_order(method: int) -> None:
    assert read_all("a.zip", zipped(*TWO, method=method)) == list(TWO)


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.tar", bytes),
        ("a.tar.gz", gzip.compress),
        ("a.tgz", gzip.compress),
        ("a.tar.bz2", bz2.compress),
        ("a.txz", lzma.compress),
    ],
)
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_archive_gives_its_members_in_order(
    name: str, pack: Callable[[bytes], bytes], form: int
) -> None:
    assert read_all(name, pack(tarred(*TWO, form=form))) == list(TWO)


@pytest.mark.parametrize(
    ("name", "pack"),
    [("b.txt.gz", gzip.compress), ("b.txt.bz2", bz2.compress), ("b.txt.xz", lzma.compress)],
)
def test_a_compressed_file_is_one_member(name: str, pack: Callable[[bytes], bytes]) -> None:
    assert read_all(name, pack(b"first")) == [("b.txt", b"first")]


def test_a_type_may_be_given_to_a_name_that_tells_none() -> None:
    (member,) = open_archive(
        "backup", io.BytesIO(gzip.compress(b"first")), mimetype="application/gzip"
    )
    assert read(member) == ("backup", b"first")


def test_members_that_nobody_reads_are_passed_over() -> None:
    archive = gzip.compress(tarred(("a", b"a" * 5000), ("b", b"b" * 512), ("c", b"c")))
    assert [member.path for member in members("a.tgz", archive)] == ["a", "b", "c"]


def test_sizes_are_told_before_anything_is_read() -> None:
    assert [member.size for member in members("a.zip", zipped(*TWO))] == [5, 1800]


@pytest.mark.parametrize("size", [100_000, 1_000_000, 3_000_000])
@pytest.mark.parametrize(("name", "pack"), [("a.zip", zipped), ("a.tar", tarred)])
def test_large_members_between_small_ones_are_whole(
    name: str, pack: Callable[..., bytes], size: int
) -> None:
    noise = Random(size).randbytes(size)
    files = (("a", b"x" * 700), ("b", noise), ("c", b"y" * 700), ("d", noise[::-1]))
    assert read_all(name, pack(*files)) == list(files)


def test_a_long_path_is_whole() -> None:
    path = "folder/" * 40 + "a.txt"
    assert read_all("a.tar", tarred((path, b"first"))) == [(path, b"first")]


@pytest.mark.parametrize("system", [0, 3])
def test_times_of_a_zip_archive_are_taken_as_utc(system: int) -> None:
    (member,) = members("a.zip", zipped(("a.txt", b"first")))
    assert member.modified_ns == DAY_NS


def test_a_day_that_never_was_is_not_stated() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt", (1980, 0, 0, 0, 0, 0)), b"first")
    (member,) = members("a.zip", stream.getvalue())
    assert member.modified_ns is None


def test_times_of_a_tar_archive_have_parts_of_seconds() -> None:
    info = header("a.txt")
    info.pax_headers = {"mtime": "1714979290.25"}
    (member,) = members("a.tar", tarred_headers(info))
    assert member.modified_ns == DAY_NS + 250_000_000


@pytest.mark.parametrize("text", ["inf", "nan", "1e400"])
def test_a_time_beyond_all_is_not_stated(text: str) -> None:
    info = header("a.txt")
    info.pax_headers = {"mtime": text}
    (member,) = members("a.tar", tarred_headers(info))
    assert member.modified_ns is None


@pytest.mark.parametrize(
    "kind",
    [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE],
)
def test_what_is_no_file_in_a_tar_archive_is_left_out(kind: bytes) -> None:
    assert read_all("a.tar", tarred_headers(header("a", kind=kind))) == [("a", "no-file")]


def test_a_folder_in_a_zip_archive_is_left_out() -> None:
    assert read_all("a.zip", zipped(("a/", b""))) == [("a/", "no-file")]


def test_a_link_in_a_zip_archive_is_left_out() -> None:
    stream = io.BytesIO()
    info = zipfile.ZipInfo("a", DAY)
    info.create_system, info.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(info, b"/etc/passwd")
    assert read_all("a.zip", stream.getvalue()) == [("a", "no-file")]


@pytest.mark.parametrize("path", ["../a", "b/../../a", "/etc/a", "b//a", "..", "b/./a"])
@pytest.mark.parametrize(("name", "pack"), [("a.zip", zipped), ("a.tar", tarred)])
def test_a_path_that_leads_out_of_the_archive_is_rejected(
    path: str, name: str, pack: Callable[..., bytes]
) -> None:
    assert read_all(name, pack((path, b"x"), ("good", b"y"))) == [
        (path, "file-name"),
        ("good", b"y"),
    ]


def test_the_reason_names_the_path() -> None:
    (member,) = members("a.zip", zipped(("../a", b"x")))
    assert member.reason == "'../a'; expected a path below the archive"


def test_the_folder_in_which_tar_was_called_is_not_in_paths() -> None:
    assert read_all("a.tar", tarred(("./b/a.txt", b"x"))) == [("b/a.txt", b"x")]


def test_a_path_that_is_not_utf_8_is_rejected() -> None:
    archive = tarred(("Pl\udcf6n", b"x"), form=tarfile.GNU_FORMAT)
    (member,) = members("a.tar", archive)
    assert (member.code, member.reason) == (
        "file-name",
        "'Pl\\udcf6n'; expected a name in UTF-8",
    )


def test_folders_as_windows_writes_them_are_folders() -> None:
    stream = io.BytesIO()
    info = zipfile.ZipInfo("b\\a.txt", DAY)
    info.create_system = 0
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(info, b"x")
    assert read_all("a.zip", stream.getvalue()) == [("b/a.txt", b"x")]


def test_of_one_path_the_first_member_is_taken() -> None:
    archive = tarred(("a", b"x"), ("a", b"y"), ("b", b"z"))
    assert read_all("a.tar", archive) == [("a", b"x"), ("a", "duplicate-member"), ("b", b"z")]


def test_the_reason_names_the_path_that_came_twice() -> None:
    second = members("a.tar", tarred(("a", b"x"), ("./a", b"y")))[1]
    assert second.reason == "'a' for a second time; expected one member of a path"


def test_an_encrypted_member_costs_itself() -> None:
    archive = with_flag(zipped(("a", b"x")), 1)
    (member,) = members("a.zip", archive)
    assert (member.code, member.reason) == (
        "archive-encrypted",
        "'a' is encrypted; expected members that need no password",
    )


def test_a_member_whose_bytes_are_damaged_costs_itself() -> None:
    archive = zipped(("a", b"x" * 50), ("b", b"y"), method=zipfile.ZIP_STORED)
    torn = archive.replace(b"x" * 50, b"x" * 49 + b"z")
    assert read_all("a.zip", torn) == [("a", "bad-archive"), ("b", b"y")]


def test_damage_is_told_with_the_words_of_the_library() -> None:
    archive = zipped(("a", b"x" * 50), method=zipfile.ZIP_STORED)
    found = trouble("a.zip", archive.replace(b"x" * 50, b"x" * 49 + b"z"))
    assert found.reason == "'a': Bad CRC-32 for file 'a'; expected a complete archive"


def test_what_is_no_zip_archive_at_all_is_told() -> None:
    found = trouble("a.zip", b"A plan, and no archive.")
    assert found.reason == "'a.zip': File is not a zip file; expected a complete archive"


def test_a_tar_archive_gives_the_members_before_the_damage() -> None:
    archive = bytearray(tarred(("a", b"x"), ("b", b"y"), ("c", b"z")))
    archive[1024 + 148] ^= 1
    assert read_all("a.tar", bytes(archive)) == [("a", b"x"), ("", "bad-archive")]


def test_a_tar_archive_without_its_end_mark_is_damaged() -> None:
    found = trouble("a.tar", tarred(("a", b"x"))[:1024])
    assert found.reason == "'a.tar': no end mark after the last member; expected a complete archive"


@pytest.mark.parametrize("name", ["a.tar", "a.zip", "a.tgz", "a.gz", "a.bz2", "a.xz"])
@pytest.mark.parametrize("content", [b"", b"plan", b"\x01" * 600, b"\xff" * 600])
def test_no_archive_at_all_is_no_foreign_exception(name: str, content: bytes) -> None:
    assert read_all(name, content) in ([("", "bad-archive")], [("a", b"")])


def test_a_tar_archive_of_nothing_is_one() -> None:
    assert read_all("a.tar", tarred()) == []


def test_a_zip_archive_cut_off_anywhere_is_damaged() -> None:
    whole = zipped(("a", b"x" * 50), ("b", b"y"))
    assert {tuple(read_all("a.zip", whole[:end])) for end in range(len(whole))} == {
        (("", "bad-archive"),)
    }


def test_a_tar_archive_cut_off_anywhere_is_damaged() -> None:
    whole = tarred(("a", b"x" * 50), ("b", b"y"))[: 4 * 512 + 512]
    ends = {read_all("a.tar", whole[:end])[-1] for end in range(len(whole))}
    assert ends == {("", "bad-archive")}


@pytest.mark.parametrize(
    ("name", "pack"), [("a.tgz", gzip.compress), ("a.tbz", bz2.compress), ("a.txz", lzma.compress)]
)
def test_a_compressed_tar_archive_cut_off_anywhere_is_damaged(
    name: str, pack: Callable[[bytes], bytes]
) -> None:
    whole = pack(tarred(("a", bytes(range(256))), ("b", b"y")))
    ends = [read_all(name, whole[:end]) for end in range(len(whole))]
    assert {end[-1] for end in ends} == {("", "bad-archive")}


@pytest.mark.parametrize(
    ("name", "pack"), [("a.gz", gzip.compress), ("a.bz2", bz2.compress), ("a.xz", lzma.compress)]
)
def test_a_compressed_file_cut_off_anywhere_is_damaged(
    name: str, pack: Callable[[bytes], bytes]
) -> None:
    whole = pack(b"A plan, and what follows.")
    ends = {tuple(read_all(name, whole[:end])) for end in range(1, len(whole))}
    assert ends == {(("", "bad-archive"),)}


@pytest.mark.parametrize(("name", "pack"), [("a.zip", zipped), ("a.tar", tarred)])
def test_no_byte_that_is_flipped_makes_a_foreign_exception(
    name: str, pack: Callable[..., bytes]
) -> None:
    whole = pack(("a", b"x" * 20), ("b", b"y"))[:2560]
    flips = (whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(len(whole)))
    assert all(isinstance(read_all(name, flip), list) for flip in flips)


@pytest.mark.parametrize(
    "info", [header("a", kind=b"x", size=-512), header("a", size=-1024), header("b", size=-512)]
)
def test_a_tar_archive_that_leads_backwards_comes_to_an_end(info: tarfile.TarInfo) -> None:
    archive = bytes(512) + info.tobuf(tarfile.GNU_FORMAT) + tarred(("c", b"z"))
    assert read_all("a.tar", archive[512:])[-1] == ("", "bad-archive")


def test_a_chain_of_headers_comes_to_an_end() -> None:
    long = header("x", kind=tarfile.GNUTYPE_LONGNAME, size=1).tobuf() + b"n".ljust(512, b"\0")
    (code,) = [code for _, code in read_all("a.tar", long * 1500)]
    assert code in ("bad-archive", "archive-too-large")


def test_a_header_of_any_size_is_not_taken_into_memory() -> None:
    archive = header("x", kind=tarfile.XHDTYPE, size=1 << 40).tobuf(tarfile.GNU_FORMAT)
    assert trouble("a.tar", archive + bytes(5000)).reason == (
        "a header or directory of 1099511627776 bytes; expected at most 1048576"
    )


def test_a_member_that_says_it_is_too_large_is_not_read() -> None:
    found = trouble("a.zip", zipped(("a", bytes(101))), SMALL)
    assert (found.code, found.reason) == (
        "content-too-large",
        "'a' has 101 bytes; expected at most 100 bytes; raise --max-content-bytes to read it",
    )


def test_a_compressed_file_that_is_too_large_is_not_read_to_its_end() -> None:
    found = trouble("a.gz", gzip.compress(bytes(101)), SMALL)
    assert (found.code, found.reason) == (
        "content-too-large",
        "'a.gz' has more than 100 bytes; expected at most 100 bytes;"
        " raise --max-content-bytes to read it",
    )


@pytest.mark.parametrize(("name", "pack"), [("a.zip", zipped), ("a.tar", tarred)])
def test_an_archive_of_too_many_members_is_told(name: str, pack: Callable[..., bytes]) -> None:
    archive = pack(*[(f"{number}", b"") for number in range(4)])
    found = trouble(name, archive, SMALL)
    assert (found.code, found.reason) == (
        "archive-too-large",
        "more than 3 members; expected at most that",
    )


def test_members_of_one_path_count_as_many() -> None:
    found = trouble("a.tar", tarred(*[("a", b"")] * 4), SMALL)
    assert found.reason == "more than 3 members; expected at most that"


def test_a_bomb_is_told_before_it_goes_off() -> None:
    bomb = zipped(*[(f"{number}", bytes(90)) for number in range(60)])
    limits = ArchiveLimits(max_bytes=1000, max_ratio=0)
    assert [code for _, code in read_all("a.zip", bomb, limits)][9:12] == [
        bytes(90),
        bytes(90),
        "archive-too-large",
    ]


def test_a_bomb_is_told_by_what_its_headers_keep_silent_about() -> None:
    bomb = gzip.compress(tarred(("a", bytes(100_000)), ("b", b"y")))
    limits = ArchiveLimits(max_bytes=1000, max_ratio=100)
    names = [path for path, _ in read_all("a.tgz", bomb, limits)]
    (found,) = [code for path, code in read_all("a.tgz", bomb, limits) if not path]
    assert (names[0], found) == ("a", "archive-too-large")


def test_the_reason_tells_how_much_is_too_much() -> None:
    found = trouble("a.tar", tarred(("a", bytes(3000))), ArchiveLimits(max_bytes=1000, max_ratio=0))
    assert found.reason == "more than 1000 bytes when it is opened; expected at most that"


def test_more_is_allowed_to_what_is_larger_itself() -> None:
    archive = tarred(("a", bytes(3000)))
    assert read_all("a.tar", archive, ArchiveLimits(max_bytes=1, max_ratio=1)) == [
        ("a", bytes(3000))
    ]


def test_a_directory_of_any_size_is_not_taken_into_memory() -> None:
    whole = bytearray(zipped(("a", b"x")) + bytes(100))
    end = whole.index(b"PK\5\6")
    whole[end + 12 : end + 16] = (40 << 20).to_bytes(4, "little")
    torn = bytes(60 << 20) + bytes(whole[:-100])
    assert trouble("a.zip", torn).reason == (
        "a header or directory of 41943040 bytes; expected at most 33554432"
    )


class Endless(io.BytesIO):
    """A stream over a network that can be sought in, but whose end nobody told."""

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end")
        return super().seek(offset, whence)


class Dying(io.BytesIO):
    """A stream whose medium breaks."""

    def readinto(self, buffer: Any, /) -> int:  # any buffer
        raise OSError(5, "Input/output error")


def test_an_archive_of_unknown_size_is_not_read() -> None:
    with pytest.raises(RecordError) as caught:
        list(open_archive("a.zip", Endless(zipped(*TWO))))
    assert caught.value.reason == "'a.zip': unknown size; expected a server that states it"


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tgz", "a.gz"])
def test_trouble_of_the_medium_is_not_taken_for_damage(name: str) -> None:
    with pytest.raises(RecordError) as caught:
        list(open_archive(name, Dying(b"x" * 100)))
    assert (caught.value.code, caught.value.reason) == (
        "unreadable",
        f"'{name}': Input/output error; expected a file that can be read",
    )


def test_a_stream_stays_open() -> None:
    stream = io.BytesIO(zipped(*TWO))
    list(open_archive("a.zip", stream))
    assert not stream.closed
