"""A listing against what a state knows: what is sent, what is deleted, and what is left alone."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from zlib import crc32

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import FeedferryError
from schemas.sent_document import SentDocument, StateChange
from transforms.sources.change_detection import compare, is_folder
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.storage.state import StateHead, open_state, update_state

SECOND_NS = 1_000_000_000
LISTED_AT_NS = 1_000 * SECOND_NS
STAMP = StateHead(source="/docs", rules="r1", listed_at_ns=LISTED_AT_NS)
OLD_NS = 500 * SECOND_NS


def url_of(key: str) -> str:
    return f"http://docs.example.com/{key}"


def known(key: str, *, size: int = 5, modified_ns: int | None = OLD_NS) -> SentDocument:
    return SentDocument(key=key, url=url_of(key), size=size, modified_ns=modified_ns, digest="d1")


def archive(key: str) -> SentDocument:
    return SentDocument(key=key, url="", size=5, modified_ns=OLD_NS, digest="d1")


def member(key: str, parent: str) -> SentDocument:
    return SentDocument(key=key, url=url_of(key), parent=parent)


def file(key: str, *, size: int = 5, modified_ns: int | None = OLD_NS) -> ListingEntry:
    return ListingEntry(
        key=key, path=f"/docs/{key}", url=url_of(key), size=size, modified_ns=modified_ns
    )


def folder(key: str, *, fingerprint: str = "") -> ListingEntry:
    return ListingEntry(
        key=key, kind=EntryKind.FOLDER, url=url_of(key), modified_ns=7, fingerprint=fingerprint
    )


def gone(key: str) -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.GONE, url=url_of(key))


def forgotten(key: str) -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.GONE)


def unchanged(key: str) -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.FILTERED, url=url_of(key), code="unchanged")


def filtered(key: str, code: str = "excluded") -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.FILTERED, code=code)


def rejected(key: str, code: str = "unreadable") -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.REJECTED, code=code, reason="no permission")


def changed(line: ListingEntry, **fields: object) -> ListingEntry:
    return msgspec.structs.replace(line, **fields)


class Remembering:
    """A state that knows some documents, and what comes of a listing that is compared with it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def knows(self, *documents: SentDocument) -> "Remembering":
        update_state(
            self._path, (StateChange(known=one) for one in documents), before=0, stamp=STAMP
        )
        return self

    def against(
        self, *lines: ListingEntry, rules: str = "r1", is_refresh: bool = False
    ) -> list[ListingEntry]:
        with open_state(self._path) as state:
            return list(compare(lines, state, rules=rules, is_refresh=is_refresh))


@pytest.fixture
def state(tmp_path: Path) -> Remembering:
    return Remembering(tmp_path / "docs.state")


def test_without_a_state_all_is_new(state: Remembering) -> None:
    lines = [folder("a/"), file("a/b"), filtered("c"), rejected("d")]

    assert state.against(*lines) == lines


def test_a_document_as_it_was_is_unchanged(state: Remembering) -> None:
    state.knows(known("a"))

    assert state.against(file("a")) == [unchanged("a")]


def test_what_is_unchanged_weighs_nothing_in_a_span(state: Remembering) -> None:
    (line,) = state.knows(known("a", size=10**9)).against(file("a", size=10**9))

    assert (line.size, line.path) == (0, "")


def test_a_new_document_is_as_it_was_listed(state: Remembering) -> None:
    state.knows(known("b"))

    assert state.against(file("a"), file("b"), file("c")) == [
        file("a"),
        unchanged("b"),
        file("c"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        file("a", size=6),
        file("a", size=6, modified_ns=OLD_NS + 1),
        changed(file("a"), fingerprint="mode 0600"),
        changed(file("a"), fingerprint="mode 0600", modified_ns=OLD_NS + 1),
    ],
)
def test_a_document_that_has_changed_is_as_it_was_listed(
    state: Remembering, line: ListingEntry
) -> None:
    state.knows(known("a"))

    assert state.against(line) == [changed(line, members=(known("a"),))]


@pytest.mark.parametrize("modified_ns", [OLD_NS + 1, OLD_NS - 1])
def test_a_document_with_another_time_is_to_be_compared(
    state: Remembering, modified_ns: int
) -> None:
    state.knows(known("a"))
    line = file("a", modified_ns=modified_ns)

    assert state.against(line) == [changed(line, known=known("a"), members=(known("a"),))]


