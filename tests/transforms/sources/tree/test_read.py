"""Files that are read as a listing says, most of which are not what it says any more."""

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import pytest

from schemas.acl import Acl, Inheritance, Principal
from schemas.choices import Oversize
from schemas.errors import SourceError
from schemas.notice import Notice
from schemas.record import Action, Arrival, Content, Provenance, Record
from schemas.reject import Filtered, Reject
from schemas.sent_document import SentDocument, StateChange
from schemas.span import Span
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.read import opener_of, read_tree
from transforms.sources.tree.remote import open_remote
from transforms.sources.tree.tree import Tree, TreeAcl

BASE = "https://docs.example.com/"
SPAN = Span(source="docs", ordinal=3)
TIME_NS = 1_714_979_290_123_456_789
TIME = datetime(2024, 5, 6, 7, 8, 10, 123456, tzinfo=UTC)
ONE = sha256(b"first").hexdigest()
Files = Callable[..., ListingEntry]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Returns the function that makes a file below the root, and its line in a listing."""

    def make(key: str, content: bytes, **more: Any) -> ListingEntry:  # the fields of ListingEntry
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, ns=(TIME_NS, TIME_NS))
        return listed(path, key, size=len(content), **more)

    return make


def listed(path: Path, key: str, **more: Any) -> ListingEntry:  # the fields of ListingEntry
    line = ListingEntry(key=key, path=str(path), url=BASE + key, modified_ns=TIME_NS)
    return msgspec.structs.replace(line, **more)


def tree(**more: Any) -> Tree:  # the fields of Tree
    return msgspec.structs.replace(Tree(root="/srv", base_url=BASE), **more)


def run(*lines: ListingEntry, rules: Tree | None = None, **more: Any) -> list[ReadResult]:
    """What is found of some lines; `more` is told to `read_tree`."""
    listing = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    return list(read_tree(io.BytesIO(listing), tree=rules or tree(), **{"span": SPAN, **more}))


def run_seen(
    *lines: ListingEntry, rules: Tree | None = None
) -> tuple[list[ReadResult], list[StateChange]]:
    """What is found, and what a state is told of it."""
    seen: list[StateChange] = []
    return run(*lines, rules=rules, see=seen.append), seen


def one(*lines: ListingEntry, rules: Tree | None = None, **more: Any) -> ReadResult:
    (found,) = run(*lines, rules=rules, **more)
    return found


def record(*lines: ListingEntry, rules: Tree | None = None, **more: Any) -> Record:
    found = one(*lines, rules=rules, **more)
    assert isinstance(found, Record)
    return found


def reject(*lines: ListingEntry, rules: Tree | None = None, **more: Any) -> tuple[str, str]:
    """The code and the reason of the one line that is rejected."""
    found = one(*lines, rules=rules, **more)
    assert isinstance(found, Reject)
    return found.code, found.reason


def codes(found: list[ReadResult]) -> list[str]:
    return [getattr(each, "code", "good") for each in found]


def urls(found: list[ReadResult]) -> list[str]:
    return [each.url.removeprefix(BASE) for each in found if isinstance(each, Record)]


def filtered(code: str, key: str) -> Filtered:
    return Filtered(code=code, url=BASE + key, action="ADD")


def zipped(*members: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, content in members:
            archive.writestr(zipfile.ZipInfo(path, (2024, 5, 6, 7, 8, 10)), content)
    return stream.getvalue()


class Meddled(io.FileIO):
    """A file to which something happens when it is first read; `meddle` is given its path."""

    def __init__(self, path: str, meddle: Callable[[str], object]) -> None:
        super().__init__(path)
        self._path = path
        self._meddle = meddle

    def read(self, size: int | None = -1) -> bytes:
        block = super().read(size)
        meddle, self._meddle = self._meddle, leave
        meddle(self._path)
        return block

    def readinto(self, buffer: Any, /) -> int:  # any buffer
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)


def meddled(*meddles: Callable[[str], object]) -> Callable[[str], IO[bytes]]:
    """An opener of files; what happens to the first that is opened, to the second, and so on."""
    left = iter(meddles)
    return lambda path: cast(IO[bytes], Meddled(path, next(left, leave)))


def leave(_path: str) -> None:
    """Nothing happens."""


def append(path: str) -> None:
    with open(path, "ab") as stream:
        stream.write(b" and more")


def touch(path: str) -> None:
    os.utime(path, ns=(TIME_NS, TIME_NS + 1))


def test_a_file_is_a_record(files: Files) -> None:
    assert one(files("a/plan.txt", b"first")) == Record(
        url=BASE + "a/plan.txt",
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content(b"first"),
        mimetype="text/plain",
        charset="utf-8",
        modified=TIME,
        provenance=Provenance(source="docs", span=3),
    )


def test_a_record_tells_its_place_in_the_whole_listing(files: Files) -> None:
    lines = files("a.txt", b"x"), files("b.txt", b"y")
    first = len(msgspec.json.encode(lines[0])) + 1
    span = msgspec.structs.replace(SPAN, offset=1000)
    found = cast(list[Record], run(*lines, span=span))
    assert [each.provenance.offset for each in found] == [1000, 1000 + first]


def test_a_file_is_only_looked_at_when_its_record_is_asked_for(files: Files) -> None:
    lines = files("a.txt", b"x"), files("b.txt", b"y")
    opened: list[str] = []
    listing = io.BytesIO(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def open_file(path: str) -> IO[bytes]:
        opened.append(path)
        return open(path, "rb")

    next(read_tree(listing, span=SPAN, tree=tree(), open_file=open_file))
    assert opened == [lines[0].path]


def test_the_charset_of_the_user_is_that_of_texts_without_one(files: Files) -> None:
    found = record(files("a.txt", b"Pl\xf6n"), rules=tree(charset="iso-8859-1"))
    assert (found.charset, found.content) == ("iso-8859-1", Content(b"Pl\xf6n"))


def test_a_name_that_tells_another_type_is_noticed(files: Files) -> None:
    notice, found = run(files("a.txt", b"%PDF-1.4\n"))
    assert isinstance(found, Record)
    assert notice == Notice(
        code="mimetype-differs",
        detail="'a.txt': text/plain by its name; sent as application/pdf, which its content shows",
        source="docs",
        span=3,
    )


def test_a_year_that_nobody_else_knows_is_not_stated(files: Files) -> None:
    stream, info = io.BytesIO(), tarfile.TarInfo("a.txt")
    info.mtime, info.size = 1 << 42, 1
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(info, io.BytesIO(b"x"))
    assert record(files("a.tar", stream.getvalue()), rules=OPENING).modified is None


def test_a_tree_that_is_crawled_is_not_read(files: Files) -> None:
    line = files("a.pdf", b"x")
    os.remove(line.path)
    assert one(line, rules=tree(is_crawled=True)) == Record(
        url=BASE + "a.pdf",
        action=Action.ADD,
        arrival=Arrival.CRAWLED,
        mimetype="application/pdf",
        modified=TIME,
        provenance=Provenance(source="docs", span=3),
    )


def test_a_file_of_the_largest_size_is_read(files: Files) -> None:
    options = ReadOptions(max_content_bytes=5)
    assert record(files("a.txt", b"first"), options=options).content == Content(b"first")


def test_a_file_that_is_too_large_is_rejected(files: Files) -> None:
    assert reject(files("a.txt", b"second"), options=ReadOptions(max_content_bytes=5)) == (
        "content-too-large",
        "'a.txt' has 6 bytes; expected at most 5 bytes; raise --max-content-bytes,"
        " or use --oversize metadata",
    )


def test_of_a_file_that_is_too_large_its_metadata_may_be_sent(files: Files) -> None:
    found = record(
        files("a.pdf", b"second"),
        rules=tree(oversize=Oversize.METADATA),
        options=ReadOptions(max_content_bytes=5),
    )
    assert (found.content, found.arrival, found.mimetype, found.size, found.modified) == (
        None,
        Arrival.CRAWLED,
        "application/pdf",
        6,
        TIME,
    )


def test_a_remote_file_that_is_too_large_is_not_read_to_its_end(files: Files) -> None:
    line = msgspec.structs.replace(files("a.txt", b"second"), size=0)
    code, _ = reject(
        line,
        options=ReadOptions(max_content_bytes=5),
        open_file=lambda path: io.BytesIO(b"second"),
    )
    assert code == "content-too-large"


@pytest.mark.parametrize("meddle", [append, touch, lambda path: os.truncate(path, 2)])
def test_a_file_that_changes_while_it_is_read_is_rejected(
    files: Files, meddle: Callable[[str], object]
) -> None:
    assert reject(files("a.txt", b"first"), open_file=meddled(meddle)) == (
        "changed-while-read",
        "'a.txt' was changed while it was read; expected no change; start again",
    )


def test_a_remote_file_that_changed_since_it_was_listed_is_read_as_it_is(files: Files) -> None:
    found = record(files("a.txt", b"first"), open_file=lambda path: io.BytesIO(b"second"))
    assert found.content == Content(b"second")


def test_a_file_that_changed_since_it_was_listed_is_taken_as_it_is(files: Files) -> None:
    line = files("a.txt", b"first")
    append(line.path)
    touch(line.path)
    (found,), (seen,) = run_seen(line)
    assert cast(Record, found).content == Content(b"first and more")
    assert (seen.known.size, seen.known.modified_ns) == (14, TIME_NS + 1)


def test_a_file_that_vanished_is_filtered(files: Files) -> None:
    line = files("a.txt", b"first")
    os.remove(line.path)
    assert one(line) == filtered("vanished", "a.txt")


def test_a_file_whose_folder_became_a_file_vanished(files: Files) -> None:
    line = files("a/b.txt", b"first")
    os.remove(line.path)
    os.rmdir(Path(line.path).parent)
    Path(line.path).parent.write_bytes(b"x")
    assert one(line) == filtered("vanished", "a/b.txt")


@pytest.mark.parametrize("open_file", [None, lambda path: io.BytesIO()])
def test_a_file_that_is_empty_now_is_filtered(
    files: Files, open_file: Callable[[str], IO[bytes]] | None
) -> None:
    line = files("a.txt", b"first")
    os.truncate(line.path, 0)
    assert one(line, open_file=open_file) == filtered("empty", "a.txt")


def test_a_file_that_became_a_folder_is_rejected(files: Files) -> None:
    line = files("a.txt", b"first")
    os.remove(line.path)
    os.mkdir(line.path)
    assert reject(line) == ("unreadable", "'a.txt' is a folder; expected a file")


def test_a_file_that_became_a_pipe_is_not_waited_for(files: Files) -> None:
    line = files("a.txt", b"first")
    os.remove(line.path)
    os.mkfifo(line.path)
    assert one(line) == filtered("no-file", "a.txt")


def test_a_file_that_became_a_link_is_not_followed(files: Files) -> None:
    line, other = files("a.txt", b"first"), files("b.txt", b"second")
    os.remove(line.path)
    os.symlink(other.path, line.path)
    assert one(line) == filtered("symlink", "a.txt")


def test_a_link_is_followed_where_that_is_wanted(files: Files) -> None:
    line, other = files("a.txt", b"first"), files("b.txt", b"second")
    os.remove(line.path)
    os.symlink(other.path, line.path)
    assert record(line, rules=tree(follows_links=True)).content == Content(b"second")


def failing(exc: Exception) -> Callable[[str], IO[bytes]]:
    def open_file(_path: str) -> IO[bytes]:
        raise exc

    return open_file


@pytest.mark.parametrize(
    ("exc", "cause"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (OSError("the connection was lost"), "the connection was lost"),
    ],
)
def test_a_file_that_cannot_be_read_is_rejected(files: Files, exc: OSError, cause: str) -> None:
    assert one(files("a.txt", b"first"), open_file=failing(exc)) == Reject(
        code="unreadable",
        reason=f"'a.txt': {cause}; expected a file that can be read",
        stage="read",
        source="docs",
        span=3,
        url=BASE + "a.txt",
        action="ADD",
    )


def test_a_server_that_cannot_be_talked_to_ends_the_run(files: Files) -> None:
    with pytest.raises(SourceError, match="gone"):
        run(files("a.txt", b"first"), open_file=failing(SourceError("gone")))


def test_one_that_cannot_be_read_costs_no_other(files: Files) -> None:
    lines = [files(key, b"x") for key in ("a.txt", "b.txt")]
    os.remove(lines[0].path)
    assert codes(run(*lines)) == ["vanished", "good"]


def test_what_was_filtered_is_told(files: Files) -> None:
    line = files(".a", b"x", kind=EntryKind.FILTERED, code="hidden")
    assert one(line) == filtered("hidden", ".a")


def test_what_was_filtered_and_has_no_url_is_told_by_its_key(files: Files) -> None:
    line = files("a", b"x", kind=EntryKind.FILTERED, code="no-file", url="")
    assert one(line) == Filtered(code="no-file", url="a", action="ADD")


def test_what_was_rejected_is_told(files: Files) -> None:
    line = files("a", b"x", kind=EntryKind.REJECTED, code="file-name", reason="odd; expected UTF-8")
    assert one(line) == Reject(
        code="file-name",
        reason="odd; expected UTF-8",
        stage="read",
        source="docs",
        span=3,
        url=BASE + "a",
        action="ADD",
    )


def gone(key: str, url: str) -> ListingEntry:
    return ListingEntry(
        key=key, kind=EntryKind.GONE, url=url, known=SentDocument(key=key, url=url, size=5)
    )


def test_what_is_gone_is_deleted_and_forgotten() -> None:
    found, seen = run_seen(gone("a.txt", BASE + "a.txt"))
    assert found == [
        Record(
            url=BASE + "a.txt",
            action=Action.DELETE,
            provenance=Provenance(source="docs", span=3),
        )
    ]
    assert seen == [
        StateChange(known=SentDocument(key="a.txt", url=BASE + "a.txt", size=5), is_gone=True)
    ]


@pytest.mark.parametrize("key", ["a/", ""])
def test_of_a_folder_that_is_gone_the_acl_is_deleted(key: str) -> None:
    assert record(gone(key, BASE + key)).acl == Acl(alone=True)


def test_an_archive_that_is_gone_is_forgotten_only() -> None:
    found, seen = run_seen(gone("a.zip", ""))
    assert (found, [one.is_gone for one in seen]) == ([], [True])


def test_what_was_sent_is_remembered(files: Files) -> None:
    _, seen = run_seen(files("a.txt", b"first", fingerprint="0644"))
    known = SentDocument(
        key="a.txt",
        url=BASE + "a.txt",
        size=5,
        modified_ns=TIME_NS,
        fingerprint="0644",
        digest=ONE,
    )
    assert seen == [StateChange(known=known)]


def test_it_is_remembered_before_it_is_told(files: Files) -> None:
    seen: list[StateChange] = []
    listing = io.BytesIO(msgspec.json.encode(files("a.txt", b"first")) + b"\n")
    next(read_tree(listing, span=SPAN, tree=tree(), see=seen.append))
    assert len(seen) == 1


def test_what_is_rejected_is_not_remembered(files: Files) -> None:
    _, seen = run_seen(files("a.txt", b"first", sidecars=("/nowhere/a.txt.meta.json",)))
    assert seen == []


def known(digest: str, **more: Any) -> SentDocument:  # the fields of SentDocument
    before = SentDocument(key="a.txt", url=BASE + "a.txt", size=5, modified_ns=1, digest=digest)
    return msgspec.structs.replace(before, **more)


def test_a_file_that_was_only_touched_is_not_sent(files: Files) -> None:
    found, (seen,) = run_seen(files("a.txt", b"first", known=known(ONE)))
    assert found == [filtered("unchanged", "a.txt")]
    assert seen == StateChange(known=known(ONE, modified_ns=TIME_NS))


def test_nobody_needs_to_be_told_that_it_was(files: Files) -> None:
    assert one(files("a.txt", b"first", known=known(ONE))) == filtered("unchanged", "a.txt")


@pytest.mark.parametrize(
    "before", [known("0" * 64), known(ONE, fingerprint="0600"), known(ONE, url="x")]
)
def test_a_file_that_differs_in_anything_is_sent(files: Files, before: SentDocument) -> None:
    assert record(files("a.txt", b"first", known=before)).content == Content(b"first")


def test_a_bad_sidecar_costs_its_file(files: Files) -> None:
    sidecar = files("a.txt.meta.json", b"{")
    code, _ = reject(files("a.txt", b"first", sidecars=(sidecar.path,)))
    assert code == "bad-sidecar"


def test_of_a_folder_its_acl_is_sent(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    line = listed(tmp_path, "", kind=EntryKind.FOLDER, url=BASE)
    rules = tree(root=str(tmp_path), acl=TreeAcl(is_inherited=True))
    (found,), seen = run_seen(line, rules=rules)
    assert isinstance(found, Record)
    assert found.acl is not None
    assert (found.acl.alone, found.acl.inheritance, found.content) == (
        True,
        Inheritance.AND_BOTH_PERMIT,
        None,
    )
    assert [type(principal) for principal in found.acl.principals[:1]] == [Principal]
    assert (found.provenance.span, len(seen)) == (3, 1)


def test_a_folder_whose_acl_cannot_be_told_is_rejected(tmp_path: Path) -> None:
    line = listed(tmp_path / "gone", "gone/", kind=EntryKind.FOLDER)
    rules = tree(root=str(tmp_path), acl=TreeAcl(is_inherited=True))
    found, seen = run_seen(line, rules=rules)
    assert (type(found[0]), seen) == (Reject, [])


@pytest.mark.parametrize("root", ["s3://bucket", "sftp://host/srv"])
def test_a_remote_tree_is_opened_over_the_network(root: str) -> None:
    assert opener_of(Tree(root=root)) is open_remote


TWO = (("a.txt", b"first"), ("b/c d.txt", b"second"))
OPENING = tree(opens_archives=True)


@pytest.mark.parametrize("name", ["a.zip", "a.txt.gz"])
def test_archives_are_only_opened_on_demand_and_a_notice_names_the_flag(
    files: Files, name: str
) -> None:
    line = files(name, b"x")
    os.remove(line.path)
    assert run(line) == [
        Notice(
            code="archive-not-opened",
            detail=f"{name!r}: left out; --open-archives reads the files in it",
            source="docs",
            span=3,
        ),
        filtered("archive", name),
    ]


def test_an_archive_that_cannot_be_opened_has_no_notice(files: Files) -> None:
    assert one(files("a.7z", b"x")) == filtered("archive", "a.7z")


def test_an_archive_without_its_extension_is_none_to_be_sent(files: Files) -> None:
    assert run(files("backup", zipped(*TWO)))[-1] == filtered("archive", "backup")


def test_an_office_document_is_no_archive(files: Files) -> None:
    found = record(files("a.docx", zipped(("word/document.xml", b"x"))), rules=OPENING)
    assert found.url == BASE + "a.docx"


def test_an_appliance_cannot_crawl_what_is_in_an_archive(files: Files) -> None:
    rules = tree(opens_archives=True, is_crawled=True)
    assert one(files("a.zip", zipped(*TWO)), rules=rules) == filtered("archive", "a.zip")


def test_members_of_an_archive_are_records(files: Files) -> None:
    found = run(files("x/a.zip", zipped(*TWO)), rules=OPENING)
    assert found[1:] == [
        Record(
            url=BASE + "x/a.zip/b/c%20d.txt",
            action=Action.ADD,
            arrival=Arrival.PUSHED,
            content=Content(b"second"),
            mimetype="text/plain",
            charset="utf-8",
            modified=datetime(2024, 5, 6, 7, 8, 10, tzinfo=UTC),
            provenance=Provenance(source="docs", span=3),
        )
    ]


def test_members_are_below_the_url_of_the_archive_however_that_is_made(files: Files) -> None:
    line = files("a.zip", zipped(*TWO), url="https://docs.example.com/?id=a.zip")
    found = cast(list[Record], run(line, rules=OPENING))
    assert found[1].url == "https://docs.example.com/?id=a.zip/b/c%20d.txt"


def test_an_archive_without_its_extension_is_opened(files: Files) -> None:
    found = run(files("backup", zipped(*TWO)), rules=OPENING)
    assert urls(found) == ["backup/a.txt", "backup/b/c%20d.txt"]


def test_a_member_without_a_time_has_that_of_the_archive(files: Files) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt", (1980, 0, 0, 0, 0, 0)), b"x")
    assert record(files("a.zip", stream.getvalue()), rules=OPENING).modified == TIME


def test_rules_for_files_are_rules_for_members(files: Files) -> None:
    names = (".git", "~$a.doc", "empty.txt", "a.bak", "b.zip", "c.tgz", "folder/", "good.txt")
    line = files("a.zip", zipped(*[(name, b"" if name[0] in "ef" else b"x") for name in names]))
    rules = tree(opens_archives=True, exclude=("*.bak",))
    assert codes(run(line, rules=rules)) == [
        "hidden",
        "temporary",
        "empty",
        "excluded",
        "archive",
        "archive",
        "no-file",
        "good",
    ]


@pytest.mark.parametrize("path", ["../a", "b/../../a", "/etc/a", "b//a", "..", "b/./a"])
def test_a_member_whose_path_leads_out_of_the_archive_is_rejected(files: Files, path: str) -> None:
    found = run(files("a.zip", zipped((path, b"x"), ("good", b"y"))), rules=OPENING)
    assert codes(found) == ["file-name", "good"]
    assert cast(Reject, found[0]).reason == (
        f"{'a.zip/' + path!r}; expected no '//', '.' or '..' in a path"
    )


def test_a_member_whose_name_is_not_utf_8_is_rejected(files: Files) -> None:
    found = run(files("a.tar", tarred("Pl\udcf6n") + bytes(1024)), rules=OPENING)
    assert codes(found) == ["file-name"]


def test_an_archive_in_an_archive_is_not_opened_whatever_it_is_called(files: Files) -> None:
    line = files("a.zip", zipped(("b", zipped(*TWO))))
    assert one(line, rules=OPENING) == filtered("archive", "a.zip/b")


def test_a_member_that_is_too_large_is_rejected(files: Files) -> None:
    found = run(
        files("a.zip", zipped(*TWO)), rules=OPENING, options=ReadOptions(max_content_bytes=5)
    )
    assert codes(found) == ["good", "content-too-large"]


def test_of_a_member_that_is_too_large_its_metadata_may_be_sent(files: Files) -> None:
    rules = tree(opens_archives=True, oversize=Oversize.METADATA)
    found = run(files("a.zip", zipped(*TWO)), rules=rules, options=ReadOptions(max_content_bytes=5))
    assert [cast(Record, each).size for each in found] == [None, 6]


def test_an_archive_of_nothing_is_empty(files: Files) -> None:
    assert one(files("a.zip", zipped()), rules=OPENING) == filtered("empty", "a.zip")


def test_a_damaged_archive_costs_itself(files: Files) -> None:
    found = run(files("a.zip", b"plan"), files("b.txt", b"x"), rules=OPENING)
    assert codes(found) == ["bad-archive", "good"]


def test_a_damaged_archive_is_rejected_under_its_own_url(files: Files) -> None:
    found = one(files("a.zip", b"plan"), rules=OPENING)
    assert found == Reject(
        code="bad-archive",
        reason="'a.zip': File is not a zip file; expected a complete archive",
        stage="read",
        source="docs",
        span=3,
        url=BASE + "a.zip",
        action="ADD",
    )


def test_an_archive_that_vanished_is_filtered(files: Files) -> None:
    line = files("a.zip", zipped(*TWO))
    os.remove(line.path)
    assert one(line, rules=OPENING) == filtered("vanished", "a.zip")


def test_an_archive_that_changes_while_it_is_read_is_rejected(files: Files) -> None:
    found = run(files("a.zip", zipped(*TWO)), rules=OPENING, open_file=meddled(touch))
    assert codes(found) == ["good", "good", "changed-while-read"]


def test_members_are_remembered_and_then_the_archive(files: Files) -> None:
    line = files("a.zip", zipped(*TWO), fingerprint="0644")
    _, seen = run_seen(line, rules=OPENING)
    assert [one.known for one in seen] == [
        SentDocument(
            key="a.zip/a.txt",
            url=BASE + "a.zip/a.txt",
            size=5,
            modified_ns=1_714_979_290_000_000_000,
            fingerprint="0644",
            digest=ONE,
            parent="a.zip",
        ),
        SentDocument(
            key="a.zip/b/c d.txt",
            url=BASE + "a.zip/b/c%20d.txt",
            size=6,
            modified_ns=1_714_979_290_000_000_000,
            fingerprint="0644",
            digest=sha256(b"second").hexdigest(),
            parent="a.zip",
        ),
        SentDocument(key="a.zip", url="", size=line.size, modified_ns=TIME_NS, fingerprint="0644"),
    ]


def test_an_archive_of_which_something_was_rejected_is_to_be_read_again(files: Files) -> None:
    _, seen = run_seen(files("a.zip", zipped(("../a", b"x"), ("b", b"y"))), rules=OPENING)
    assert [one.known.key for one in seen] == ["a.zip/b", "a.zip"]
    assert seen[1].known.modified_ns is None


def test_an_archive_that_is_torn_behind_a_member_is_to_be_read_again(files: Files) -> None:
    _, seen = run_seen(files("a.tar", tarred("a.txt")), rules=OPENING)
    assert [(one.known.key, one.known.modified_ns) for one in seen][1:] == [("a.tar", None)]


def tarred(path: str) -> bytes:
    """A tar archive of one member, torn behind it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        info = tarfile.TarInfo(path)
        info.size = 5
        archive.addfile(info, io.BytesIO(b"first"))
    return stream.getvalue()[:1024]


