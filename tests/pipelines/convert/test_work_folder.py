"""A resumed run continues with the lists of its sources, unless they were damaged."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.archives import document, gsa_feed, put
from support.runs import chunks, column, convert

ARGS = (
    *("docs", "--to", "gsa-feed", "--base-url", "http://docs.example.com/"),
    *("--datasource", "docs", "-o", "out", "-q"),
)
REFUSING = (*ARGS, "--max-content-bytes", "40", "--max-rejects", "0")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def the(pattern: str) -> Path:
    [path] = Path("out/.work").glob(f"*/{pattern}")
    return path


def remove(path: Path) -> None:
    path.unlink()


def shorten(path: Path) -> None:
    """Take away the last line."""
    lines = path.read_bytes().splitlines(keepends=True)
    os.truncate(path, sum(map(len, lines[:-1])))


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


DAMAGES = pytest.mark.parametrize("damage", [remove, shorten, zero])


@pytest.fixture
def stopped(here: Path) -> None:
    """A run that stopped at a large document, which has become smaller since."""
    for name in "abcd":
        put(Path(f"docs/{name}.txt"), name.encode())
    put(Path("docs/a.txt"), b"too large " * 9)
    assert convert(*REFUSING) == 3
    put(Path("docs/a.txt"), b"a")


@pytest.mark.parametrize(
    "args",
    [
        ("convert", "docs/a.xml", "--to", "avro"),
        ("convert", "docs/a.xml", "--to", "avro", "--fresh"),
        ("push", "docs/a.xml", "--to", "http://127.0.0.1:9"),
    ],
)
def test_a_folder_with_the_files_of_others_is_refused(
    args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    feed = Path(put(Path("docs/a.xml"), gsa_feed(document(1))))
    assert main([*args, "-o", "docs"]) == 2
    assert capsys.readouterr().err == (
        "feedferry: -o docs: holds a.xml, and no run; expected a new or empty folder\n"
    )
    assert [path.name for path in Path("docs").iterdir()] == [feed.name]


def test_a_folder_with_hidden_files_or_an_earlier_run_is_used() -> None:
    put(Path("docs/a.txt"), b"text")
    put(Path("out/.gitkeep"), b"")
    assert convert(*ARGS) == 0
    put(Path("out/notes.txt"), b"text")
    assert convert(*ARGS, "--fresh") == 0
    assert Path("out/notes.txt").read_bytes() == b"text"


@pytest.mark.parametrize("name", ["run.log", "lock"])
def test_a_folder_of_a_run_that_ended_at_once_is_used(name: str) -> None:
    put(Path("docs/a.xml"), gsa_feed(document(1)))
    put(Path("out") / name, b"")
    assert main(["convert", "docs/a.xml", "-o", "out", "--to", "jsonl", "-q"]) == 0


@pytest.mark.usefixtures("stopped")
def test_a_resumed_run_keeps_its_listing() -> None:
    modified_ns = the("*.listing").stat().st_mtime_ns
    put(Path("docs/a.txt"), b"too large " * 9)
    convert(*REFUSING)

    assert the("*.listing").stat().st_mtime_ns == modified_ns


@pytest.mark.usefixtures("stopped")
def test_the_page_that_a_killed_run_was_writing_is_removed() -> None:
    page = Path(put(Path("out/report.html.1a2b.partial"), b"<html>"))
    assert (convert(*REFUSING), page.exists()) == (0, False)


@DAMAGES
@pytest.mark.parametrize("name", ["*.listing", "seal.json"])
@pytest.mark.usefixtures("stopped")
def test_a_run_with_a_damaged_listing_begins_again(
    name: str, damage: Callable[[Path], None]
) -> None:
    damage(the(name))
    code = convert(*REFUSING)

    [text] = chunks("out")
    assert (code, [text.count(f"{item}.txt".encode()) for item in "abcd"]) == (0, [1, 1, 1, 1])


@DAMAGES
def test_a_published_run_with_a_damaged_listing_is_refused(
    damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    put(Path("docs/a.txt"), b"a")
    args = (*ARGS, "--state", "sent", "--push-to", "http://127.0.0.1:9/", "--deadline", "1s")
    convert(*args)
    work = the("*.listing").parent
    damage(the("*.listing"))
    capsys.readouterr()
    code = convert(*args)

    assert (code, capsys.readouterr().err.splitlines()[0]) == (
        4,
        f"feedferry: {work}: files of the run are damaged; its output is published in out: push"
        " that, or begin again with --fresh",
    )
    assert column("out", "records") == [{"ADD": 1}]


def test_a_run_that_begins_anew_has_no_acls_that_an_earlier_run_has_replaced() -> None:
    put(Path("docs/a.txt"), b"a")
    assert convert(*ARGS) == 0
    put(Path("out/replaced.acls"), b"")
    assert convert(*ARGS, "--fresh") == 0
    assert not Path("out/replaced.acls").exists()