@pytest.mark.parametrize(
    "modified_ns", [LISTED_AT_NS - 2 * SECOND_NS, LISTED_AT_NS, LISTED_AT_NS + SECOND_NS]
)
def test_a_document_that_was_written_when_it_was_listed_is_to_be_compared(
    state: Remembering, modified_ns: int
) -> None:
    young = known("a", modified_ns=modified_ns)
    line = file("a", modified_ns=modified_ns)

    assert state.knows(young).against(line) == [changed(line, known=young, members=(young,))]


def test_a_document_that_was_written_long_enough_before_is_unchanged(state: Remembering) -> None:
    modified_ns = LISTED_AT_NS - 2 * SECOND_NS - 1
    state.knows(known("a", modified_ns=modified_ns))

    assert state.against(file("a", modified_ns=modified_ns)) == [unchanged("a")]


def test_a_document_without_a_time_is_to_be_compared(state: Remembering) -> None:
    timeless = known("a", modified_ns=None)
    line = file("a", modified_ns=None)

    expected = changed(line, known=timeless, members=(timeless,))

    assert state.knows(timeless).against(line) == [expected]


def test_the_url_of_before_is_gone_first(state: Remembering) -> None:
    line = changed(file("a"), url="http://new.example.com/a")

    assert state.knows(known("a")).against(line) == [gone("a"), line]


def test_a_document_that_is_not_listed_is_gone(state: Remembering) -> None:
    state.knows(known("a"), known("b"), known("c"))

    assert state.against(file("b")) == [gone("a"), unchanged("b"), gone("c")]


def test_all_documents_of_an_empty_source_are_gone(state: Remembering) -> None:
    state.knows(known("a"), known("b"))

    assert state.against() == [gone("a"), gone("b")]


@pytest.mark.parametrize("code", ["excluded", "hidden", "empty", "symlink"])
def test_a_document_that_a_rule_filters_now_is_gone(state: Remembering, code: str) -> None:
    state.knows(known("a"))

    assert state.against(filtered("a", code)) == [gone("a"), filtered("a", code)]


def test_what_a_rule_filters_and_nobody_knows_is_only_that(state: Remembering) -> None:
    state.knows(known("b"))

    assert state.against(filtered("a"), file("b")) == [filtered("a"), unchanged("b")]


@pytest.mark.parametrize("line", [rejected("a"), filtered("a", "vanished")])
def test_a_document_of_which_nothing_can_be_told_stays(
    state: Remembering, line: ListingEntry
) -> None:
    state.knows(known("a"))

    assert state.against(line) == [line]


@pytest.mark.parametrize("line", [rejected("b/", "unlistable-folder"), filtered("b/", "vanished")])
def test_documents_in_a_folder_that_cannot_be_listed_stay(
    state: Remembering, line: ListingEntry
) -> None:
    state.knows(known("a"), known("b-1"), known("b/c"), known("b/d/e"), known("c"))

    assert state.against(line) == [gone("a"), gone("b-1"), line, gone("c")]


def test_documents_below_a_link_that_is_broken_now_stay(state: Remembering) -> None:
    state.knows(known("b-1"), known("b.txt"), known("b/c"), known("b0"))
    line = rejected("b", "broken-link")

    assert state.against(line, file("b.txt")) == [
        line,
        gone("b-1"),
        unchanged("b.txt"),
        gone("b0"),
    ]


def test_documents_below_two_broken_links_that_begin_alike_stay(state: Remembering) -> None:
    state.knows(known("b-1/c"), known("b/c"), known("b0"))
    lines = [rejected("b", "broken-link"), rejected("b-1", "broken-link")]

    assert state.against(*lines) == [*lines, gone("b0")]


def test_documents_of_a_root_that_cannot_be_listed_stay(state: Remembering) -> None:
    state.knows(known("a"), known("b/c"))

    assert state.against(rejected("", "unlistable-folder")) == [rejected("", "unlistable-folder")]


def test_a_folder_as_it_was_is_unchanged_whatever_its_time(state: Remembering) -> None:
    state.knows(SentDocument(key="a/", url=url_of("a/"), modified_ns=8))

    assert state.against(folder("a/")) == [unchanged("a/")]


