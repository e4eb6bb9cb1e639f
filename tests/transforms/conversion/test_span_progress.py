"""The progress of spans in files: sums, repeated spans, and what killed workers leave."""

import os
from pathlib import Path
from typing import IO

import pytest

from feedferry.schemas.account import Account
from feedferry.schemas.errors import FatalError
from feedferry.transforms.conversion.span_progress import (
    ProgressReader,
    SpanProgress,
    StoredProgressLog,
    StoredProgressReader,
    progress_log,
    progress_reader,
)
from feedferry.transforms.storage.storage import LocalStorage

FIRST = SpanProgress(10, 3, 1)
SECOND = SpanProgress(5, 2, 0)


def reader_of(run: Path) -> ProgressReader:
    return progress_reader(str(run))


def sum_of(run: Path) -> SpanProgress:
    return reader_of(run).sum()


def files_of(run: Path) -> list[str]:
    return sorted(path.suffix for path in (run / "progress").iterdir())


def test_nothing_is_done_before_the_first_span(tmp_path: Path) -> None:
    assert sum_of(tmp_path) == SpanProgress()


def test_a_finished_span_has_no_file_of_its_own(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    progress_log(str(tmp_path)).write("a", SpanProgress(4, 1, 0))
    progress_log(str(tmp_path)).write("b", SECOND)
    assert reader.sum() == SpanProgress(9, 3, 0)
    progress_log(str(tmp_path)).finish("a", FIRST)
    assert reader.sum() == sum_of(tmp_path) == SpanProgress(15, 5, 1)
    progress_log(str(tmp_path)).finish("b", SECOND)

    assert reader.sum() == sum_of(tmp_path) == SpanProgress(15, 5, 1)
    assert files_of(tmp_path) == [".jsonl"]


def test_a_span_that_is_converted_again_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = reader_of(tmp_path)
    for pid in (7, 3, 5):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        progress_log(str(tmp_path)).finish("a", SpanProgress(pid, 1, 0))
    assert reader.sum() == sum_of(tmp_path) == SpanProgress(5, 1, 0)
    progress_log(str(tmp_path)).write("a", SpanProgress(2, 1, 0))  # its files were damaged

    assert reader.sum() == SpanProgress(5, 1, 0)


def test_what_is_no_span_of_the_run_does_not_count(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    progress_log(str(tmp_path)).finish("a", FIRST)
    progress_log(str(tmp_path)).finish("b", SECOND)
    assert reader.sum() == SpanProgress(15, 5, 1)
    progress_log(str(tmp_path)).finish("a", None)

    assert reader.sum() == sum_of(tmp_path) == SECOND


def test_what_a_killed_worker_leaves_is_left_out_or_replaced(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    progress_log(str(tmp_path)).write("a", FIRST)
    (tmp_path / "progress" / "b.progress").write_bytes(b"[1,")
    (tmp_path / "progress" / "c.progress.77.partial").write_bytes(b"[1,1,1]")
    torn = tmp_path / "progress" / "host-1.jsonl"
    torn.write_bytes(b'["b",1,[5,2')
    assert reader.sum() == FIRST
    torn.write_bytes(b'["b",1,[5,2,0]]\n["c",1,"\xff"]\n')
    assert reader.sum() == SpanProgress(15, 5, 1)
    progress_log(str(tmp_path)).finish("a", SECOND)

    assert reader.sum() == SpanProgress(10, 4, 0)


def test_each_line_is_read_once(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    for number in range(50):
        progress_log(str(tmp_path)).finish(f"{number}", SECOND)
    assert reader.sum() == SpanProgress(250, 100, 0)
    for path in (tmp_path / "progress").iterdir():
        path.write_bytes(b"x" * path.stat().st_size)

    assert reader.sum() == SpanProgress(250, 100, 0)


class CountingStorage(LocalStorage):
    """A storage that counts its requests, and fails while `is_down`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.puts = self.lists = 0
        self.offsets: list[int] = []
        self.is_down = False

    def put(self, name: str, data: bytes) -> None:
        self._check()
        self.puts += 1
        super().put(name, data)

    def sizes(self, prefix: str = "") -> dict[str, int]:
        self._check()
        self.lists += 1
        return super().sizes(prefix)

    def open(self, name: str, offset: int = 0) -> IO[bytes]:
        self.offsets.append(offset)
        return super().open(name, offset)

    def _check(self) -> None:
        if self.is_down:
            raise FatalError("the storage is down")


def test_a_span_that_is_repeated_by_another_process_counts_once(tmp_path: Path) -> None:
    storage = CountingStorage(tmp_path)
    killed, other = StoredProgressLog(storage, 0), StoredProgressLog(storage, 0)
    reader = StoredProgressReader(storage, 0)
    killed.finish("a", SECOND)
    killed.write("b", SpanProgress(4, 1, 0))
    assert reader.sum() == SpanProgress(9, 3, 0)
    other.write("b", SpanProgress(2, 1, 0))
    assert reader.sum() == SpanProgress(7, 3, 0)
    other.finish("b", FIRST)
    other.finish("a", SECOND)  # whose account is found again
    other.write("c", SECOND)
    assert reader.sum() == StoredProgressReader(storage).sum() == SpanProgress(20, 7, 1)
    other.finish("c", None)

    assert reader.sum() == StoredProgressReader(storage).sum() == SpanProgress(15, 5, 1)
    assert len(list(tmp_path.iterdir())) == 2
    assert reader.lines == 4  # each is read once
    assert max(storage.offsets) > 0


def test_the_requests_depend_on_time_and_processes_only(tmp_path: Path) -> None:
    storage = CountingStorage(tmp_path)
    logs = [StoredProgressLog(storage, 3600) for _ in range(3)]
    reader = StoredProgressReader(storage, 3600)
    for period in range(2):
        for number in range(100):
            for log in logs:
                log.write(f"{period}-{number}", FIRST)
                log.finish(f"{period}-{number}", SECOND)
            reader.sum()
        for log in logs:
            log._due_at = 0.0  # as when the period is over
        reader._due_at = 0.0

    assert (storage.puts, storage.lists, len(storage.offsets)) == (3 * 2, 2, 3 * 2)


def test_a_storage_that_is_down_delays_progress_and_fails_nothing(tmp_path: Path) -> None:
    storage = CountingStorage(tmp_path)
    log, reader = StoredProgressLog(storage, 0), StoredProgressReader(storage, 0)
    log.finish("a", SECOND)
    assert reader.sum() == SECOND
    storage.is_down = True
    log.finish("b", FIRST)
    assert reader.sum() == SECOND
    storage.is_down = False
    log.write("c", SECOND)

    assert reader.sum() == SpanProgress(20, 7, 1)


def test_the_account_has_what_no_process_has_put(tmp_path: Path) -> None:
    storage = CountingStorage(tmp_path)
    log, reader = StoredProgressLog(storage), StoredProgressReader(storage, 0)
    for span in ("a", "b"):
        log.finish(span, SECOND)
    assert reader.sum() == SECOND
    reader.finish(Account(bytes_stored=10, read={"ADD": 3, "DELETE": 1}, rejected={"ADD": 1}))

    assert reader.sum() == SpanProgress(10, 4, 1)