def test_an_archive_of_which_nothing_was_read_is_not_remembered(files: Files) -> None:
    _, seen = run_seen(files("a.zip", b"plan"), rules=OPENING)
    assert seen == []


def member(path: str, content: bytes) -> SentDocument:
    return SentDocument(
        key=f"a.zip/{path}",
        url=f"{BASE}a.zip/{path}",
        size=len(content),
        digest=sha256(content).hexdigest(),
        parent="a.zip",
    )


def test_members_have_the_sidecars_of_the_archive(files: Files) -> None:
    acl = b'<record><acl><principal scope="user" access="permit">ida</principal></acl></record>'
    sidecar = files("a.zip.metadata.xml", acl)
    found = run(files("a.zip", zipped(*TWO), sidecars=(sidecar.path,)), rules=OPENING)
    names = [[who.name for who in cast(Acl, cast(Record, one).acl).principals] for one in found]
    assert names == [["ida"], ["ida"]]


def test_a_bad_sidecar_costs_all_members_of_an_archive(files: Files) -> None:
    sidecar = files("a.zip.meta.json", b"[1]")
    found = run(files("a.zip", zipped(*TWO), sidecars=(sidecar.path,)), rules=OPENING)
    assert codes(found) == ["bad-sidecar", "bad-sidecar"]


