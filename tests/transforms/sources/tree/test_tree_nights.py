"""Nights of real trees: after each of them, the target has what a first run would send.

The files of a tree are compared with the state in blocks. The oracle of the listing is a comparison
of one entry at a time, and that of the target is a first run over the present tree.
"""

import io
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.sent_document import StateChange
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.sources.changes.detector import ChangeDetector
from feedferry.transforms.sources.listing import write_changes
from feedferry.transforms.sources.tree.documents.member_keys import MemberLister
from feedferry.transforms.sources.tree.documents.read import read_tree
from feedferry.transforms.sources.tree.file_changes import compare, merge_unchanged
from feedferry.transforms.sources.tree.folders.walk import list_blocks, list_tree
from feedferry.transforms.sources.tree.rules.tree import Tree, TreeAcl
from feedferry.transforms.sources.tree.tree_source import TREE
from feedferry.transforms.storage.state import StateHead, open_state, update_state

BASE = "https://docs.example.com/"
FUTURE_NS = 4_102_444_800 * 10**9
CONTENTS = (b"red", b"tan", b"green", b"")
NAMES = (
    *("a", "a.b", "a-", "a/b", "a/c", "a0", "b.txt", "b/c", "b/d/e", "c d.txt", "50%.txt"),
    *("a.zip/a", "a.zip/b/c"),
    *("é", "b/é.txt", "\ufb01", "\N{CHERRIES}", ".hidden", "t.tmp", "b.txt.meta.json"),
    *(f"many/{number:02}" for number in range(12)),
)
ARCHIVES = ("a.zip", "b/c.zip")
UNDECODABLE = os.fsdecode(b"caf\xe9.txt")
RULES: tuple[dict[str, Any], ...] = (
    {},
    {"open_archives": True},
    {"exclude": ("*-", "many/*7")},
    {"include": ("*.txt", "a*", "0*")},
    {"acl": TreeAcl()},
    {"acl": TreeAcl(is_inherited=True), "open_archives": True},
    {"is_public": True},
    {"follow_links": True},
    {"base_url": f"{BASE}a/"},
    {"base_url": None, "url_template": f"{BASE}?id={{id}}"},
)


class Change(NamedTuple):
    """A change of the file with a name; `number` chooses a content, a name, a mode or a time."""

    kind: str
    name: str
    number: int


FIRST = [Change("write", name, number) for number, name in enumerate(NAMES)]


class Night(NamedTuple):
    """Changes of a tree, and how it is converted then."""

    changes: list[Change]
    rules: int
    is_young: bool
    is_killed: bool


