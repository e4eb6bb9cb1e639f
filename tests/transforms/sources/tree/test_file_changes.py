"""Changes of the files of a tree: documents to send, to delete and to leave alone."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.errors import FeedferryError, StoppedError
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.schemas.source_options import SourceOptions
from feedferry.transforms.sources.changes.detector import ChangeDetector
from feedferry.transforms.sources.listing import EntryKind, FileBlock, ListingEntry
from feedferry.transforms.sources.tree.file_changes import MemberKeys, compare, merge_unchanged
from feedferry.transforms.storage.state import StateHead, open_state, update_state
from support.file_blocks import SIZES, in_blocks

SECOND_NS = 1_000_000_000
LISTED_AT_NS = 1_000 * SECOND_NS
STAMP = StateHead(source="/docs", rules="r1", listed_at_ns=LISTED_AT_NS)
OLD_NS = 500 * SECOND_NS
SHARED = "http://x/"


def url_of(key: str) -> str:
    return f"http://docs.example.com/{key}"


def known(
    key: str, *, url: str | None = None, size: int = 5, modified_ns: int | None = OLD_NS
) -> SentDocument:
    url = url_of(key) if url is None else url
    return SentDocument(key=key, url=url, size=size, modified_ns=modified_ns, digest="d1")


def former(key: str, *, url: str | None = None, modified_ns: int | None = OLD_NS) -> SentDocument:
    """Return a document as the line of its file has it: the digest is read where it is needed."""
    return replace(known(key, url=url, modified_ns=modified_ns), digest="")


def known_folder(key: str, fingerprint: str = "") -> SentDocument:
    return SentDocument(key=key, url=url_of(key), modified_ns=8, fingerprint=fingerprint)


def member(key: str) -> SentDocument:
    return SentDocument(key=f"a.zip/{key}", url=url_of(f"a.zip/{key}"), parent="a.zip")


def file(
    key: str, *, url: str | None = None, size: int = 5, modified_ns: int | None = OLD_NS
) -> ListingEntry:
    url = url_of(key) if url is None else url
    return ListingEntry(key=key, path=f"/docs/{key}", url=url, size=size, modified_ns=modified_ns)


def folder(key: str, *, fingerprint: str = "") -> ListingEntry:
    return ListingEntry(
        key=key, kind=EntryKind.FOLDER, url=url_of(key), modified_ns=7, fingerprint=fingerprint
    )


def gone(key: str, *, url: str | None = None) -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.GONE, url=url_of(key) if url is None else url)


def forgotten(key: str) -> ListingEntry:
    return gone(key, url="")


def unchanged(key: str, *, url: str | None = None) -> ListingEntry:
    url = url_of(key) if url is None else url
    return ListingEntry(key=key, kind=EntryKind.FILTERED, url=url, code="unchanged")


def filtered(key: str, code: str = "excluded") -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.FILTERED, code=code)


def rejected(key: str, code: str = "unreadable") -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.REJECTED, code=code, reason="no permission")


def unlistable(key: str, kept: str) -> ListingEntry:
    reason = f"no permission; {kept} at the target as before"
    return replace(rejected(key, "unlistable-folder"), reason=reason)


def unknown(archive: ListingEntry) -> None:
    """The members of an archive that is not read before its line."""


def changes(  # noqa: PLR0913 # what a comparison depends on
    path: Path,
    state: Iterable[SentDocument],
    listed: Iterable[ListingEntry | FileBlock],
    *,
    rules: str = "r1",
    is_refresh: bool = False,
    rewrite: Callable[[str], str] | None = None,
    member_keys: MemberKeys = unknown,
) -> list[ListingEntry]:
    """Compare a listing with a state of these documents; return deletions, and then documents."""
    update_state(path / "s", map(_present, state), before=0, stamp=STAMP)
    with open_state(path / "s") as opened, closing(ChangeDetector(opened, rewrite)) as detector:
        options: dict[str, Any] = {"is_refresh": is_refresh, "member_keys": member_keys}
        sent = [*compare(listed, detector, rules=rules, **options)]
        return [*detector.deletions(), *sent]


def _present(document: SentDocument) -> StateChange:
    return StateChange(document=document)


ARCHIVE = known("a.zip", url="")
B, C = member("b"), member("c")
LATER_FILE = file("a", modified_ns=OLD_NS + 1)
LATER_ARCHIVE = file("a.zip", modified_ns=OLD_NS + 1)
CHANGED = (
    file("a", size=6),
    file("a", size=6, modified_ns=OLD_NS + 1),
    replace(file("a"), fingerprint="mode 0600"),
    replace(file("a"), fingerprint="mode 0600", modified_ns=OLD_NS + 1),
)
NO_LIMITS = SourceOptions(to_format="", min_records=0, max_delete_percent=Decimal(100))
YOUNG_NS = (LISTED_AT_NS - 2 * SECOND_NS, LISTED_AT_NS, LISTED_AT_NS + SECOND_NS)


@pytest.mark.parametrize(
    ("state", "listed", "expected"),
    [
        # Documents
        ([], [folder("a/"), file("a/b"), filtered("c"), rejected("d")], None),
        ([known("a")], [file("a")], [unchanged("a")]),
        ([known("b")], [file("a"), file("b"), file("c")], [file("a"), unchanged("b"), file("c")]),
        *(([known("a")], [line], [replace(line, members=(former("a"),))]) for line in CHANGED),
        (
            [known("a")],
            [LATER_FILE],
            [replace(LATER_FILE, sent_document=known("a"), members=(former("a"),))],
        ),
        *(  # it may have been written again within the tick of its time
            (
                [known("a", modified_ns=time_ns)],
                [file("a", modified_ns=time_ns)],
                [
                    replace(
                        file("a", modified_ns=time_ns),
                        sent_document=known("a", modified_ns=time_ns),
                        members=(former("a", modified_ns=time_ns),),
                    )
                ],
            )
            for time_ns in (*YOUNG_NS, None)
        ),
        (
            [known("a", modified_ns=YOUNG_NS[0] - 1)],
            [file("a", modified_ns=YOUNG_NS[0] - 1)],
            [unchanged("a")],
        ),
        *(  # the ctime of a file counts if it is later than its mtime, or too recent
            (
                [known("a", modified_ns=sent_ns)],
                [replace(file("a"), changed_ns=listed_ns)],
                [
                    replace(
                        file("a"),
                        changed_ns=listed_ns,
                        sent_document=known("a", modified_ns=sent_ns),
                        members=(former("a", modified_ns=sent_ns),),
                    )
                ],
            )
            for sent_ns, listed_ns in ((OLD_NS, OLD_NS + 1), (YOUNG_NS[0], YOUNG_NS[0]))
        ),
        ([known("a")], [replace(file("a"), changed_ns=OLD_NS - 1)], [unchanged("a")]),
        (
            [known("a", modified_ns=YOUNG_NS[0] - 1)],
            [replace(file("a"), changed_ns=YOUNG_NS[0] - 1)],
            [unchanged("a")],
        ),
        ([known("a")], [file("a", url=SHARED)], [gone("a"), file("a", url=SHARED)]),
        (
            [known("a"), known("b"), known("c")],
            [file("b")],
            [gone("a"), gone("c"), unchanged("b")],
        ),
        *(
            ([known("a")], [filtered("a", code)], [gone("a"), filtered("a", code)])
            for code in ("excluded", "hidden", "empty", "symlink")
        ),
        ([known("b")], [filtered("a"), file("b")], [filtered("a"), unchanged("b")]),
        # Documents whose present state is unknown
        ([known("a")], [rejected("a")], [rejected("a")]),
        ([known("a")], [filtered("a", "vanished")], [filtered("a", "vanished")]),
        (
            [known("a"), known("b-1"), known("b/c"), known("b/d/e"), known("c")],
            [filtered("b/", "vanished")],
            [gone("a"), gone("b-1"), gone("c"), filtered("b/", "vanished")],
        ),
        (
            [known("a"), known("b-1"), known("b/c"), known("b/d/e"), known("b0"), known("c")],
            [rejected("b/", "unlistable-folder")],
            [
                gone("a"),
                gone("b-1"),
                gone("b0"),
                gone("c"),
                unlistable("b/", "2 documents below it stay"),
            ],
        ),
        (
            [known("b-1"), known("b.txt"), known("b/c"), known("b0")],
            [rejected("b", "broken-link"), file("b.txt")],
            [gone("b-1"), gone("b0"), rejected("b", "broken-link"), unchanged("b.txt")],
        ),
        (
            [known("b-1/c"), known("b/c"), known("b0")],
            [rejected("b", "broken-link"), rejected("b-1", "broken-link")],
            [gone("b0"), rejected("b", "broken-link"), rejected("b-1", "broken-link")],
        ),
        ([known("a"), known("b/c")], [rejected("")], [rejected("")]),
        # Folders
        ([known_folder("a/")], [folder("a/")], [unchanged("a/")]),
        (
            [known_folder("a/", fingerprint="mode 0755")],
            [folder("a/", fingerprint="mode 0700")],
            [folder("a/", fingerprint="mode 0700")],
        ),
        ([known_folder("a/"), known("a/b")], [], [gone("a/"), gone("a/b")]),
        # Archives
        (
            [ARCHIVE, B, known("a.zip-c")],
            [file("a.zip"), file("a.zip-c")],
            [unchanged("a.zip"), unchanged("a.zip-c")],
        ),
        (
            [ARCHIVE, B, C, known("b")],
            [file("a.zip", size=6), file("b")],
            [replace(file("a.zip", size=6), members=(B, C)), unchanged("b")],
        ),
        (
            [ARCHIVE, B],
            [LATER_ARCHIVE],
            [replace(LATER_ARCHIVE, sent_document=ARCHIVE, members=(B,))],
        ),
        ([ARCHIVE], [file("a.zip", url="")], [unchanged("a.zip", url="")]),
        (
            [ARCHIVE, B, C, known("a.zip-d"), known("e")],
            [file("a.zip-d"), file("e")],
            [
                forgotten("a.zip"),
                gone("a.zip/b"),
                gone("a.zip/c"),
                unchanged("a.zip-d"),
                unchanged("e"),
            ],
        ),
        ([ARCHIVE, B], [], [forgotten("a.zip"), gone("a.zip/b")]),
        (
            [ARCHIVE, B],
            [filtered("a.zip", "archive")],
            [forgotten("a.zip"), gone("a.zip/b"), filtered("a.zip", "archive")],
        ),
        ([ARCHIVE, B], [rejected("a.zip")], [rejected("a.zip")]),
        (
            [ARCHIVE, B],
            [folder("a.zip/"), file("a.zip/b")],
            [forgotten("a.zip"), gone("a.zip/b"), folder("a.zip/"), file("a.zip/b")],
        ),
        (  # a folder with the name of an archive, and then an archive
            [known("a.zip/b")],
            [file("a.zip"), file("a.zip!")],
            [gone("a.zip/b"), file("a.zip"), file("a.zip!")],
        ),
        # URLs of several documents, and documents that move
        (
            [known("a")],
            [file("0", url=url_of("a")), file("a", size=6)],
            [file("0", url=url_of("a")), replace(file("a", size=6), members=(former("a"),))],
        ),
        (
            [known("b/1", url=SHARED)],
            [file("a/1", url=SHARED)],
            [gone("b/1", url=SHARED), file("a/1", url=SHARED)],
        ),
        (
            [known("a/1", url=SHARED)],
            [file("b/1", url=SHARED)],
            [gone("a/1", url=SHARED), file("b/1", url=SHARED)],
        ),
        (
            [known("a", url="http://x/1"), known("b", url="http://x/2")],
            [file("a", url="http://x/2"), file("b", url="http://x/1")],
            [
                gone("a", url="http://x/1"),
                gone("b", url="http://x/2"),
                file("a", url="http://x/2"),
                file("b", url="http://x/1"),
            ],
        ),
        (
            [known("a", url=SHARED), known("b", url=SHARED)],
            [file("a", url=SHARED), file("b", url=SHARED)],
            [unchanged("a", url=SHARED), unchanged("b", url=SHARED)],
        ),
        (
            [known("a", url=SHARED), known("b", url=SHARED)],
            [file("a", url=SHARED)],
            [
                forgotten("b"),
                replace(file("a", url=SHARED), members=(former("a", url=SHARED),)),
            ],
        ),
        (
            [known("a", url=SHARED), known("b", url=SHARED)],
            [file("b", url=SHARED)],
            [
                forgotten("a"),
                replace(file("b", url=SHARED), members=(former("b", url=SHARED),)),
            ],
        ),
        (
            [known("a", url=SHARED), known("b", url=SHARED)],
            [],
            [forgotten("a"), gone("b", url=SHARED)],
        ),
        (
            [known("a/1", url=SHARED), known("b", url=SHARED)],
            [rejected("a/", "unlistable-folder")],
            [forgotten("b"), unlistable("a/", "1 document below it stays")],
        ),
        (
            [ARCHIVE, B, known("b", url=B.url)],
            [file("a.zip")],
            [forgotten("b"), replace(file("a.zip"), members=(B,))],
        ),
    ],
)
def test_a_listing_and_a_state_have_these_changes(
    tmp_path: Path,
    state: list[SentDocument],
    listed: list[ListingEntry],
    expected: list[ListingEntry] | None,
) -> None:
    assert changes(tmp_path, state, listed) == (listed if expected is None else expected)
    for size in SIZES[1:]:
        folder = tmp_path / str(size)
        folder.mkdir()
        lines = changes(folder, state, in_blocks(listed, size))
        assert joined(lines) == joined(listed if expected is None else expected)


def joined(lines: Iterable[ListingEntry]) -> list[ListingEntry]:
    """Return lines with one for unchanged documents that follow one another."""
    with open_state(Path("none.state")) as state:
        return [*merge_unchanged(lines, ChangeDetector(state))]


def test_an_unchanged_document_adds_nothing_to_the_size_of_a_span(tmp_path: Path) -> None:
    (line,) = changes(tmp_path, [known("a", size=10**9)], [file("a", size=10**9)])
    assert (line.size, line.path) == (0, "")


@pytest.mark.parametrize("stated", [{"rules": "r2"}, {"is_refresh": True}])
def test_with_other_rules_or_a_refresh_all_documents_are_new(
    tmp_path: Path, stated: dict[str, str]
) -> None:
    state = [known("a"), ARCHIVE, replace(B, digest="d1"), known_folder("b/"), known("c")]
    assert changes(tmp_path, state, [file("a"), file("a.zip"), folder("b/")], **stated) == [  # type: ignore[arg-type]  # one of two
        gone("c"),
        replace(file("a"), members=(former("a"),)),
        replace(file("a.zip"), members=(B,)),
        folder("b/"),
    ]


def test_a_listing_out_of_order_is_a_defect(tmp_path: Path) -> None:
    with pytest.raises(FeedferryError) as caught:
        changes(tmp_path, [known("a")], [file("b"), file("a")])
    assert str(caught.value) == (
        "'a' listed after 'b': a defect of feedferry; no document was read"
    )


def test_a_listing_is_read_line_by_line(tmp_path: Path) -> None:
    lines = iter([file("a"), file("b")])
    with open_state(tmp_path / "none.state") as empty:
        detector = ChangeDetector(empty)
        next(compare(lines, detector, rules="r1", is_refresh=False, member_keys=unknown))
    assert list(lines) == [file("b")]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_delete_percent": Decimal(50), "min_records": 3}, None),
        ({"max_delete_percent": Decimal(49)}, "^1 of 2 documents in the state are gone"),
        ({"max_delete_percent": Decimal(50), "min_records": 4}, "^3 documents are in the source"),
    ],
)
def test_documents_are_counted_without_folders(
    tmp_path: Path, limits: dict[str, Any], message: str | None
) -> None:
    state = [known("a"), known("b"), known_folder("c/"), known_folder("d/")]
    listed = [file("a"), folder("c/"), file("e"), filtered("f"), rejected("g"), file("h")]
    update_state(tmp_path / "s", map(_present, state), before=0, stamp=STAMP)
    with open_state(tmp_path / "s") as opened, closing(ChangeDetector(opened)) as detector:
        lines = compare(listed, detector, rules="r1", is_refresh=False, member_keys=unknown)
        assert sum(1 for _ in merge_unchanged(lines, detector)) == 5
        deletions = detector.deletions(SourceOptions(to_format="", **limits))
        if message is None:
            assert list(deletions) == [gone("b"), gone("d/")]
        else:
            with pytest.raises(StoppedError, match=message):
                list(deletions)


# Whole runs: a tree changes, and a target receives what a worker makes of the lines. An archive is
# a dict of contents, any other file a content and a time.

Inner = dict[str, str]


class Leaf(NamedTuple):
    content: str | Inner
    modified_ns: int = OLD_NS


Tree = Mapping[str, Leaf]


class Run:
    """A target and a state, as one run after the other leaves them."""

    def __init__(
        self, path: Path, url_of: Callable[[str], str] = url_of, *, block: int = 0
    ) -> None:
        self._path = path
        self._url_of = url_of
        self._block = block
        self._runs = 0
        self.target: dict[str, str] = {}
        self.sent: list[str] = []

    def over(self, tree: Tree) -> None:
        self.sent = []
        with open_state(self._path) as state:
            listed = in_blocks(self._walk(tree), self._block)
            detector = ChangeDetector(state)
            documents = compare(listed, detector, rules="r1", is_refresh=False, member_keys=unknown)
            sent = [*documents]
            lines = [*detector.deletions(), *sent]
        seen = [change for line in lines for change in self._read(line, tree)]
        update_state(self._path, seen, before=self._runs, stamp=STAMP)
        self._runs += 1

    def _walk(self, tree: Tree) -> Iterator[ListingEntry]:
        for key in sorted(tree):
            size = len(str(tree[key].content))
            yield ListingEntry(
                key=key, url=self._url_of(key), size=size, modified_ns=tree[key].modified_ns
            )

    def _read(self, line: ListingEntry, tree: Tree) -> Iterable[StateChange]:
        if line.kind is EntryKind.GONE:
            if line.url:
                self._delete(line.url)
            return [StateChange(document=SentDocument(key=line.key, url=line.url), is_deleted=True)]
        if line.kind is EntryKind.FILTERED:
            return []
        content = tree[line.key].content
        digest = hashlib.sha256(str(content).encode()).hexdigest()
        is_archive = isinstance(content, dict)
        now = SentDocument(
            key=line.key,
            url="" if is_archive else line.url,
            size=line.size,
            modified_ns=line.modified_ns,
            digest=digest,
        )
        if line.sent_document is not None and line.sent_document.digest == digest:
            return [StateChange(document=now)]
        if isinstance(content, dict):
            return [*self._unpack(line, content), StateChange(document=now)]
        self._send(line.url, content)
        return [StateChange(document=now)]

    def _unpack(self, line: ListingEntry, inner: Inner) -> Iterator[StateChange]:
        for lost in line.members:
            if lost.key not in {f"{line.key}/{name}" for name in inner}:
                self._delete(lost.url)
                yield StateChange(document=lost, is_deleted=True)
        for name in sorted(inner):
            key = f"{line.key}/{name}"
            self._send(self._url_of(key), inner[name])
            yield StateChange(
                document=SentDocument(key=key, url=self._url_of(key), parent=line.key)
            )

    def _send(self, url: str, content: str) -> None:
        self.sent.append(url)
        self.target[url] = content

    def _delete(self, url: str) -> None:
        self.sent.append(url)
        del self.target[url]


def held(tree: Tree) -> dict[str, str]:
    """Return the documents of a target that has all of a tree."""
    documents: dict[str, str] = {}
    for key, leaf in tree.items():
        if isinstance(leaf.content, dict):
            for name, content in leaf.content.items():
                documents[url_of(f"{key}/{name}")] = content
        else:
            documents[url_of(key)] = leaf.content
    return documents


def leaf(content: str | Inner, modified_ns: int | None) -> Leaf:
    """Return a file whose time depends on its content, or that was written when it was listed."""
    own_ns = OLD_NS + crc32(str(content).encode())
    return Leaf(content, own_ns if modified_ns is None else modified_ns)


_TIMES = st.sampled_from([None, None, LISTED_AT_NS])
_CONTENTS = st.sampled_from(["red", "tan", "green"])
_INNERS = st.dictionaries(st.sampled_from(["one", "two", "z"]), _CONTENTS, max_size=3)
_NAMES = st.sampled_from(["a", "a-", "a.zip-x", "b/c", "b/é", "b0", "\ufb01", "\N{CHERRIES}"])
_ZIPPED = st.sampled_from(["a.zip", "b/c.zip", "b.zip"])
_FILES = st.dictionaries(_NAMES, st.builds(leaf, _CONTENTS, _TIMES))
_ARCHIVES = st.dictionaries(_ZIPPED, st.builds(leaf, _INNERS, _TIMES))
_TREES = st.builds(lambda files, archives: {**files, **archives}, _FILES, _ARCHIVES)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(_TREES, min_size=1, max_size=4), st.sampled_from(SIZES))
def test_after_each_run_the_target_has_the_documents_of_the_tree(
    trees: list[Tree], block: int
) -> None:
    with TemporaryDirectory() as folder:
        run = Run(Path(folder, "docs.state"), block=block)
        for tree in trees:
            run.over(tree)
    assert run.target == held(trees[-1])


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(_TREES, min_size=1, max_size=3), st.sampled_from(SIZES))
def test_a_second_run_over_an_unchanged_tree_sends_nothing(trees: list[Tree], block: int) -> None:
    with TemporaryDirectory() as folder:
        run = Run(Path(folder, "docs.state"), block=block)
        for tree in (*trees, trees[-1]):
            run.over(tree)
    assert run.sent == []


def url_of_name(key: str) -> str:
    """Return a URL without the folder."""
    return "http://docs.example.com/" + key.rpartition("/")[2]


_PLACES = st.dictionaries(
    st.sampled_from(["1", "2", "3"]), st.sampled_from(["a/", "b/", "", "é/"]), max_size=3
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(_PLACES, min_size=1, max_size=4), st.sampled_from(SIZES))
def test_documents_that_move_and_keep_their_urls_stay(
    places: list[dict[str, str]], block: int
) -> None:
    with TemporaryDirectory() as folder:
        run = Run(Path(folder, "docs.state"), url_of_name, block=block)
        for place in places:
            run.over({place[name] + name: Leaf(f"content of {name}") for name in place})
    assert run.target == {
        f"http://docs.example.com/{name}": f"content of {name}" for name in places[-1]
    }


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.lists(st.sets(st.sampled_from(["a/1", "b/1", "c/1", "1"])), min_size=1, max_size=4),
    st.sampled_from(SIZES),
)
def test_a_url_of_several_documents_stays_as_long_as_one_has_it(
    trees: list[set[str]], block: int
) -> None:
    with TemporaryDirectory() as folder:
        run = Run(Path(folder, "docs.state"), url_of_name, block=block)
        for tree in trees:
            run.over({key: Leaf(key) for key in tree})
    assert set(run.target) == {url_of_name(key) for key in trees[-1]}
    assert trees[-1].issuperset(run.target.values())


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([file("A"), file("a")], [unchanged("A"), unchanged("a")]),
        ([file("a")], [forgotten("A"), replace(file("a"), members=(former("a"),))]),
        ([file("A")], [forgotten("a"), replace(file("A"), members=(former("A"),))]),
        (
            [file("A", size=6), file("a")],
            [
                replace(file("A", size=6), members=(former("A"),)),
                replace(file("a"), members=(former("a"),)),
            ],
        ),
    ],
    ids=["unchanged", "first gone", "last gone", "first changed"],
)
def test_documents_whose_urls_become_one_are_sent_after_what_became_of_the_others(
    tmp_path: Path, listed: list[ListingEntry], expected: list[ListingEntry]
) -> None:
    state = [known("A"), known("a"), known("b")]
    for size in SIZES:
        (tmp_path / str(size)).mkdir()
        items = in_blocks([*listed, file("b")], size)
        lines = changes(tmp_path / str(size), state, items, rewrite=str.lower)
        assert sorted(lines, key=lambda line: line.key == "b") == [*expected, unchanged("b")]


def test_a_new_document_is_sent_after_the_deletion_of_one_with_its_url_after_rewriting(
    tmp_path: Path,
) -> None:
    lines = changes(tmp_path, [known("a")], [file("A")], rewrite=str.lower)
    assert lines == [gone("a"), file("A")]


REWRITTEN_ARCHIVE = {
    "missing": ({"a.zip/b"}, [gone("a.zip/c")], (B,)),
    "all there": ({"a.zip/b", "a.zip/c", "a.zip/d"}, [], (B, C)),
    "not readable": (None, [], (B, C)),
}


@pytest.mark.parametrize(
    ("present", "deletions", "members"), REWRITTEN_ARCHIVE.values(), ids=REWRITTEN_ARCHIVE
)
def test_missing_members_are_deleted_before_all_documents_if_urls_are_rewritten(
    tmp_path: Path,
    present: set[str] | None,
    deletions: list[ListingEntry],
    members: tuple[SentDocument, ...],
) -> None:
    archive = file("a.zip", size=6)
    lines = changes(
        tmp_path, [ARCHIVE, B, C], [archive], rewrite=str, member_keys=lambda archive: present
    )
    assert lines == [*deletions, replace(archive, members=members)]


def test_members_of_an_archive_with_another_url_are_deleted(tmp_path: Path) -> None:
    moved = file("a.zip", url="http://new.example.com/a.zip")
    assert changes(tmp_path, [ARCHIVE, B, C], [moved], rules="r2") == [
        gone("a.zip/b"),
        gone("a.zip/c"),
        moved,
    ]


def left(key: str, *, count: int = 1, code: str = "unchanged") -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.FILTERED, url=url_of(key), code=code, count=count)


def test_unchanged_documents_that_follow_one_another_are_one_line() -> None:
    lines = [left("a"), left("b"), file("c"), left("d"), left("e", code="hidden"), left("f")]
    assert joined(lines) == [
        left("a", count=2),
        file("c"),
        left("d"),
        left("e", code="hidden"),
        left("f"),
    ]