def test_a_folder_whose_acl_has_changed_is_sent(state: Remembering) -> None:
    state.knows(SentDocument(key="a/", url=url_of("a/"), fingerprint="mode 0755"))

    assert state.against(folder("a/", fingerprint="mode 0700")) == [
        folder("a/", fingerprint="mode 0700")
    ]


def test_a_folder_that_is_not_listed_is_gone(state: Remembering) -> None:
    state.knows(SentDocument(key="a/", url=url_of("a/")), known("a/b"))

    assert state.against() == [gone("a/"), gone("a/b")]


@pytest.mark.parametrize(("key", "expected"), [("a/", True), ("a", False), ("", True)])
def test_a_folder_is_known_by_its_key(key: str, expected: bool) -> None:
    assert is_folder(filtered(key)) is expected


def test_with_other_rules_all_is_new(state: Remembering) -> None:
    state.knows(known("a"), known("b"))

    assert state.against(file("a"), rules="r2") == [
        changed(file("a"), members=(known("a"),)),
        gone("b"),
    ]


def test_with_a_refresh_all_is_new(state: Remembering) -> None:
    state.knows(known("a"), SentDocument(key="b/", url=url_of("b/")), known("c"))

    assert state.against(file("a"), folder("b/"), is_refresh=True) == [
        changed(file("a"), members=(known("a"),)),
        folder("b/"),
        gone("c"),
    ]


def test_with_other_rules_members_of_archives_are_new_too(state: Remembering) -> None:
    inner = member("a.zip/b", "a.zip")
    state.knows(archive("a.zip"), msgspec.structs.replace(inner, digest="d1"))

    assert state.against(file("a.zip"), rules="r2") == [changed(file("a.zip"), members=(inner,))]


def test_a_document_whose_url_another_one_has_now_is_not_to_be_deleted(state: Remembering) -> None:
    state.knows(known("a"))

    taken = changed(file("0"), url=url_of("a"))

    assert state.against(taken, file("a", size=6)) == [taken, file("a", size=6)]


def test_members_of_an_archive_as_it_was_stay(state: Remembering) -> None:
    state.knows(archive("a.zip"), member("a.zip/b", "a.zip"), known("a.zip-c"))

    assert state.against(file("a.zip"), file("a.zip-c")) == [
        unchanged("a.zip"),
        unchanged("a.zip-c"),
    ]


def test_an_archive_that_has_changed_has_what_is_known_of_its_members(
    state: Remembering,
) -> None:
    members = (member("a.zip/b", "a.zip"), member("a.zip/c", "a.zip"))
    state.knows(archive("a.zip"), *members, known("b"))
    line = file("a.zip", size=6)

    assert state.against(line, file("b")) == [changed(line, members=members), unchanged("b")]


def test_an_archive_with_another_time_has_what_is_known_of_it_and_its_members(
    state: Remembering,
) -> None:
    inner = member("a.zip/b", "a.zip")
    state.knows(archive("a.zip"), inner)
    line = file("a.zip", modified_ns=OLD_NS + 1)

    assert state.against(line) == [changed(line, known=archive("a.zip"), members=(inner,))]


def test_an_archive_may_be_listed_without_a_url(state: Remembering) -> None:
    line = changed(file("a.zip"), url="")

    assert state.knows(archive("a.zip")).against(line) == [changed(unchanged("a.zip"), url="")]


def test_members_of_an_archive_that_is_gone_are_so_where_their_keys_stand(
    state: Remembering,
) -> None:
    members = (member("a.zip/b", "a.zip"), member("a.zip/c", "a.zip"))
    state.knows(archive("a.zip"), *members, known("a.zip-d"), known("e"))

    assert state.against(file("a.zip-d"), file("e")) == [
        forgotten("a.zip"),
        unchanged("a.zip-d"),
        gone("a.zip/b"),
        gone("a.zip/c"),
        unchanged("e"),
    ]


def test_members_of_the_last_archive_are_gone_with_it(state: Remembering) -> None:
    state.knows(archive("a.zip"), member("a.zip/b", "a.zip"))

    assert state.against() == [forgotten("a.zip"), gone("a.zip/b")]


def test_members_of_an_archive_that_is_not_opened_any_more_are_gone(state: Remembering) -> None:
    state.knows(archive("a.zip"), member("a.zip/b", "a.zip"))

    assert state.against(filtered("a.zip", "archive"), rules="r2") == [
        forgotten("a.zip"),
        filtered("a.zip", "archive"),
        gone("a.zip/b"),
    ]


