"""The state of a source: what it remembers, how it moves, and what cannot harm it."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from schemas.errors import ConfigError, FatalError
from schemas.known import Known, Seen
from support.runs import ROOT, left
from transforms.storage import state as state_module
from transforms.storage.state import Stamp, check_state, move, open_state

STAMP = Stamp(source="/docs", rules="r1", mark="2026-11-21", listed_at_ns=5_000, run="run-1")
REPORT = Known(
    key="a/report.pdf",
    url="http://docs.example.com/a/report.pdf",
    size=12,
    modified_ns=1_700_000_000_123_456_789,
    fingerprint="mode 0644",
    digest="ab" * 32,
)
ARCHIVE = Known(key="a.zip", url="", size=99)
MEMBER = Known(key="a.zip/inner.txt", url="http://docs.example.com/a.zip/inner.txt", parent="a.zip")
OTHER_MEMBER = Known(
    key="a.zip/other.txt", url="http://docs.example.com/a.zip/other.txt", parent="a.zip"
)

MOVE_AND_WAIT = """
import sys
from pathlib import Path
from schemas.known import Known, Seen
from transforms.storage import state
from transforms.storage.state import Stamp, move

state._CACHE = "PRAGMA cache_size = 10"

def seen():
    for number in range(20_000):
        key = f"folder/document-{number:06d}"
        yield Seen(known=Known(key=key, url="http://docs.example.com/" + key, digest="cd" * 32))
    print("moving", flush=True)
    sys.stdin.read()

move(Path(sys.argv[1]), seen(), before=int(sys.argv[2]), stamp=Stamp(source="/docs"))
"""
"""A run that moves a state, and stops when much of it is in the file, for it keeps few pages."""

COUNT = """
import sys
from pathlib import Path
from transforms.storage.state import open_state

with open_state(Path(sys.argv[1])) as state:
    known = state.documents()
    next(known)
    print("reading", flush=True)
    sys.stdin.readline()
    print(1 + sum(1 for _ in known), flush=True)
"""
"""A worker that reads a state, and is in the middle of it until it is told to go on."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "docs.state"


def document(key: str) -> Known:
    return Known(key=key, url=f"http://docs.example.com/{key}")


def seen(*known: Known) -> list[Seen]:
    return [Seen(known=one) for one in known]


def gone(*known: Known) -> list[Seen]:
    return [Seen(known=one, is_gone=True) for one in known]


def known_at(path: Path) -> list[Known]:
    with open_state(path) as state:
        return list(state.documents())


def keys_at(path: Path) -> list[str]:
    return [one.key for one in known_at(path)]


def generation_at(path: Path) -> int:
    with open_state(path) as state:
        return state.generation


