"""The state of a source: documents, updates that are all or nothing, and other files."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, FatalError
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.transforms.storage import state as state_module
from feedferry.transforms.storage.state import (
    SourceState,
    StateHead,
    check_state,
    open_state,
    update_state,
)
from support.runs import ROOT

STAMP = StateHead(source="/docs", rules="r1", mark="2026-11-21", listed_at_ns=5_000, run="run-1")
REPORT = SentDocument(
    key="a/report.pdf",
    url="http://docs.example.com/a/report.pdf",
    size=12,
    modified_ns=1_700_000_000_123_456_789,
    fingerprint="mode 0644",
    digest="ab" * 32,
)
ARCHIVE = SentDocument(key="a.zip", url="", size=99)
MEMBER = SentDocument(
    key="a.zip/inner.txt", url="http://docs.example.com/a.zip/inner.txt", parent="a.zip"
)
OTHER = SentDocument(
    key="a.zip/other.txt", url="http://docs.example.com/a.zip/other.txt", parent="a.zip"
)

UPDATE_AND_WAIT = """
import sys
from pathlib import Path
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.transforms.storage import state
from feedferry.transforms.storage.state import StateHead, update_state

state._CACHE = "PRAGMA cache_size = 10"

def seen():
    for number in range(20_000):
        key = f"folder/document-{number:06d}"
        url = "http://docs.example.com/" + key
        yield StateChange(document=SentDocument(key=key, url=url, digest="cd" * 32))
    print("updating", flush=True)
    sys.stdin.read()

before = int(sys.argv[2])
update_state(Path(sys.argv[1]), seen(), before=before, stamp=StateHead(source="/docs"))
"""
"""A run that stops in an update when much of it is in the file, because it keeps few pages."""

COUNT = """
import sys
from pathlib import Path
from feedferry.transforms.storage.state import open_state

