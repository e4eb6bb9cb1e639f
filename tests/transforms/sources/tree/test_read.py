"""Files that are read as a listing states, though many have changed since it was made."""

import io
import os
import pwd
import tarfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, cast

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.choices import Oversize
from feedferry.schemas.errors import ConfigError, SourceError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Arrival, Content, Crawl, Meta, Provenance, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.sources.files import open_file as open_path
from feedferry.transforms.sources.listing import EntryKind, ListingEntry
from feedferry.transforms.sources.tree.documents.read import read_tree
from feedferry.transforms.sources.tree.rules.tree import Tree, TreeAcl

BASE = "https://docs.example.com/"
SPAN = Span(source="docs", ordinal=3)
PROVENANCE = Provenance(source="docs", span=3)
TIME_NS = 1_714_979_290_123_456_789
TIME = datetime(2024, 5, 6, 7, 8, 10, 123456, tzinfo=UTC)
FIRST = sha256(b"first").hexdigest()
SMALL = ReadOptions(max_content_bytes=5)
TREE = Tree(root="/srv", base_url=BASE)
OPENING = replace(TREE, open_archives=True)
METADATA = replace(OPENING, oversize=Oversize.METADATA)
INHERITED = TreeAcl(is_inherited=True)
TWO = (("a.txt", b"first"), ("b/c d.txt", b"second"))
Files = Callable[..., ListingEntry]
Opener = Callable[[str], IO[bytes]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return the function that makes a file below the root, and its line in a listing."""
    tmp_path.chmod(0o755)

    def make(key: str, content: bytes, **more: Any) -> ListingEntry:  # the fields of ListingEntry
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, ns=(TIME_NS, TIME_NS))
        changed_ns = path.stat().st_ctime_ns
        return listed(path, key, **{"size": len(content), "changed_ns": changed_ns, **more})

    return make


def listed(path: Path, key: str, **more: Any) -> ListingEntry:  # the fields of ListingEntry
    line = ListingEntry(key=key, path=str(path), url=BASE + key, modified_ns=TIME_NS)
    return replace(line, **more)


def run(*lines: ListingEntry, rules: Tree = TREE, **more: Any) -> list[ReadResult]:
    """Return the results of some lines; `more` is passed to `read_tree`.

    The root of a local tree is that of its first line.
    """
    if lines and lines[0].path.endswith(f"/{lines[0].key}"):
        rules = replace(rules, root=lines[0].path.removesuffix(f"/{lines[0].key}"))
    listing = b"".join(encode(line) + b"\n" for line in lines)
    return list(read_tree(io.BytesIO(listing), tree=rules, **{"span": SPAN, **more}))


def run_seen(
    *lines: ListingEntry, rules: Tree = TREE
) -> tuple[list[ReadResult], list[StateChange]]:
    """Return the results of some lines, and the changes of a state."""
    seen: list[StateChange] = []
    return run(*lines, rules=rules, see=seen.append), seen


def only_result(*lines: ListingEntry, rules: Tree = TREE, **more: Any) -> ReadResult:
    (result,) = run(*lines, rules=rules, **more)
    return result


def record(*lines: ListingEntry, rules: Tree = TREE, **more: Any) -> Record:
    result = only_result(*lines, rules=rules, **more)
    assert isinstance(result, Record)
    return result


def reject(*lines: ListingEntry, rules: Tree = TREE, **more: Any) -> tuple[str, str]:
    """Return the code and the reason of the one line, which is rejected."""
    result = only_result(*lines, rules=rules, **more)
    assert isinstance(result, Reject)
    return result.code, result.reason


def codes(results: list[ReadResult]) -> list[str]:
    return [getattr(result, "code", "good") for result in results]


def urls(results: list[ReadResult]) -> list[str]:
    return [result.url.removeprefix(BASE) for result in results if isinstance(result, Record)]


def actions(results: list[ReadResult]) -> list[str]:
    """Return the URLs of records, of deletions with a minus, and the codes of other results."""
    return [
        ("-" if result.action is Action.DELETE else "") + result.url.removeprefix(BASE)
        if isinstance(result, Record)
        else getattr(result, "code", "")
        for result in results
    ]


def filtered(code: str, key: str) -> Filtered:
    return Filtered(code=code, url=BASE + key, action="ADD")


def notice(code: str, detail: str) -> Notice:
    return Notice(code=code, detail=detail, source="docs", span=3)


def failing(error: Exception) -> Opener:
    def open_file(_path: str) -> IO[bytes]:
        raise error

    return open_file


def of_bytes(content: bytes) -> Opener:
    """Return the function that opens remote files, all with the same content."""
    return lambda _path: io.BytesIO(content)


class ChangingFile(io.FileIO):
    """A file that changes after it is first read; `change` is given its path."""

    def __init__(self, path: str, change: Callable[[str], object]) -> None:
        super().__init__(path)
        self._path = path
        self._change: Callable[[str], object] | None = change

    def read(self, size: int | None = -1) -> bytes:
        block = super().read(size)
        if self._change:
            self._change(self._path)
        self._change = None
        return block


def changing(change: Callable[[str], object]) -> Opener:
    return lambda path: cast(IO[bytes], ChangingFile(path, change))


def append(path: str) -> None:
    with open(path, "ab") as stream:
        stream.write(b" and more")


def touch(path: str) -> None:
    os.utime(path, ns=(TIME_NS, TIME_NS + 1))


def zipped(*members: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, content in members:
            archive.writestr(zipfile.ZipInfo(path, (2024, 5, 6, 7, 8, 10)), content)
    return stream.getvalue()


def tarred(path: str, *, mtime: int = 0) -> bytes:
    """Return a tar archive of one member, without the mark at its end."""
    stream, info = io.BytesIO(), tarfile.TarInfo(path)
    info.size, info.mtime = 5, mtime
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(b"first"))
    return stream.getvalue()[:1024]


def test_a_file_is_a_record(files: Files) -> None:
    assert only_result(files("a/plan.txt", b"first")) == Record(
        url=BASE + "a/plan.txt",
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content(b"first"),
        mimetype="text/plain",
        charset="utf-8",
        modified=TIME,
        provenance=PROVENANCE,
    )


def test_a_record_states_its_place_in_the_whole_listing(files: Files) -> None:
    lines = files("a.txt", b"x"), files("b.txt", b"y")
    records = cast(list[Record], run(*lines, span=replace(SPAN, offset=1000)))
    offsets = [1000, 1001 + len(encode(lines[0]))]
    assert [each.provenance.offset for each in records] == offsets


def test_a_file_is_opened_only_when_its_record_is_asked_for(files: Files) -> None:
    lines = files("a.txt", b"x"), files("b.txt", b"y")
    opened: list[str] = []
    listing = io.BytesIO(b"".join(encode(line) + b"\n" for line in lines))

    def open_file(path: str) -> IO[bytes]:
        opened.append(path)
        return open(path, "rb")

    next(read_tree(listing, span=SPAN, tree=TREE, open_file=open_file))
    assert opened == [lines[0].path]


def test_texts_that_declare_no_charset_have_the_given_one(files: Files) -> None:
    result = record(files("a.txt", b"Pl\xf6n"), rules=replace(TREE, charset="iso-8859-1"))
    assert (result.charset, result.content) == ("iso-8859-1", Content(b"Pl\xf6n"))


def test_a_name_that_has_another_type_than_the_content_has_a_notice(files: Files) -> None:
    detail = "'a.txt': text/plain by its name; sent as application/pdf, which its content shows"
    results = run(files("a.txt", b"%PDF-1.4\n"))
    assert (results[0], codes(results)) == (
        notice("mimetype-differs", detail),
        ["mimetype-differs", "good"],
    )


def test_a_year_that_datetime_cannot_hold_is_not_stated(files: Files) -> None:
    archive = tarred("a.txt", mtime=1 << 42) + bytes(1024)
    assert record(files("a.tar", archive), rules=OPENING).modified is None


def test_a_file_that_the_target_fetches_is_not_read(files: Files) -> None:
    def refuse(path: str) -> IO[bytes]:
        raise AssertionError(path)

    line, crawled = files("a.pdf", b"x"), replace(TREE, is_crawled=True)
    assert only_result(line, rules=crawled, open_file=refuse) == Record(
        url=BASE + "a.pdf",
        action=Action.ADD,
        arrival=Arrival.CRAWLED,
        mimetype="application/pdf",
        modified=TIME,
        provenance=PROVENANCE,
    )


@pytest.mark.parametrize("size", [0, 6])
@pytest.mark.parametrize("open_file", [None, of_bytes(b"second")])
def test_a_file_that_is_too_large_is_rejected(
    files: Files, open_file: Opener | None, size: int
) -> None:
    line = replace(files("a.txt", b"second"), size=size)
    assert reject(line, options=SMALL, open_file=open_file) == (
        "content-too-large",
        "'a.txt' has 6 bytes; expected at most 5 bytes; raise --max-content-bytes,"
        " or use --oversize metadata",
    )
    assert record(files("a.txt", b"first"), options=SMALL).content == Content(b"first")


def test_the_metadata_of_a_file_that_is_too_large_can_be_sent(files: Files) -> None:
    assert only_result(files("a.pdf", b"second"), rules=METADATA, options=SMALL) == Record(
        url=BASE + "a.pdf",
        action=Action.ADD,
        arrival=Arrival.CRAWLED,
        mimetype="application/pdf",
        size=6,
        modified=TIME,
        provenance=PROVENANCE,
    )


@pytest.mark.parametrize("change", [append, touch, lambda path: os.truncate(path, 2)])
def test_a_file_that_changes_while_it_is_read_is_rejected(
    files: Files, change: Callable[[str], object]
) -> None:
    assert reject(files("a.txt", b"first"), open_file=changing(change)) == (
        "changed-while-read",
        "'a.txt' was changed while it was read; expected no change; start again",
    )
    archive = files("a.zip", zipped(*TWO))
    results = run(archive, rules=OPENING, open_file=changing(touch))
    assert codes(results) == ["good", "good", "changed-while-read"]


def test_a_file_that_changed_since_it_was_listed_is_read_as_it_is(files: Files) -> None:
    line = files("a.txt", b"first")
    append(line.path)
    touch(line.path)
    (result,), (seen,) = run_seen(line)
    assert cast(Record, result).content == Content(b"first and more")
    changed_ns = os.stat(line.path).st_ctime_ns
    assert (seen.document.size, seen.document.modified_ns) == (14, changed_ns)
    assert record(line, open_file=of_bytes(b"second")).content == Content(b"second")


def be_file_below(path: str) -> None:
    os.rmdir(Path(path).parent)
    Path(path).parent.write_bytes(b"x")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: None, "vanished"),
        (be_file_below, "vanished"),
        (lambda path: Path(path).touch(), "empty"),
        (os.mkfifo, "no-file"),
        (lambda path: os.symlink("/etc/passwd", path), "symlink"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.zip"])
def test_a_file_that_became_something_else_is_filtered(
    files: Files, make: Callable[[str], object], code: str, name: str
) -> None:
    line = files(f"a/{name}", b"first")
    os.remove(line.path)
    make(line.path)
    assert only_result(line, rules=OPENING) == filtered(code, f"a/{name}")


def test_a_remote_file_that_is_empty_is_filtered(files: Files) -> None:
    assert only_result(files("a.txt", b"first"), open_file=of_bytes(b"")) == filtered(
        "empty", "a.txt"
    )


def test_a_file_that_became_a_folder_is_rejected(files: Files) -> None:
    line = files("a.txt", b"first")
    os.remove(line.path)
    os.mkdir(line.path)
    assert reject(line) == ("unreadable", "'a.txt' is a folder; expected a file")


def test_a_link_is_followed_on_demand(files: Files) -> None:
    line, other = files("a.txt", b"first"), files("b.txt", b"second")
    os.remove(line.path)
    os.symlink(other.path, line.path)
    rules = replace(TREE, follow_links=True)
    assert record(line, rules=rules).content == Content(b"second")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (OSError("the connection was lost"), "the connection was lost"),
    ],
)
def test_a_file_that_cannot_be_read_is_rejected(files: Files, error: OSError, cause: str) -> None:
    assert only_result(files("a.txt", b"first"), open_file=failing(error)) == Reject(
        code="unreadable",
        reason=f"'a.txt': {cause}; expected a file that can be read",
        stage="read",
        source="docs",
        span=3,
        key="a.txt",
        url=BASE + "a.txt",
        action="ADD",
    )


def test_a_server_without_a_connection_ends_the_run(files: Files) -> None:
    with pytest.raises(SourceError, match="gone"):
        run(files("a.txt", b"first"), open_file=failing(SourceError("gone")))


def test_an_exception_while_a_file_is_read_costs_that_file(files: Files) -> None:
    lines = [files(name, b"first") for name in ("a.txt", "b.txt", "c.txt", "d.txt")]
    os.remove(lines[2].path)

    def open_file(path: str) -> IO[bytes]:
        if path.endswith("b.txt"):
            raise KeyError(path)
        return open_path(path, follows_links=False)

    results = run(*lines, open_file=open_file)
    assert actions(results) == ["a.txt", "defect", "vanished", "d.txt"]


def test_an_error_of_the_state_is_not_taken_for_an_error_of_a_file(files: Files) -> None:
    def see(_seen: StateChange) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        run(files("a.zip", zipped(*TWO)), rules=OPENING, see=see)


def test_files_that_were_left_out_or_rejected_are_reported(files: Files) -> None:
    hidden = files(".a", b"x", kind=EntryKind.FILTERED, code="hidden")
    reason = "odd; expected UTF-8"
    odd = files("a", b"x", kind=EntryKind.REJECTED, code="file-name", reason=reason)
    assert run(hidden, replace(hidden, url=""), odd) == [
        filtered("hidden", ".a"),
        Filtered(code="hidden", url=".a", action="ADD"),
        Reject(
            code="file-name",
            reason=reason,
            stage="read",
            source="docs",
            span=3,
            offset=len(encode(hidden)) + len(encode(replace(hidden, url=""))) + 2,
            key="a",
            url=BASE + "a",
            action="ADD",
        ),
    ]


def gone(key: str, url: str) -> tuple[ListingEntry, SentDocument]:
    known = SentDocument(key=key, url=url)
    return ListingEntry(key=key, kind=EntryKind.GONE, url=url), known


@pytest.mark.parametrize(("key", "acl"), [("a.txt", None), ("a/", Acl(alone=True))])
def test_a_document_that_is_gone_is_deleted_and_of_a_folder_its_acl(
    key: str, acl: Acl | None
) -> None:
    line, known = gone(key, BASE + key)
    deletion = Record(url=BASE + key, action=Action.DELETE, acl=acl, provenance=PROVENANCE)
    assert run_seen(line) == ([deletion], [StateChange(document=known, is_deleted=True)])


def test_an_archive_that_is_gone_is_only_removed_from_the_state() -> None:
    line, known = gone("a.zip", "")
    assert run_seen(line) == ([], [StateChange(document=known, is_deleted=True)])


def sent(key: str, **more: Any) -> SentDocument:  # the fields of SentDocument
    return replace(SentDocument(key=key, url=BASE + key), **more)


A_TXT = sent("a.txt", size=5, modified_ns=TIME_NS, digest=FIRST)


def test_a_document_is_passed_to_the_state_before_its_record(files: Files) -> None:
    seen: list[StateChange] = []
    line = files("a.txt", b"first", fingerprint="0644")
    listing = io.BytesIO(encode(line) + b"\n")
    root = line.path.removesuffix("/a.txt")
    next(read_tree(listing, span=SPAN, tree=replace(TREE, root=root), see=seen.append))
    document = replace(A_TXT, fingerprint="0644", modified_ns=line.changed_ns)
    assert seen == [StateChange(document=document)]


def test_a_rejected_file_is_not_passed_to_the_state(files: Files) -> None:
    sidecar = files("a.txt.meta.json", b"{")
    results, seen = run_seen(files("a.txt", b"first", sidecars=(sidecar.path,)))
    assert (codes(results), seen) == (["bad-sidecar"], [])


def test_a_file_that_was_only_touched_is_not_sent(files: Files) -> None:
    line = files("a.txt", b"first", sent_document=replace(A_TXT, modified_ns=1))
    document = replace(A_TXT, modified_ns=line.changed_ns)
    assert run_seen(line) == ([filtered("unchanged", "a.txt")], [StateChange(document=document)])
    assert only_result(line) == filtered("unchanged", "a.txt")


@pytest.mark.parametrize("change", [{"digest": "0" * 64}, {"fingerprint": "0600"}, {"url": "x"}])
def test_a_file_that_differs_in_any_way_is_sent(files: Files, change: dict[str, str]) -> None:
    line = files("a.txt", b"first", sent_document=replace(A_TXT, **change))
    assert record(line).content == Content(b"first")


def test_the_acl_of_a_folder_is_sent(tmp_path: Path) -> None:
    rules = replace(TREE, root=str(tmp_path), acl=INHERITED)
    line = listed(tmp_path, "", kind=EntryKind.FOLDER, url=BASE)
    (result,), seen = run_seen(line, rules=rules)
    assert isinstance(result, Record)
    assert result.acl is not None
    assert (result.acl.alone, result.acl.inheritance) == (True, Inheritance.AND_BOTH_PERMIT)
    assert (result.content, len(seen)) == (None, 1)
    missing = listed(tmp_path / "gone", "gone/", kind=EntryKind.FOLDER)
    results, seen = run_seen(missing, rules=rules)
    assert (codes(results), seen) == (["no-acl"], [])


def test_the_files_of_a_remote_tree_are_opened_over_the_network() -> None:
    with pytest.raises(ConfigError, match="unknown scheme 'ftp'; expected one of s3, gs, az, abfs"):
        run(replace(listed(Path(), "a.txt"), path="ftp://host/a.txt"))


@pytest.mark.parametrize("name", ["a.zip", "a.txt.gz"])
def test_archives_are_only_opened_on_demand_and_a_notice_names_the_flag(
    files: Files, name: str
) -> None:
    line = files(name, b"x")
    os.remove(line.path)
    detail = f"{name!r}: left out; --open-archives reads the files in it"
    assert run(line) == [notice("archive-not-opened", detail), filtered("archive", name)]


def test_an_archive_that_cannot_be_opened_has_no_notice(files: Files) -> None:
    assert only_result(files("a.7z", b"x")) == filtered("archive", "a.7z")
    crawled = replace(OPENING, is_crawled=True)
    assert only_result(files("a.zip", zipped(*TWO)), rules=crawled) == filtered("archive", "a.zip")


def test_an_archive_without_its_extension_is_an_archive(files: Files) -> None:
    line = files("backup", zipped(*TWO))
    assert run(line)[-1] == filtered("archive", "backup")
    assert urls(run(line, rules=OPENING)) == ["backup/a.txt", "backup/b/c%20d.txt"]


def test_an_office_document_is_no_archive(files: Files) -> None:
    result = record(files("a.docx", zipped(("word/document.xml", b"x"))), rules=OPENING)
    assert result.url == BASE + "a.docx"


def test_members_of_an_archive_are_records_below_its_url(files: Files) -> None:
    line = files("x/a.zip", zipped(*TWO), url=BASE + "?id=a.zip")
    assert run(line, rules=OPENING)[1] == Record(
        url=BASE + "?id=a.zip/b/c%20d.txt",
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content(b"second"),
        mimetype="text/plain",
        charset="utf-8",
        modified=datetime(2024, 5, 6, 7, 8, 10, tzinfo=UTC),
        provenance=PROVENANCE,
    )


def test_a_member_without_a_time_has_that_of_the_archive(files: Files) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt", (1980, 0, 0, 0, 0, 0)), b"x")
    assert record(files("a.zip", stream.getvalue()), rules=OPENING).modified == TIME


def test_rules_for_files_apply_to_members(files: Files) -> None:
    names = (".git", "~$a.doc", "empty.txt", "a.bak", "b.zip", "c.tgz", "folder/", "good.txt")
    members = [(name, b"" if name[0] in "ef" else b"x") for name in names]
    line = files("a.zip", zipped(*members, ("d", zipped(*TWO))))
    assert codes(run(line, rules=replace(OPENING, exclude=("*.bak",)))) == [
        "hidden",
        "temporary",
        "empty",
        "excluded",
        "archive",
        "archive",
        "no-file",
        "good",
        "archive",
    ]


@pytest.mark.parametrize("path", ["../a", "b/../../a", "/etc/a", "b//a", "..", "b/./a"])
def test_a_member_whose_path_leads_out_of_the_archive_is_rejected(files: Files, path: str) -> None:
    results = run(files("a.zip", zipped((path, b"x"), ("good", b"y"))), rules=OPENING)
    assert codes(results) == ["file-name", "good"]
    reason = f"{'a.zip/' + path!r}; expected no '//', '.' or '..' in a path"
    assert cast(Reject, results[0]).reason == reason


def test_a_member_whose_name_is_not_utf_8_is_rejected(files: Files) -> None:
    archive = tarred("Pl\udcf6n") + bytes(1024)
    assert codes(run(files("a.tar", archive), rules=OPENING)) == ["file-name"]


def test_a_member_that_is_too_large_is_rejected_or_only_its_metadata_are_sent(
    files: Files,
) -> None:
    line = files("a.zip", zipped(*TWO))
    assert codes(run(line, rules=OPENING, options=SMALL)) == ["good", "content-too-large"]
    records = cast(list[Record], run(line, rules=METADATA, options=SMALL))
    assert [each.size for each in records] == [None, 6]


def test_an_empty_archive_is_filtered(files: Files) -> None:
    assert only_result(files("a.zip", zipped()), rules=OPENING) == filtered("empty", "a.zip")


def test_a_damaged_archive_costs_itself(files: Files) -> None:
    results, seen = run_seen(files("a.zip", b"plan"), files("b.txt", b"x"), rules=OPENING)
    assert results[0] == Reject(
        code="bad-archive",
        reason="'a.zip': File is not a zip file; expected a complete archive",
        stage="read",
        source="docs",
        span=3,
        key="a.zip",
        url=BASE + "a.zip",
        action="ADD",
    )
    assert (codes(results)[1:], [change.document.key for change in seen]) == (["good"], ["b.txt"])


def member(path: str, content: bytes, **more: Any) -> SentDocument:  # the fields of SentDocument
    known = SentDocument(
        key=f"a.zip/{path}",
        url=f"{BASE}a.zip/{path.replace(' ', '%20')}",
        size=len(content),
        digest=sha256(content).hexdigest(),
        parent="a.zip",
    )
    return replace(known, **more)


def test_members_are_passed_to_the_state_and_then_the_archive(files: Files) -> None:
    line = files("a.zip", zipped(*TWO), fingerprint="0644")
    more = {"modified_ns": 1_714_979_290_000_000_000, "fingerprint": "0644"}
    archive = sent("a.zip", url="", size=line.size, modified_ns=TIME_NS, fingerprint="0644")
    archive = replace(archive, modified_ns=line.changed_ns)
    known = [*(member(path, content, **more) for path, content in TWO), archive]
    assert [change.document for change in run_seen(line, rules=OPENING)[1]] == known


@pytest.mark.parametrize(
    ("name", "archive"),
    [("a.zip", zipped(("../a", b"x"), ("a.txt", b"y"))), ("a.tar", tarred("a.txt"))],
)
def test_an_archive_with_a_reject_or_damage_is_read_again_by_the_next_run(
    files: Files, name: str, archive: bytes
) -> None:
    _, seen = run_seen(files(name, archive), rules=OPENING)
    assert [change.document.key for change in seen] == [f"{name}/a.txt", name]
    assert seen[1].document.modified_ns is None


def test_members_have_the_sidecars_of_the_archive(files: Files) -> None:
    acl = b'<record><acl><principal scope="user" access="permit">ida</principal></acl></record>'
    good, bad = files("a.zip.metadata.xml", acl), files("a.zip.meta.json", b"[1]")
    line = files("a.zip", zipped(*TWO), sidecars=(good.path,))
    acls = [cast(Acl, cast(Record, each).acl) for each in run(line, rules=OPENING)]
    assert [acl.principals[0].name for acl in acls] == ["ida", "ida"]
    results = run(replace(line, sidecars=(bad.path,)), rules=OPENING)
    assert codes(results) == ["bad-sidecar", "bad-sidecar"]


OLD = sent("a.zip/old.txt", parent="a.zip")


ZIPPED, TAR, DOC = zipped(*TWO), tarred("a.txt"), sent("doc")
WITHOUT_OLD, TOO_LARGE = zipped(("old.txt", b"")), zipped(("old.txt", bytes(501)))


@pytest.mark.parametrize(
    ("file", "members", "rules", "expected"),
    [
        # An archive that is not opened any more, and a document that became an archive.
        (("a.zip", ZIPPED), (OLD,), TREE, ["archive", "-a.zip/old.txt"]),
        (("doc", ZIPPED), (DOC,), TREE, ["archive", "-doc"]),
        (("doc", ZIPPED), (DOC,), OPENING, ["-doc", "doc/a.txt", "doc/b/c%20d.txt"]),
        (
            ("doc.tar", TAR),
            (sent("doc.tar"),),
            OPENING,
            ["-doc.tar", "doc.tar/a.txt", "bad-archive"],
        ),
        # An archive that became a document, and a document that has changed.
        (("doc", b"plan"), (sent("doc/a.txt"),), OPENING, ["-doc/a.txt", "doc"]),
        (("doc", b"plan"), (DOC,), TREE, ["doc"]),
        # Members that are unchanged, gone, or left out now.
        (
            ("a.zip", ZIPPED),
            (member("a.txt", b"first"), OLD),
            OPENING,
            ["unchanged", "a.zip/b/c%20d.txt", "-a.zip/old.txt"],
        ),
        (("a.zip", WITHOUT_OLD), (OLD,), OPENING, ["empty", "-a.zip/old.txt"]),
        (("a.zip", zipped()), (OLD,), OPENING, ["empty", "-a.zip/old.txt"]),
        # A damaged archive, and a member that is rejected now.
        (("a.zip", ZIPPED[:-1]), (OLD,), OPENING, ["bad-archive"]),
        (("a.tar", TAR), (sent("a.tar/b"),), OPENING, ["a.tar/a.txt", "bad-archive"]),
        (("a.zip", TOO_LARGE), (OLD,), OPENING, ["content-too-large"]),
    ],
    ids=range(12),
)
def test_documents_and_members_that_are_gone_are_deleted_and_no_others(
    files: Files,
    file: tuple[str, bytes],
    members: tuple[SentDocument, ...],
    rules: Tree,
    expected: list[str],
) -> None:
    seen: list[StateChange] = []
    options = ReadOptions(max_content_bytes=500)
    results = run(files(*file, members=members), rules=rules, options=options, see=seen.append)
    assert [action for action in actions(results) if action != "archive-not-opened"] == expected
    deleted = {f"-{change.document.key}" for change in seen if change.is_deleted}
    assert {action for action in expected if action.startswith("-")} <= deleted


def test_members_stay_while_the_document_in_their_place_is_rejected(files: Files) -> None:
    sidecar = files("doc.meta.json", b"[1]")
    line = files("doc", b"plan", members=(sent("doc/a.txt"),), sidecars=(sidecar.path,))
    assert actions(run(line, rules=OPENING)) == ["bad-sidecar"]


# Metadata, ACLs and crawl hints

STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
TIM = Principal(name="tim", scope=Scope.USER, access=Access.DENY)
TIM_DENIED = '<record><acl><principal scope="user" access="deny">tim</principal></acl></record>'


def described(files: Files, sidecars: dict[str, str], rules: Tree = TREE) -> Record:
    """Return the record of a file, with sidecars of these texts, by their extensions."""
    result = [files(f"a/x.txt.{name}", text.encode()) for name, text in sidecars.items()]
    paths = tuple(line.path for line in result)
    return record(files("a/x.txt", b"first", sidecars=paths), rules=rules)


def with_table(path: Path, row: str) -> Tree:
    (path / "people.csv").write_text(f"pattern,access,scope,name\n{row}\n")
    return replace(TREE, acl=TreeAcl(table=str(path / "people.csv")))


def test_metadata_is_that_of_sidecars_and_of_the_path(files: Files) -> None:
    paths = replace(TREE, path_metadata=True)
    assert described(files, {"meta.json": '{"a": 1}'}, paths).metadata == (
        Meta("a", "1"),
        Meta("path", "a/x.txt"),
        Meta("name", "x.txt"),
        Meta("extension", "txt"),
        Meta("folder", "a"),
    )


def test_a_display_url_is_added(files: Files) -> None:
    rules = replace(TREE, display_url="https://www.example.com/?f={path}")
    assert described(files, {}, rules).crawl == Crawl(
        display_url="https://www.example.com/?f=a/x.txt"
    )


def test_a_record_has_the_acl_of_a_table_unless_a_sidecar_has_one(
    files: Files, tmp_path: Path
) -> None:
    rules = with_table(tmp_path, "a/**,permit,group,staff")
    assert described(files, {}, rules).acl == Acl(principals=(STAFF,))
    sidecars = {"metadata.xml": TIM_DENIED}
    assert described(files, sidecars, rules).acl == Acl(principals=(TIM,))


def test_a_file_that_no_row_of_a_table_matches_is_rejected(files: Files, tmp_path: Path) -> None:
    rules = with_table(tmp_path, "b/**,permit,group,staff")
    assert reject(files("a.txt", b"first"), rules=rules)[0] == "no-acl-row"


def test_a_bad_table_is_refused_before_a_file_is_read(tmp_path: Path) -> None:
    rules = TreeAcl(table=str(tmp_path / "none.csv"))
    with pytest.raises(ConfigError, match=r"none\.csv: No such file or directory; expected"):
        run(rules=replace(TREE, acl=rules))


def test_a_sidecar_states_whether_metadata_may_overwrite_acls(files: Files) -> None:
    sidecars = {"metadata.xml": '<metadata overwrite-acls="false"/>'}
    assert described(files, sidecars).overwrite_acls is False


@pytest.mark.parametrize("closed", ["a/x.txt", "a", "."])
@pytest.mark.parametrize("rules", [OPENING, replace(TREE, is_crawled=True), METADATA])
def test_a_file_that_was_closed_since_it_was_listed_is_secure(
    files: Files, tmp_path: Path, closed: str, rules: Tree
) -> None:
    line = files("a/x.txt", b"first", fingerprint=".meta.json=9:7")
    (tmp_path / closed).chmod(0o700)
    options = SMALL if rules is METADATA else ReadOptions()
    item, result = run(line, rules=rules, options=options)
    assert isinstance(item, Notice)
    assert isinstance(result, Record)
    assert (item.code, result.crawl) == ("not-public", Crawl(secure=True))


def test_members_are_secure_if_their_archive_was_closed_since_it_was_listed(files: Files) -> None:
    line = files("a.zip", zipped(*TWO))
    os.chmod(line.path, 0o600)
    results, seen = run_seen(line, rules=OPENING)
    records = [result for result in results if isinstance(result, Record)]
    assert [result.crawl for result in records] == [Crawl(secure=True)] * 2
    assert [change.document.fingerprint for change in seen] == ["shut"] * 3


def test_a_file_that_was_closed_since_it_was_listed_is_sent_though_its_content_is_alike(
    files: Files,
) -> None:
    line = files("a.txt", b"first", sent_document=replace(A_TXT, modified_ns=1))
    os.chmod(line.path, 0o600)
    result = run(line)[-1]
    assert isinstance(result, Record)
    assert result.crawl == Crawl(secure=True)


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_file_with_a_posix_acl_is_sent_if_its_mode_changed_since_it_was_listed(
    files: Files, tmp_path: Path, mode: int
) -> None:
    line = files("a.txt", b"first", fingerprint="listed")
    line = replace(line, sent_document=replace(A_TXT, modified_ns=1, fingerprint="listed"))
    rules = replace(TREE, root=str(tmp_path), acl=TreeAcl(everyone="everyone"))
    os.chmod(line.path, 0o600)
    assert codes(run(replace(line, changed_ns=os.stat(line.path).st_ctime_ns), rules=rules)) == [
        "unchanged"
    ]
    os.chmod(line.path, mode)
    sent_again = record(line, rules=rules)
    assert sent_again.acl is not None
    names = [principal.name for principal in sent_again.acl.principals]
    assert ("everyone" in names) == (mode == 0o644)


@pytest.mark.parametrize("inherits", [False, True])
@pytest.mark.parametrize("key", ["a/x.txt", "a/x.zip"])
def test_files_and_members_of_archives_have_the_acl_of_the_file_and_inherit_from_the_folder(
    files: Files, tmp_path: Path, key: str, inherits: bool
) -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    owner = Principal(name=name, scope=Scope.USER, access=Access.PERMIT, case_sensitive=True)
    line = files(key, zipped(TWO[0]) if key.endswith(".zip") else b"first")
    os.chmod(line.path, 0o600)
    os.chmod(Path(line.path).parent, 0o700)
    rules = replace(OPENING, root=str(tmp_path), acl=TreeAcl(is_inherited=inherits))
    assert record(line, rules=rules).acl == Acl(
        inherit_from=f"{BASE}a/" if inherits else None, principals=(owner,)
    )


def test_a_file_that_others_may_not_read_is_secure_unless_it_has_an_acl(files: Files) -> None:
    closed = files("a.txt", b"first", fingerprint=".meta.json=9:7 shut")
    item, result = run(closed)
    assert item == notice(
        "not-public",
        "'a.txt': not readable by others; sent as secure, as it has no ACL: --acl posix makes one",
    )
    assert isinstance(result, Record)
    assert result.crawl == Crawl(secure=True)
    sidecar = files("a.txt.metadata.xml", TIM_DENIED.encode())
    assert record(replace(closed, sidecars=(sidecar.path,))).crawl is None