def sent(key: str) -> SentDocument:
    return SentDocument(key=key, url=BASE + key)


def actions(found: list[ReadResult]) -> list[tuple[str, str]]:
    """What a target is told, and what is left out."""
    return [
        (one.action.value, one.url.removeprefix(BASE))
        if isinstance(one, Record)
        else (getattr(one, "code", ""), "")
        for one in found
    ]


def test_members_of_an_archive_that_is_not_to_be_opened_any_more_are_deleted(files: Files) -> None:
    line = files("a.zip", zipped(*TWO), members=(member("a.txt", b"first"),))
    found, seen = run_seen(line)
    assert actions(found)[1:] == [("archive", ""), ("DELETE", "a.zip/a.txt")]
    assert [one.known.key for one in seen if one.is_gone] == ["a.zip", "a.zip/a.txt"]


def test_a_document_that_is_an_archive_now_is_deleted(files: Files) -> None:
    found, seen = run_seen(files("doc", zipped(*TWO), members=(sent("doc"),)))
    assert actions(found)[1:] == [("archive", ""), ("DELETE", "doc")]
    assert {(one.known.key, one.is_gone) for one in seen} == {("doc", True)}


def test_a_document_that_is_an_opened_archive_now_is_deleted(files: Files) -> None:
    line = files("doc", zipped(*TWO), members=(sent("doc"),))
    found, seen = run_seen(line, rules=OPENING)
    assert actions(found) == [("ADD", "doc/a.txt"), ("ADD", "doc/b/c%20d.txt"), ("DELETE", "doc")]
    assert [(one.known.key, one.is_gone) for one in seen][2:] == [("doc", True), ("doc", False)]