def child(text: str, *args: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", text, *args],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def kill_while_moving(path: Path, before: int) -> None:
    with child(MOVE_AND_WAIT, str(path), str(before)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "moving\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def refusal(path: Path, source: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        open_state(path, source=source)
    return str(caught.value)


def check_refusal(path: Path, source: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        check_state(path, source=source)
    return str(caught.value)


def set_pragma(path: Path, pragma: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA {pragma}")


def test_a_state_that_is_not_there_knows_nothing(path: Path) -> None:
    with open_state(path) as state:
        assert (state.generation, state.count, state.source, state.rules, state.mark) == (
            *(0, 0),
            *(None, None, None),
        )


def test_a_state_that_is_not_there_has_no_documents(path: Path) -> None:
    assert known_at(path) == []


def test_nothing_is_made_by_reading(tmp_path: Path, path: Path) -> None:
    known_at(path)

    assert left(tmp_path) == []


def test_nothing_is_made_by_checking(tmp_path: Path, path: Path) -> None:
    check_state(path, source="/docs")

    assert left(tmp_path) == []


def test_a_file_of_no_bytes_is_an_empty_state(path: Path) -> None:
    path.touch()

    assert (generation_at(path), move(path, seen(REPORT), before=0, stamp=STAMP)) == (0, 1)


def test_a_document_is_remembered_as_it_was(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    assert known_at(path) == [REPORT]


def test_a_run_leaves_its_stamp(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    with open_state(path) as state:
        assert (state.generation, state.source, state.rules, state.mark, state.listed_at_ns) == (
            *(1, "/docs", "r1"),
            *("2026-11-21", 5_000),
        )


def test_a_state_is_one_file(tmp_path: Path, path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    assert left(tmp_path) == ["docs.state"]


def test_a_name_may_hold_what_a_uri_may_not(tmp_path: Path) -> None:
    path = tmp_path / "docs?mode=ro#100%.state"
    move(path, seen(REPORT), before=0, stamp=STAMP)

    assert (known_at(path), left(tmp_path)) == ([REPORT], ["docs?mode=ro#100%.state"])


def test_a_second_run_moves_it_on(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)
    move(path, [], before=1, stamp=Stamp(source="/docs", rules="r2"))

    with open_state(path) as state:
        assert (state.generation, state.rules, state.mark) == (2, "r2", None)


def test_what_is_seen_again_replaces_what_was_known(path: Path) -> None:
    later = Known(key=REPORT.key, url="http://new.example.com/report.pdf", size=13)
    move(path, seen(REPORT), before=0, stamp=STAMP)
    move(path, seen(later), before=1, stamp=STAMP)

    assert known_at(path) == [later]


def test_what_was_not_seen_stays(path: Path) -> None:
    move(path, seen(document("a"), document("b")), before=0, stamp=STAMP)
    move(path, seen(document("c")), before=1, stamp=STAMP)

    assert keys_at(path) == ["a", "b", "c"]


def test_what_is_gone_is_forgotten(path: Path) -> None:
    move(path, seen(document("a"), document("b")), before=0, stamp=STAMP)
    move(path, gone(document("a")), before=1, stamp=STAMP)

    assert keys_at(path) == ["b"]


def test_what_is_gone_and_seen_again_is_known(path: Path) -> None:
    move(path, seen(document("a")), before=0, stamp=STAMP)
    move(path, gone(document("a")) + seen(REPORT, document("a")), before=1, stamp=STAMP)

    assert keys_at(path) == ["a", "a/report.pdf"]


def test_what_is_dropped_is_forgotten(path: Path) -> None:
    move(path, seen(document("a"), document("b")), before=0, stamp=STAMP)
    move(path, seen(document("c")), before=1, stamp=STAMP, drop=["a", "nothing"])

    assert keys_at(path) == ["b", "c"]


def test_members_of_an_archive_that_is_gone_stay_until_they_are_seen_to_be(path: Path) -> None:
    move(path, seen(ARCHIVE, MEMBER), before=0, stamp=STAMP)
    move(path, gone(ARCHIVE), before=1, stamp=STAMP)

    assert keys_at(path) == ["a.zip/inner.txt"]


def test_documents_are_counted_without_archives_and_folders(path: Path) -> None:
    root = Known(key="", url="http://docs.example.com/")
    folder = Known(key="a/", url="http://docs.example.com/a/")
    count = move(path, seen(root, ARCHIVE, MEMBER, folder, REPORT), before=0, stamp=STAMP)

    with open_state(path) as state:
        assert (count, state.count) == (2, 2)


def test_documents_come_in_the_order_of_their_bytes(path: Path) -> None:
    keys = ["z", "a/b", "a-b", "A", "\N{CHERRIES}", "\ufb01", "é", "a", "a.zip/x", "a.zip-x"]
    move(path, seen(*map(document, keys)), before=0, stamp=STAMP)

    assert keys_at(path) == [
        *("A", "a", "a-b", "a.zip-x", "a.zip/x", "a/b", "z"),
        *("é", "\ufb01", "\N{CHERRIES}"),
    ]


def test_the_outermost_are_all_but_members(path: Path) -> None:
    move(path, seen(MEMBER, ARCHIVE, REPORT), before=0, stamp=STAMP)

    with open_state(path) as state:
        assert list(state.outermost()) == [ARCHIVE, REPORT]


def test_members_are_found_by_their_archive(path: Path) -> None:
    move(path, seen(OTHER_MEMBER, MEMBER, ARCHIVE, REPORT), before=0, stamp=STAMP)

    with open_state(path) as state:
        assert state.members_of("a.zip") == (MEMBER, OTHER_MEMBER)


def test_a_file_has_no_members(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    with open_state(path) as state:
        assert state.members_of(REPORT.key) == ()


def test_a_document_is_found_by_its_key(path: Path) -> None:
    move(path, seen(document("a"), REPORT), before=0, stamp=STAMP)

    with open_state(path) as state:
        assert (state.find("a/report.pdf"), state.find("a/none.pdf")) == (REPORT, None)


@pytest.mark.parametrize(("url", "expected"), [("http://x/", True), ("http://y/", False)])
def test_a_state_knows_whether_documents_share_a_url(path: Path, url: str, expected: bool) -> None:
    both = (Known(key="a", url="http://x/"), Known(key="b", url=url))
    move(path, seen(*both, ARCHIVE, Known(key="b.zip", url="")), before=0, stamp=STAMP)

    with open_state(path) as state:
        assert state.shares_urls() is expected


@pytest.mark.parametrize(("key", "expected"), [("a", True), ("b", False)])
def test_a_state_knows_whether_a_url_is_of_another_document(
    path: Path, key: str, expected: bool
) -> None:
    move(path, seen(Known(key="b", url="http://x/")), before=0, stamp=STAMP)

    with open_state(path) as state:
        assert state.has_elsewhere("http://x/", key=key) is expected


@pytest.mark.parametrize(("key", "expected"), [("a", True), ("b", False), ("c", False)])
def test_a_state_knows_whether_a_url_is_of_a_document_that_follows(
    path: Path, key: str, expected: bool
) -> None:
    move(path, seen(Known(key="b", url="http://x/")), before=0, stamp=STAMP)

    with open_state(path) as state:
        assert state.has_behind("http://x/", key=key) is expected


def test_a_time_that_is_far_off_is_kept_as_another(path: Path) -> None:
    far = Known(key="a", url="http://x/", modified_ns=13_569_465_600_000_000_000)  # in 2400
    move(path, seen(far), before=0, stamp=STAMP)

    assert known_at(path) == [
        Known(key="a", url="http://x/", modified_ns=9_223_372_036_854_775_807)
    ]


def test_documents_are_read_one_by_one(path: Path) -> None:
    move(path, seen(*(document(f"{n:05d}") for n in range(20_000))), before=0, stamp=STAMP)

    with open_state(path) as state:
        tracemalloc.start()
        count = sum(1 for _ in state.documents())
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert (count, peak_bytes < 100_000) == (20_000, True)


@pytest.mark.slow
def test_what_is_seen_is_taken_one_by_one(path: Path) -> None:
    many = (Seen(known=document(f"{n:05d}")) for n in range(20_000))
    tracemalloc.start()
    count = move(path, many, before=0, stamp=STAMP)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (count, peak_bytes < 100_000) == (20_000, True)


def test_a_state_that_another_run_has_moved_is_not_moved(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    with pytest.raises(FatalError) as caught:
        move(path, gone(REPORT), before=0, stamp=Stamp(source="/docs", run="run-2"))

    assert str(caught.value) == (
        f"{path}: generation 1; expected 0: another run has moved this state; start again with "
        "--fresh, and the source is compared with what is known now"
    )


def test_a_run_that_was_too_late_changes_nothing(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    with pytest.raises(FatalError):
        move(path, gone(REPORT), before=0, stamp=Stamp(source="/docs", run="run-2"))

    assert (generation_at(path), known_at(path)) == (1, [REPORT])


def test_a_state_that_was_removed_meanwhile_is_not_moved(path: Path) -> None:
    with pytest.raises(FatalError, match="generation 0; expected 3: "):
        move(path, seen(REPORT), before=3, stamp=STAMP)


def test_a_run_may_move_again_what_it_has_moved(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)
    count = move(path, seen(REPORT), before=0, stamp=STAMP)

    assert (count, generation_at(path)) == (1, 1)


def test_a_run_without_a_name_may_not(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=Stamp(source="/docs"))

    with pytest.raises(FatalError, match="generation 1; expected 0: "):
        move(path, seen(REPORT), before=0, stamp=Stamp(source="/docs"))


def test_a_move_that_is_interrupted_changes_nothing(path: Path) -> None:
    def torn() -> Iterator[Seen]:
        yield from gone(REPORT)
        raise KeyboardInterrupt

    move(path, seen(REPORT), before=0, stamp=STAMP)
    with pytest.raises(KeyboardInterrupt):
        move(path, torn(), before=1, stamp=STAMP)

    assert (generation_at(path), known_at(path)) == (1, [REPORT])


def test_a_run_that_is_killed_while_it_moves_leaves_what_was_there(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)
    kill_while_moving(path, before=1)

    assert (generation_at(path), known_at(path)) == (1, [REPORT])


def test_a_run_that_is_killed_has_written_to_the_file(path: Path) -> None:
    """Else the test above would show nothing: that much must be rolled back."""
    move(path, seen(REPORT), before=0, stamp=STAMP)
    before_bytes = path.stat().st_size
    kill_while_moving(path, before=1)

    assert path.stat().st_size > before_bytes + 1_000_000


def test_the_first_run_that_is_killed_while_it_moves_leaves_an_empty_state(path: Path) -> None:
    kill_while_moving(path, before=0)

    assert (generation_at(path), known_at(path)) == (0, [])


def test_the_run_behind_one_that_was_killed_moves_the_state(path: Path) -> None:
    kill_while_moving(path, before=0)

    assert move(path, seen(REPORT), before=0, stamp=STAMP) == 1


def test_several_processes_read_at_once(path: Path) -> None:
    move(path, seen(*(document(f"{n:05d}") for n in range(5_000))), before=0, stamp=STAMP)

    with child(COUNT, str(path)) as one, child(COUNT, str(path)) as two:
        assert one.stdout is not None
        assert two.stdout is not None
        reading = one.stdout.readline() + two.stdout.readline()
        counts = one.communicate("\n")[0] + two.communicate("\n")[0]

    assert (reading, counts) == ("reading\nreading\n", "5000\n5000\n")


def test_a_state_may_be_opened_in_one_thread_and_read_in_another(path: Path) -> None:
    found: list[Known | None] = []
    move(path, seen(REPORT), before=0, stamp=STAMP)
    with open_state(path) as state:
        thread = threading.Thread(target=lambda: found.append(state.find(REPORT.key)))
        thread.start()
        thread.join()

    assert found == [REPORT]


@pytest.mark.parametrize("text", [b"id,name\n", b"%PDF-1.7\n" + bytes(100_000)])
def test_a_file_of_another_kind_is_no_state(path: Path, text: bytes) -> None:
    path.write_bytes(text)

    assert refusal(path) == (
        f"--state {path}: no state of feedferry; expected one, or a path where no file is"
    )


def test_a_file_of_another_kind_is_left_as_it_is(path: Path) -> None:
    path.write_bytes(b"%PDF-1.7\n" + bytes(5_000))
    with pytest.raises(ConfigError, match="no state of feedferry"):
        move(path, seen(REPORT), before=0, stamp=STAMP)

    assert path.read_bytes() == b"%PDF-1.7\n" + bytes(5_000)


def test_a_database_of_another_program_is_no_state(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE known (key TEXT)")

    assert refusal(path) == (
        f"--state {path}: no state of feedferry; expected one, or a path where no file is"
    )


def test_a_state_of_another_version_is_refused(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)
    set_pragma(path, "user_version = 2")

    assert refusal(path) == (
        f"--state {path}: a state of version 2; expected 1; name a path where no file is, and all"
        " is sent"
    )


def test_a_state_of_another_source_is_refused(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    assert refusal(path, "/reports") == (
        f"--state {path}: a state of '/docs'; expected one of '/reports'; name another path, and"
        " all is sent"
    )


def test_a_state_of_the_same_source_is_not_refused(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    with open_state(path, source="/docs") as state:
        assert state.generation == 1


def test_a_folder_is_no_state(tmp_path: Path) -> None:
    assert refusal(tmp_path) == (
        f"--state {tmp_path}: Is a directory; expected a file that can be read"
    )


def test_a_state_that_another_run_moves_cannot_be_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)
    monkeypatch.setattr(state_module, "_WAIT_SECONDS", 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(FatalError) as caught:
            open_state(path)

    assert str(caught.value) == f"{path}: in use by another run; start again when that has ended"


def test_a_state_that_is_damaged_is_fatal(path: Path) -> None:
    move(path, seen(*(document(f"{n:05d}") for n in range(5_000))), before=0, stamp=STAMP)
    with path.open("r+b") as stream:
        stream.seek(3 * 4096)
        stream.write(b"\xff" * 100 * 4096)

    with pytest.raises(FatalError) as caught:
        known_at(path)

    assert str(caught.value) == (
        f"{path}: database disk image is malformed; expected a state that can be read and written"
    )


def test_a_state_in_a_folder_that_has_vanished_is_fatal(path: Path) -> None:
    lost = path.parent / "none" / "docs.state"

    with pytest.raises(FatalError) as caught:
        move(lost, seen(REPORT), before=0, stamp=STAMP)

    assert str(caught.value) == (
        f"{lost}: unable to open database file; expected a state that can be read and written"
    )


def test_a_state_that_can_be_moved_passes_the_check(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    check_state(path, source="/docs")


def test_the_check_finds_that_a_folder_is_not_there(path: Path) -> None:
    lost = path.parent / "none" / "docs.state"

    assert check_refusal(lost) == (
        f"--state {lost}: no folder '{path.parent}/none'; expected one that is there"
    )


@pytest.mark.parametrize("name", ["", "docs.state"])
def test_the_check_finds_what_is_not_writable(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of `os.access` is a fake: who runs tests as root may write everywhere."""
    move(path, seen(REPORT), before=0, stamp=STAMP)
    locked = path.parent / name
    monkeypatch.setattr(os, "access", lambda place, mode: (place, mode) != (locked, os.W_OK))

    assert check_refusal(path) == (f"--state {path}: '{locked}' is not writable; expected it to be")


def test_the_check_finds_a_state_of_another_source(path: Path) -> None:
    move(path, seen(REPORT), before=0, stamp=STAMP)

    assert check_refusal(path, "/reports").startswith(f"--state {path}: a state of '/docs'; ")