with open_state(Path(sys.argv[1])) as state:
    documents = state.documents()
    next(documents)
    print("reading", flush=True)
    sys.stdin.readline()
    print(1 + sum(1 for _ in documents), flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "docs.state"


def document(key: str, url: str | None = None) -> SentDocument:
    return SentDocument(key=key, url=f"http://docs.example.com/{key}" if url is None else url)


def seen(*known: SentDocument) -> list[StateChange]:
    return [StateChange(document=each) for each in known]


def gone(*known: SentDocument) -> list[StateChange]:
    return [StateChange(document=each, is_deleted=True) for each in known]


def stored(path: Path, *known: SentDocument) -> SourceState:
    """Store documents in a new state and open it."""
    assert update_state(path, seen(*known), before=0, stamp=STAMP) >= 0
    return open_state(path)


def content(path: Path) -> tuple[int, list[str]]:
    """Return the generation of a state and the keys of its documents."""
    with open_state(path) as state:
        return state.head.generation, [known.key for known in state.documents()]


def child(text: str, *args: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", text, *args],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def kill_during_update(path: Path, before: int) -> None:
    with child(UPDATE_AND_WAIT, str(path), str(before)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "updating\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def refusal(action: Callable[[], object], kind: type[Exception] = ConfigError) -> str:
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value)


# Reading


@pytest.mark.parametrize("is_file", [False, True])
def test_a_missing_or_empty_file_is_an_empty_state(path: Path, is_file: bool) -> None:
    if is_file:
        path.touch()
    check_state(path)
    with open_state(path, source="/docs") as state:
        assert state.head == StateHead()
        assert (list(state.documents()), state.find("a"), state.sharing(None)) == ([], None, [])

    assert path.exists() is is_file
    assert update_state(path, seen(REPORT), before=0, stamp=STAMP) == 1


def test_a_state_has_documents_and_the_stamp_of_its_run(tmp_path: Path) -> None:
    path = tmp_path / "a?b#c%20 é.state"
    with stored(path, REPORT) as state:
        assert list(state.documents()) == [state.find(REPORT.key)] == [REPORT]
        head = state.head
        assert (head.generation, head.documents, head.source) == (1, 1, "/docs")
        assert (head.rules, head.mark, head.listed_at_ns) == ("r1", "2026-11-21", 5_000)
        thread_result: list[SentDocument | None] = []
        thread = threading.Thread(target=lambda: thread_result.append(state.find(REPORT.key)))
        thread.start()
        thread.join()

    assert thread_result == [REPORT]
    assert list(tmp_path.iterdir()) == [path]


def test_documents_are_in_the_order_of_their_bytes(path: Path) -> None:
    keys = ["é", "a/b", "a", "z", "a.b", "A", "\U0001f600", "\uffff"]
    with stored(path, *map(document, keys)) as state:
        assert [known.key for known in state.documents()] == sorted(keys, key=str.encode)


@pytest.mark.parametrize("seed", range(20))
def test_shared_urls_are_those_of_several_documents_after_each_update(
    path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    urls = ["", *(f"http://x/{number}" for number in range(6))]
    expected: dict[str, SentDocument] = {}
    for before in range(8):
        changes = []
        for _ in range(chance.randrange(1, 9)):
            each = document(chance.choice("abcdefgh"), chance.choice(urls))
            is_deleted = not chance.randrange(3)
            changes.append(StateChange(document=each, is_deleted=is_deleted))
            expected.pop(each.key, None)
            if not is_deleted:
                expected[each.key] = each
        update_state(path, changes, before=before, stamp=STAMP)
        counts = Counter(each.url for each in expected.values())
        shared = [expected[key] for key in sorted(expected) if counts[expected[key].url] > 1]
        with open_state(path) as state:
            assert state.sharing(None) == [each for each in shared if each.url]
            assert state.sharing(str) == state.sharing(None)


def test_changes_are_stored_in_their_order_with_the_same_or_another_url(path: Path) -> None:
    keys = [f"{number:04}" for number in range(2500)]
    stored(path, *map(document, keys)).close()
    first, middle, last = keys[0], keys[1200], keys[-1]
    moved = document(middle, "http://moved.example.com/")
    changes = [
        *seen(*(replace(document(key), size=1) for key in keys)),
        *seen(moved, replace(document(first), size=2), replace(document(middle), size=3)),
        *gone(document(last)),
        *seen(replace(document(last), size=4), replace(moved, size=5)),
    ]
    update_state(path, changes, before=1, stamp=STAMP)
    with open_state(path) as state:
        assert [state.find(key) for key in (first, middle, last)] == [
            replace(document(first), size=2),
            replace(moved, size=5),
            replace(document(last), size=4),
        ]
        assert [each.url for each in state.with_url(moved.url)] == [moved.url]
        assert [*state.with_url(document(middle).url)] == []
        assert sum(each.size == 1 for each in state.documents()) == 2497


def test_archives_have_members_and_are_no_documents_and_neither_are_folders(path: Path) -> None:
    folder, root = document("a/"), document("")
    with stored(path, OTHER, root, MEMBER, ARCHIVE, folder, REPORT) as state:
        rows = [row for page in state.outermost() for row in page]
        assert rows == [
            (each.key, each.url, each.size, each.modified_ns, each.fingerprint)
            for each in (root, ARCHIVE, folder, REPORT)
        ]
        assert state.members_of("a.zip") == (MEMBER, OTHER)
        assert state.members_of(REPORT.key) == ()
        assert state.head.documents == 3


@pytest.mark.parametrize(("url", "expected"), [("http://x/", True), ("http://y/", False)])
def test_documents_may_share_a_url(path: Path, url: str, expected: bool) -> None:
    documents = (document("b", "http://x/"), document("d", url), ARCHIVE, document("b.zip", ""))
    with stored(path, *documents) as state:
        shared = [documents[0], documents[1]] if expected else []
        assert state.sharing(None) == shared


@pytest.mark.parametrize("modified_ns", [1 << 70, -(1 << 70)])
def test_a_time_out_of_range_is_stored_as_another_time(path: Path, modified_ns: int) -> None:
    far = replace(REPORT, modified_ns=modified_ns)
    with stored(path, far) as state:
        known = state.find(REPORT.key)

    assert known is not None
    assert known != far
    assert replace(known, modified_ns=modified_ns) == far


def test_a_state_takes_and_gives_documents_one_by_one(path: Path) -> None:
    count = 20_000
    many = (StateChange(document=document(f"{number:05d}")) for number in range(count))
    tracemalloc.start()
    try:
        assert update_state(path, many, before=0, stamp=STAMP) == count
        with open_state(path) as state:
            assert sum(1 for _ in state.documents()) == count
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 2_000_000


# Updates


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (seen(document("c")), ["a", "b", "c"]),
        (gone(document("a")), ["b"]),
        (gone(document("a")) + seen(document("a")), ["a", "b"]),
        (seen(document("c")) + gone(document("a"), document("nothing")), ["b", "c"]),
        (seen(replace(MEMBER, parent="a")) + gone(document("a")), [MEMBER.key, "b"]),
    ],
)
def test_an_update_adds_and_removes_documents(
    path: Path, changes: list[StateChange], expected: list[str]
) -> None:
    stored(path, document("a"), document("b")).close()
    update_state(path, changes, before=1, stamp=STAMP)

    assert content(path) == (2, expected)


def test_an_update_replaces_documents(path: Path) -> None:
    stored(path, REPORT).close()
    later = replace(REPORT, size=13, digest="cd" * 32)
    update_state(path, seen(later), before=1, stamp=replace(STAMP, rules="r2"))
    with open_state(path) as state:
        assert (state.find(REPORT.key), state.head.rules) == (later, "r2")


@pytest.mark.parametrize(("before", "run"), [(0, "run-2"), (0, ""), (3, "run-1")])
def test_a_state_of_another_generation_is_not_updated(path: Path, before: int, run: str) -> None:
    stored(path, REPORT).close()
    stamp = StateHead(source="/docs", run=run)
    message = refusal(
        lambda: update_state(path, gone(REPORT), before=before, stamp=stamp), FatalError
    )

    assert message == (
        f"{path}: generation 1; expected {before}: another run has updated this state; start again "
        "with --fresh to compare the source with the new state"
    )
    assert content(path) == (1, [REPORT.key])


def test_a_run_may_repeat_its_update(path: Path) -> None:
    stored(path, REPORT).close()

    assert update_state(path, gone(REPORT), before=0, stamp=STAMP) == 1
    assert content(path) == (1, [REPORT.key])


def test_an_interrupted_update_changes_nothing(path: Path) -> None:
    def interrupted() -> Iterator[StateChange]:
        yield from gone(REPORT)
        raise KeyboardInterrupt

    stored(path, REPORT).close()
    with pytest.raises(KeyboardInterrupt):
        update_state(path, interrupted(), before=1, stamp=STAMP)

    assert content(path) == (1, [REPORT.key])


@pytest.mark.slow
def test_a_killed_update_changes_nothing(path: Path) -> None:
    kill_during_update(path, before=0)
    assert content(path) == (0, [])
    stored(path, REPORT).close()
    before_bytes = path.stat().st_size
    kill_during_update(path, before=1)

    assert path.stat().st_size > before_bytes + 1_000_000  # there is something to roll back
    assert content(path) == (1, [REPORT.key])


@pytest.mark.slow
def test_several_processes_read_at_the_same_time(path: Path) -> None:
    stored(path, *(document(f"{number:05d}") for number in range(5_000))).close()
    with child(COUNT, str(path)) as first, child(COUNT, str(path)) as second:
        assert first.stdout is not None
        assert second.stdout is not None
        lines = first.stdout.readline() + second.stdout.readline()
        counts = first.communicate("\n")[0] + second.communicate("\n")[0]

    assert (lines, counts) == ("reading\nreading\n", "5000\n5000\n")


# Files that are no state


@pytest.mark.parametrize("text", [b"id,name\n", b"%PDF-1.7\n" + bytes(100_000), None])
def test_another_file_is_refused_and_stays(path: Path, text: bytes | None) -> None:
    if text is not None:
        path.write_bytes(text)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE people (id)")
    before = path.read_bytes()
    message = f"--state {path}: no state of feedferry; expected one, or a path without a file"

    assert refusal(lambda: open_state(path)) == message
    assert refusal(lambda: update_state(path, seen(REPORT), before=0, stamp=STAMP)) == message
    assert path.read_bytes() == before


def test_another_version_is_refused(path: Path) -> None:
    stored(path, REPORT).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")

    assert refusal(lambda: open_state(path)) == (
        f"--state {path}: a state of version 1; expected 2; name a path without a file to send all "
        "documents"
    )


@pytest.mark.parametrize("use", [open_state, check_state])
def test_the_state_of_another_source_is_refused(path: Path, use: Callable[..., object]) -> None:
    stored(path, REPORT).close()
    check_state(path, source="/docs")

    assert refusal(lambda: use(path, source="/wiki")) == (
        f"--state {path}: a state of '/docs'; expected one of '/wiki'; name another path to send "
        "all documents"
    )


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(lambda: open_state(tmp_path)) == (
        f"--state {tmp_path}: Is a directory; expected a readable file"
    )


def test_a_state_in_use_is_fatal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(path, REPORT).close()
    monkeypatch.setattr(state_module, "_WAIT_SECONDS", 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        message = refusal(lambda: open_state(path), FatalError)

    assert message == f"{path}: in use by another run; start again when that has ended"


def test_a_damaged_state_is_fatal(path: Path) -> None:
    stored(path, *(document(f"{number:05d}") for number in range(5_000))).close()
    with path.open("r+b") as stream:
        stream.seek(3 * 4096)
        stream.write(b"\xff" * 100 * 4096)

    assert refusal(lambda: content(path), FatalError) == (
        f"{path}: database disk image is malformed; expected a readable and writable state"
    )


def test_a_missing_folder_is_found_before_the_run_and_fatal_later(path: Path) -> None:
    lost = path.parent / "none" / "docs.state"

    assert refusal(lambda: check_state(lost)) == (
        f"--state {lost}: no folder '{path.parent}/none'; expected an existing one"
    )
    assert refusal(lambda: update_state(lost, seen(REPORT), before=0, stamp=STAMP), FatalError) == (
        f"{lost}: unable to open database file; expected a readable and writable state"
    )


@pytest.mark.parametrize("name", ["", "docs.state"])
def test_a_path_that_is_not_writable_is_found_before_the_run(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`os.access` is replaced because root may write everywhere."""
    stored(path, REPORT).close()
    locked = path.parent / name
    monkeypatch.setattr(os, "access", lambda place, mode: (place, mode) != (locked, os.W_OK))

    assert refusal(lambda: check_state(path)) == (
        f"--state {path}: '{locked}' is not writable; expected it to be"
    )
