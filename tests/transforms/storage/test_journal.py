import errno
import os
from pathlib import Path

import pytest

from transforms.storage import journal
from transforms.storage.journal import Journal, sync_folder, write_at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.jsonl"


def test_lines_are_appended(path: Path) -> None:
    lines = Journal(path, size=0)
    lines.append(b"a\n")
    lines.append(b"b\n")
    lines.close()

    assert path.read_bytes() == b"a\nb\n"


def test_a_torn_line_is_cut_off(path: Path) -> None:
    path.write_bytes(b"a\nto")
    lines = Journal(path, size=2)
    lines.append(b"b\n")
    lines.close()

    assert path.read_bytes() == b"a\nb\n"


def test_a_line_is_on_the_disk_when_it_was_appended(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Journal(path, size=0)
    synced: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda _file: synced.append(path.read_bytes()))
    lines.append(b"a\n")
    lines.close()

    assert synced == [b"a\n"]


def test_nothing_stays_of_a_line_that_has_no_room(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_a_part(file: int, line: bytes, offset: int) -> None:
        os.pwrite(file, line[:1], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    lines = Journal(path, size=0)
    lines.append(b"a\n")
    monkeypatch.setattr(journal, "write_at", write_a_part)
    with pytest.raises(OSError, match="No space left on device"):
        lines.append(b"bb\n")
    monkeypatch.undo()
    lines.append(b"c\n")
    lines.close()

    assert path.read_bytes() == b"a\nc\n"


def test_a_block_that_the_system_takes_in_pieces_is_written_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, block, at: pwrite(file, block[:2], at))
    with path.open("wb") as stream:
        write_at(stream.fileno(), b"abcdefg", 1)

    assert path.read_bytes() == b"\0abcdefg"


def test_the_names_in_a_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(handle > 0))
    sync_folder(tmp_path)

    assert synced == [True]