class History:
    """A target and a state, as the nights of a tree leave them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._listing = folder / "listing"
        self._state = folder / "state"
        self.target: dict[str, Record] = {}
        self.sent: list[str] = []

    def run(self, tree: Tree, *, listed_at_ns: int, is_killed: bool = False) -> None:
        """Convert the changes of a tree; a run that is killed sends and remembers nothing."""
        rules = TREE.fingerprint(tree)
        with open_state(self._state) as state:
            before = state.head.generation
            texts = []
            for items in (list_tree(tree), list_blocks(tree)):
                detector = ChangeDetector(state)
                members = MemberLister(tree)
                lines = compare(items, detector, rules=rules, is_refresh=False, member_keys=members)
                merged = merge_unchanged(lines, detector)
                write_changes(merged, detector.deletions(), self._listing)
                texts.append(self._listing.read_bytes())
        assert texts[1] == texts[0]
        changes: list[StateChange] = []
        records = [*_records(tree, texts[1], changes)]
        self.sent = [record.url for record in records]
        if is_killed:
            return
        for record in records:
            if record.action is Action.DELETE:
                del self.target[record.url]
            else:
                self.target[record.url] = record
        stamp = StateHead(rules=rules, listed_at_ns=listed_at_ns)
        update_state(self._state, changes, before=before, stamp=stamp)


def _records(tree: Tree, listing: bytes, changes: list[StateChange]) -> Iterator[Record]:
    """Yield the records of a listing without their times, which a touched file does not change."""
    options, span = ReadOptions(batch_records=7), Span(source="docs")
    stream = io.BytesIO(listing)
    for result in read_tree(stream, span=span, tree=tree, options=options, see=changes.append):
        records = [result] if isinstance(result, Record) else result
        if isinstance(records, list | RecordBatch):
            for record in records:
                yield replace(record, modified=None, provenance=Provenance(source="docs"))


def apply(root: Path, change: Change) -> None:
    path, number = root / change.name, change.number
    match change.kind:
        case "write":
            put(path, CONTENTS[number % len(CONTENTS)])
        case "archive":
            put(root / ARCHIVES[number % 2], archive(number))
        case "move" if path.is_file() and not path.is_symlink():
            target = root / NAMES[number]
            put(target, path.read_bytes())
            if path.is_file() and path != target and target.suffix != ".json":
                path.replace(target)  # with its times
        case "remove":
            remove(path if number % 3 or path.parent == root else path.parent)
        case "link" if not os.path.lexists(path) and path.parent.is_dir():
            path.symlink_to(root / NAMES[number])
        case "chmod" if path.is_file():
            path.chmod((0o644, 0o600, 0o640)[number % 3])
        case "close" if path.parent.is_dir():
            path.parent.chmod((0o755, 0o750)[number % 2])
        case "touch" if path.is_file():
            os.utime(path, ns=(0, (0, 7, FUTURE_NS)[number % 3]))
        case "bad name":
            put(root / UNDECODABLE, b"red")


def put(path: Path, content: bytes) -> None:
    """Write a file instead of a folder of its name, and of files with the names of its folders."""
    for above in reversed(path.parents):
        if not above.is_dir() or above.is_symlink():
            above.unlink(missing_ok=True)
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b'{"author": "Ann"}' if path.name.endswith(".json") else content)
    path.chmod(0o644)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def archive(number: int) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as written:
        for member in ("a", "b/c", "é", "z")[number % 2 : number % 5]:
            written.writestr(zipfile.ZipInfo(member), CONTENTS[number % len(CONTENTS)])
    return content.getvalue()


def next_tick(folder: Path) -> int:
    """Wait until a file has a later time than all files before it; return the time."""
    probe = folder / "probe"
    probe.touch()
    first = probe.stat().st_ctime_ns
    while (now := probe.stat().st_ctime_ns) == first:
        probe.write_bytes(b"")
    return now


_kinds = ("write",) * 6 + ("move", "remove", "archive", "link", "chmod", "close", "touch")
_changes = st.builds(
    Change,
    st.sampled_from((*_kinds, "bad name")),
    st.sampled_from(NAMES),
    st.integers(0, len(NAMES) - 1),
)


@st.composite
def nights_of(draw: st.DrawFn) -> list[Night]:
    """Nights with mostly the same rules."""
    rules = draw(st.integers(0, len(RULES) - 1))
    other = draw(st.integers(0, len(RULES) - 1))
    is_rare = st.integers(0, 5).map(lambda number: not number)
    night = st.builds(
        Night,
        st.lists(_changes, max_size=6),
        is_rare.map(lambda is_other: other if is_other else rules),
        is_rare,
        is_rare,
    )
    return [
        Night(FIRST, rules, is_young=False, is_killed=False),
        *draw(st.lists(night, min_size=2, max_size=5)),
    ]


@pytest.mark.slow
@settings(max_examples=60)
@given(nights_of())
def test_after_each_night_the_target_has_what_a_first_run_sends(nights: list[Night]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "root"
        root.mkdir()
        history = History(folder / "history")
        for number, night in enumerate(nights):
            for change in night.changes:
                apply(root, change)
            listed_at_ns = 0 if night.is_young else next_tick(folder) + 10**10
            tree = Tree(root=str(root), **{"base_url": BASE, **RULES[night.rules]})
            history.run(tree, listed_at_ns=listed_at_ns, is_killed=night.is_killed)
            if not night.is_killed:
                first = History(folder / f"first {number}")
                first.run(tree, listed_at_ns=0)
                assert history.target == first.target
        history.run(tree, listed_at_ns=listed_at_ns)
        history.run(tree, listed_at_ns=listed_at_ns)
        assert history.sent == []
