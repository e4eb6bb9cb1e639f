"""Names of folders in order, few and many."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import FatalError
from transforms.sources.tree.sorted_names import Is, Name, Names, read_names


def names(folder: Path, *, follows_links: bool = False) -> list[tuple[str, str]]:
    with closing(read_names(str(folder), follows_links=follows_links)) as found:
        return list(found)


def in_runs(texts: list[str], *, run_names: int) -> list[str]:
    found = (Name(text, Is.FILE.value) for text in texts)
    with closing(Names(found, run_names=run_names)) as ordered:
        return [name.text for name in ordered]


def bytes_of(text: str) -> bytes:
    return text.encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "a.txt").touch()
    (tmp_path / "to folder").symlink_to("a")
    (tmp_path / "to file").symlink_to("a.txt")
    (tmp_path / "to nothing").symlink_to("b")
    (tmp_path / "to itself").symlink_to("to itself")
    return tmp_path


def test_a_folder_stands_where_its_files_do(folder: Path) -> None:
    assert names(folder)[:2] == [("a.txt", "f"), ("a/", "d")]


def test_links_are_links(folder: Path) -> None:
    assert names(folder)[2:] == [
        ("to file", "l"),
        ("to folder", "l"),
        ("to itself", "l"),
        ("to nothing", "l"),
    ]


def test_links_that_are_followed_are_what_they_lead_to(folder: Path) -> None:
    assert names(folder, follows_links=True)[2:] == [
        ("to file", "f"),
        ("to folder/", "d"),
        ("to itself", "f"),
        ("to nothing", "f"),
    ]


def test_a_name_that_is_not_utf_8_is_written_with_backslashes(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.txt")).touch()
    assert names(tmp_path) == [("caf\\xe9.txt", "u")]


def test_a_folder_whose_name_is_not_utf_8_is_a_folder_still(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9")).mkdir()
    assert names(tmp_path) == [("caf\\xe9/", "u")]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
    st.integers(1, 4),
)
def test_names_are_in_the_order_of_their_bytes(texts: list[str], run_names: int) -> None:
    assert in_runs(texts, run_names=run_names) == sorted(texts, key=bytes_of)


def test_names_that_are_longer_than_a_block_are_put_together() -> None:
    texts = [f"{number:05d}" * 50 for number in range(1000)]
    assert in_runs(texts[::-1], run_names=400) == texts


def test_what_a_name_is_of_is_kept_in_a_temporary_file() -> None:
    found = [Name("b/", "d"), Name("a\nb", "l"), Name("é", "u")]
    with closing(Names(iter(found), run_names=1)) as ordered:
        assert list(ordered) == [Name("a\nb", "l"), Name("b/", "d"), Name("é", "u")]


@pytest.mark.parametrize("run_names", [1, 10])
def test_a_folder_with_a_sidecar_is_known_to_have_one(run_names: int) -> None:
    found = (Name(text, "f") for text in ("a.pdf", "a.pdf.meta.yml", "b.pdf"))
    with closing(Names(found, run_names=run_names)) as ordered:
        assert ordered.has_sidecars


def test_a_folder_without_sidecars_is_known_to_have_none() -> None:
    with closing(Names(iter([Name("a.pdf", "f")]), run_names=10)) as ordered:
        assert not ordered.has_sidecars


def test_a_folder_that_cannot_be_read_to_its_end_raises() -> None:
    def torn() -> Iterator[Name]:
        yield Name("a", "f")
        yield Name("b", "f")
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        Names(torn(), run_names=1)


def test_a_disk_that_is_full_is_no_trouble_of_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    monkeypatch.setattr(tempfile, "tempdir", "/full")

    with pytest.raises(FatalError) as caught:
        Names(iter([Name("a", "f")]), run_names=1)

    assert str(caught.value) == "/full: No space left on device; expected to write there"
