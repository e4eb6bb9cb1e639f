"""Attempts at one span: which account counts, and which files are removed."""

import os
from pathlib import Path

import pytest

from feedferry.schemas.account import Account
from feedferry.schemas.errors import FatalError
from feedferry.schemas.span import Span
from feedferry.transforms.storage.atomic import AtomicFile
from feedferry.transforms.storage.run_folders.attempts import Attempt
from feedferry.transforms.storage.storage import LocalStorage

SPAN = Span(source="a.xml")


def write(attempt: Attempt, text: bytes = b"chunk") -> Account:
    """Write a file, and return the account that lists it."""
    file = AtomicFile(attempt.storage, "chunk")
    file.write(text)
    return Account(spans=1, files=[attempt.file(file.finish())])


def left(folder: Path) -> list[str]:
    """All files, by path."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def test_an_attempt_leaves_its_files_only_if_it_commits(tmp_path: Path) -> None:
    with Attempt(LocalStorage(tmp_path), SPAN) as attempt:
        write(attempt)
    assert left(tmp_path) == []

    with Attempt(LocalStorage(tmp_path), SPAN) as attempt:
        account = attempt.commit(write(attempt))
    [file] = account.files
    assert left(tmp_path) == sorted(["00000-00000.0.json", file.path])
    assert (file.bytes, file.modified_ns) == (5, os.stat(tmp_path / file.path).st_mtime_ns)


def test_the_second_attempt_returns_the_account_of_the_first(tmp_path: Path) -> None:
    with (
        Attempt(LocalStorage(tmp_path), SPAN) as first,
        Attempt(LocalStorage(tmp_path), SPAN) as second,
    ):
        counted = first.commit(write(first))
        returned = second.commit(write(second))

    assert returned == counted
    assert left(tmp_path) == sorted(["00000-00000.0.json", counted.files[0].path])


def test_an_account_that_cannot_be_read_is_a_damaged_one(tmp_path: Path) -> None:
    (tmp_path / "00000-00000.0.json").mkdir()
    with Attempt(LocalStorage(tmp_path), SPAN) as attempt:
        assert attempt.find_account() is None
        account = attempt.commit(write(attempt))
    assert left(tmp_path) == sorted(["00000-00000.1.json", account.files[0].path])


def test_the_files_of_running_and_committed_attempts_stay(tmp_path: Path) -> None:
    with Attempt(LocalStorage(tmp_path), SPAN) as running:
        account = write(running)
        with Attempt(LocalStorage(tmp_path), SPAN) as failing:
            write(failing)
        account = running.commit(account)
    with Attempt(LocalStorage(tmp_path), SPAN):
        pass

    assert Attempt(LocalStorage(tmp_path), SPAN).find_account() == account
    assert Attempt(LocalStorage(tmp_path), Span(source="a.xml", length=7)).find_account() is None


def test_the_second_attempt_takes_the_place_of_a_first_whose_files_are_damaged(
    tmp_path: Path,
) -> None:
    with (
        Attempt(LocalStorage(tmp_path), SPAN) as first,
        Attempt(LocalStorage(tmp_path), SPAN) as second,
    ):
        lost = first.commit(write(first))
        (tmp_path / lost.files[0].path).unlink()
        account = second.commit(write(second))

    assert account != lost
    assert Attempt(LocalStorage(tmp_path), SPAN).find_account() == account


def test_a_folder_that_cannot_be_written_to_is_fatal(tmp_path: Path) -> None:
    (tmp_path / "00000-00000").write_bytes(b"")
    with pytest.raises(FatalError) as caught, Attempt(LocalStorage(tmp_path), SPAN):
        pass

    path = tmp_path / "00000-00000"
    assert str(caught.value) == f"{path}: File exists; expected to write there"