def test_members_of_an_archive_of_which_nothing_can_be_told_stay(state: Remembering) -> None:
    state.knows(archive("a.zip"), member("a.zip/b", "a.zip"))

    assert state.against(rejected("a.zip")) == [rejected("a.zip")]


def test_a_folder_takes_the_place_of_an_archive(state: Remembering) -> None:
    state.knows(archive("a.zip"), member("a.zip/b", "a.zip"))

    assert state.against(folder("a.zip/"), file("a.zip/b")) == [
        forgotten("a.zip"),
        folder("a.zip/"),
        gone("a.zip/b"),
        file("a.zip/b"),
    ]


def at(key: str, url: str) -> ListingEntry:
    return changed(file(key), url=url)


def known_at(key: str, url: str) -> SentDocument:
    return msgspec.structs.replace(known(key), url=url)


def test_a_document_that_moves_up_and_keeps_its_url_is_not_deleted(state: Remembering) -> None:
    state.knows(known_at("b/1", "http://x/1"))

    assert state.against(at("a/1", "http://x/1")) == [at("a/1", "http://x/1"), forgotten("b/1")]


def test_a_document_that_moves_down_and_keeps_its_url_is_deleted_before_it_is_sent(
    state: Remembering,
) -> None:
    state.knows(known_at("a/1", "http://x/1"))

    assert state.against(at("b/1", "http://x/1")) == [
        ListingEntry(key="a/1", kind=EntryKind.GONE, url="http://x/1"),
        at("b/1", "http://x/1"),
    ]


def test_documents_that_change_urls_with_one_another_are_not_deleted(state: Remembering) -> None:
    state.knows(known_at("a", "http://x/1"), known_at("b", "http://x/2"))

    assert state.against(at("a", "http://x/2"), at("b", "http://x/1")) == [
        ListingEntry(key="a", kind=EntryKind.GONE, url="http://x/1"),
        at("a", "http://x/2"),
        at("b", "http://x/1"),
    ]


@pytest.mark.parametrize(
    ("stays", "expected"),
    [
        ("a", [changed(unchanged("a"), url="http://x/"), forgotten("b")]),
        ("b", [forgotten("a"), changed(unchanged("b"), url="http://x/")]),
    ],
)
def test_the_url_of_two_documents_stays_with_one_of_them(
    state: Remembering, stays: str, expected: list[ListingEntry]
) -> None:
    state.knows(known_at("a", "http://x/"), known_at("b", "http://x/"))

    assert state.against(at(stays, "http://x/")) == expected


def test_the_url_of_two_documents_is_deleted_with_the_last(state: Remembering) -> None:
    state.knows(known_at("a", "http://x/"), known_at("b", "http://x/"))

    assert state.against() == [
        forgotten("a"),
        ListingEntry(key="b", kind=EntryKind.GONE, url="http://x/"),
    ]


def test_a_document_of_which_nothing_can_be_told_keeps_its_url_too(state: Remembering) -> None:
    state.knows(known_at("a/1", "http://x/"), known_at("b", "http://x/"))
    line = rejected("a/", "unlistable-folder")

    assert state.against(line) == [line, forgotten("b")]


def test_a_member_of_an_archive_keeps_its_url_too(state: Remembering) -> None:
    inner = SentDocument(key="a.zip/1", url="http://x/", parent="a.zip")
    state.knows(archive("a.zip"), inner, known_at("b", "http://x/"))

    assert state.against(file("a.zip")) == [unchanged("a.zip"), forgotten("b")]


def test_a_listing_that_is_out_of_order_is_not_believed(state: Remembering) -> None:
    state.knows(known("a"))

    with pytest.raises(FeedferryError) as caught:
        state.against(file("b"), file("a"))

    assert str(caught.value) == (
        "'a' listed after 'b': a defect of feedferry; no document was read"
    )


def test_a_listing_is_taken_line_by_line(state: Remembering, tmp_path: Path) -> None:
    taken: list[str] = []

    def walk() -> Iterator[ListingEntry]:
        for key in ("a", "b"):
            taken.append(key)
            yield file(key)

    with open_state(tmp_path / "none.state") as empty:
        next(compare(walk(), empty, rules="r1", is_refresh=False))

    assert taken == ["a"]


# What follows plays whole runs: a tree changes, and a target takes what a worker makes of the
# lines. An archive is a dict of contents, any other file a content and a time.