def test_a_document_that_is_a_torn_archive_now_is_deleted_if_it_has_members(files: Files) -> None:
    line = files("doc.tar", tarred("a.txt"), members=(sent("doc.tar"),))
    found = run(line, rules=OPENING)
    assert actions(found) == [("ADD", "doc.tar/a.txt"), ("bad-archive", ""), ("DELETE", "doc.tar")]


def test_members_of_an_archive_that_is_a_document_now_are_deleted(files: Files) -> None:
    line = files("doc", b"plan", members=(sent("doc/a.txt"),))
    found, seen = run_seen(line, rules=OPENING)
    assert actions(found) == [("ADD", "doc"), ("DELETE", "doc/a.txt")]
    assert [(one.known.key, one.is_gone) for one in seen] == [("doc", False), ("doc/a.txt", True)]


def test_members_stay_while_the_document_in_their_place_is_rejected(files: Files) -> None:
    sidecar = files("doc.meta.json", b"[1]")
    line = files("doc", b"plan", members=(sent("doc/a.txt"),), sidecars=(sidecar.path,))
    assert actions(run(line, rules=OPENING)) == [("bad-sidecar", "")]


def test_a_document_that_has_changed_is_not_deleted(files: Files) -> None:
    assert actions(run(files("doc", b"plan", members=(sent("doc"),)))) == [("ADD", "doc")]


def test_members_that_have_not_changed_are_not_sent(files: Files) -> None:
    line = files("a.zip", zipped(*TWO), members=(member("a.txt", b"first"),))
    assert codes(run(line, rules=OPENING)) == ["unchanged", "good"]


def test_members_that_are_gone_are_deleted(files: Files) -> None:
    line = files("a.zip", zipped(*TWO), members=(member("old.txt", b"x"),))
    found, seen = run_seen(line, rules=OPENING)
    assert cast(Record, found[-1]).action is Action.DELETE
    assert [one.known.key for one in seen if one.is_gone] == ["a.zip/old.txt"]


def test_members_that_are_left_out_now_are_deleted(files: Files) -> None:
    line = files("a.zip", zipped(("a.txt", b"")), members=(member("a.txt", b"first"),))
    found = run(line, rules=OPENING)
    assert found[0] == filtered("empty", "a.zip/a.txt")
    assert urls(found) == ["a.zip/a.txt"]


def test_members_of_an_archive_that_is_empty_now_are_deleted(files: Files) -> None:
    line = files("a.zip", zipped(), members=(member("a.txt", b"first"),))
    assert urls(run(line, rules=OPENING)) == ["a.zip/a.txt"]


def test_of_a_damaged_archive_nothing_is_deleted(files: Files) -> None:
    line = files("a.zip", zipped(*TWO)[:-1], members=(member("old.txt", b"x"),))
    assert codes(run(line, rules=OPENING)) == ["bad-archive"]


def test_a_member_that_is_rejected_now_is_not_deleted(files: Files) -> None:
    line = files("a.zip", zipped(*TWO), members=(member("b/c d.txt", b"x"),))
    found = run(line, rules=OPENING, options=ReadOptions(max_content_bytes=5))
    assert codes(found) == ["good", "content-too-large"]


def test_trouble_of_a_state_is_not_taken_for_that_of_a_file(files: Files) -> None:
    def see(_seen: StateChange) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        run(files("a.zip", zipped(*TWO)), rules=OPENING, see=see)


def test_an_exception_while_a_file_is_read_costs_that_file(files: Files) -> None:
    lines = [files("a.txt", b"first"), files("b.txt", b"second"), files("c.txt", b"third")]
    opener = opener_of(tree())

    def open_file(path: str) -> IO[bytes]:
        if path.endswith("b.txt"):
            raise KeyError(path)
        return opener(path)

    found = run(*lines, open_file=open_file)
    assert codes(found) == ["good", "defect", "good"]
    assert urls(found) == ["a.txt", "c.txt"]