Inner = dict[str, str]


class Leaf(NamedTuple):
    content: str | Inner
    modified_ns: int = OLD_NS


Tree = Mapping[str, Leaf]


class Run:
    """A target and a state, as one run after the other leaves them."""

    def __init__(self, path: Path, url_of: Callable[[str], str] = url_of) -> None:
        self._path = path
        self._url_of = url_of
        self._runs = 0
        self.target: dict[str, str] = {}
        self.sent: list[str] = []

    def over(self, tree: Tree) -> None:
        self.sent = []
        with open_state(self._path) as state:
            lines = list(compare(self._walk(tree), state, rules="r1", is_refresh=False))
        assert [line.key for line in lines] == sorted(line.key for line in lines)
        seen = [one for line in lines for one in self._read(line, tree)]
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
            return [StateChange(known=SentDocument(key=line.key, url=line.url), is_gone=True)]
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
        if line.known is not None and line.known.digest == digest:
            return [StateChange(known=now)]
        if isinstance(content, dict):
            return [*self._unpack(line, content), StateChange(known=now)]
        self._send(line.url, content)
        return [StateChange(known=now)]

    def _unpack(self, line: ListingEntry, inner: Inner) -> Iterator[StateChange]:
        for lost in line.members:
            if lost.key not in {f"{line.key}/{name}" for name in inner}:
                self._delete(lost.url)
                yield StateChange(known=lost, is_gone=True)
        for name in sorted(inner):
            key = f"{line.key}/{name}"
            self._send(self._url_of(key), inner[name])
            yield StateChange(known=SentDocument(key=key, url=self._url_of(key), parent=line.key))

    def _send(self, url: str, content: str) -> None:
        self.sent.append(url)
        self.target[url] = content

    def _delete(self, url: str) -> None:
        self.sent.append(url)
        del self.target[url]


def held(tree: Tree) -> dict[str, str]:
    """What a target holds that has all of a tree."""
    documents: dict[str, str] = {}
    for key, leaf in tree.items():
        if isinstance(leaf.content, dict):
            for name, content in leaf.content.items():
                documents[url_of(f"{key}/{name}")] = content
        else:
            documents[url_of(key)] = leaf.content
    return documents


def leaf(content: str | Inner, modified_ns: int | None) -> Leaf:
    """A file whose time tells its content, or one that was written when it was listed."""
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
@given(st.lists(_TREES, min_size=1, max_size=4))
def test_run_by_run_the_target_holds_what_the_tree_does(trees: list[Tree]) -> None:
    with TemporaryDirectory() as folder:
        run = Run(Path(folder, "docs.state"))
        for tree in trees:
            run.over(tree)

    assert run.target == held(trees[-1])


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(_TREES, min_size=1, max_size=3))
def test_a_run_over_what_has_not_changed_sends_nothing(trees: list[Tree]) -> None:
    with TemporaryDirectory() as folder:
        run = Run(Path(folder, "docs.state"))
        for tree in (*trees, trees[-1]):
            run.over(tree)

    assert run.sent == []


def url_of_name(key: str) -> str:
    """A template of names alone, whatever folder they stand in."""
    return "http://docs.example.com/" + key.rpartition("/")[2]


_PLACES = st.dictionaries(
    st.sampled_from(["1", "2", "3"]), st.sampled_from(["a/", "b/", "", "é/"]), max_size=3
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(_PLACES, min_size=1, max_size=4))
def test_documents_that_move_about_and_keep_their_urls_are_held(
    places: list[dict[str, str]],
) -> None:
    with TemporaryDirectory() as folder:
        run = Run(Path(folder, "docs.state"), url_of_name)
        for place in places:
            run.over({place[name] + name: Leaf(f"content of {name}") for name in place})

    assert run.target == {
        f"http://docs.example.com/{name}": f"content of {name}" for name in places[-1]
    }


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.sets(st.sampled_from(["a/1", "b/1", "c/1", "1"])), min_size=1, max_size=4))
def test_a_url_of_several_documents_is_held_as_long_as_there_is_one(
    trees: list[set[str]],
) -> None:
    with TemporaryDirectory() as folder:
        run = Run(Path(folder, "docs.state"), url_of_name)
        for tree in trees:
            run.over({key: Leaf("content") for key in tree})

    assert set(run.target) == {url_of_name(key) for key in trees[-1]}
