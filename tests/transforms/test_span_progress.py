"""The progress of spans in files: sums, repeated spans, and what killed workers leave."""

import os
from pathlib import Path

import pytest

from transforms.span_progress import (
    ProgressReader,
    SpanProgress,
    finish_progress,
    write_progress,
)

FIRST = SpanProgress(10, 3, 1)
SECOND = SpanProgress(5, 2, 0)


def sum_of(run: Path) -> SpanProgress:
    return ProgressReader(run).sum()


def files_of(run: Path) -> list[str]:
    return sorted(path.suffix for path in (run / "progress").iterdir())


def test_nothing_is_done_before_the_first_span(tmp_path: Path) -> None:
    assert sum_of(tmp_path) == SpanProgress()


def test_a_finished_span_has_no_file_of_its_own(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path)
    write_progress(tmp_path, "a", SpanProgress(4, 1, 0))
    write_progress(tmp_path, "b", SECOND)
    assert reader.sum() == SpanProgress(9, 3, 0)
    finish_progress(tmp_path, "a", FIRST)
    assert reader.sum() == sum_of(tmp_path) == SpanProgress(15, 5, 1)
    finish_progress(tmp_path, "b", SECOND)

    assert reader.sum() == sum_of(tmp_path) == SpanProgress(15, 5, 1)
    assert files_of(tmp_path) == [".jsonl"]


def test_a_span_that_is_converted_again_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ProgressReader(tmp_path)
    for pid in (7, 3, 5):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        finish_progress(tmp_path, "a", SpanProgress(pid, 1, 0))
    assert reader.sum() == sum_of(tmp_path) == SpanProgress(5, 1, 0)
    write_progress(tmp_path, "a", SpanProgress(2, 1, 0))  # its files were damaged

    assert reader.sum() == SpanProgress(5, 1, 0)


def test_what_is_no_span_of_the_run_does_not_count(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path)
    finish_progress(tmp_path, "a", FIRST)
    finish_progress(tmp_path, "b", SECOND)
    assert reader.sum() == SpanProgress(15, 5, 1)
    finish_progress(tmp_path, "a", None)

    assert reader.sum() == sum_of(tmp_path) == SECOND


def test_what_a_killed_worker_leaves_is_left_out_or_replaced(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path)
    write_progress(tmp_path, "a", FIRST)
    (tmp_path / "progress" / "b.progress").write_bytes(b"[1,")
    (tmp_path / "progress" / "c.progress.77.partial").write_bytes(b"[1,1,1]")
    torn = tmp_path / "progress" / "host-1.jsonl"
    torn.write_bytes(b'["b",1,[5,2')
    assert reader.sum() == FIRST
    torn.write_bytes(b'["b",1,[5,2,0]]\n["c",1,"\xff"]\n')
    assert reader.sum() == SpanProgress(15, 5, 1)
    finish_progress(tmp_path, "a", SECOND)

    assert reader.sum() == SpanProgress(10, 4, 0)


def test_each_line_is_read_once(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path)
    for number in range(50):
        finish_progress(tmp_path, f"{number}", SECOND)
    assert reader.sum() == SpanProgress(250, 100, 0)
    for path in (tmp_path / "progress").iterdir():
        path.write_bytes(b"x" * path.stat().st_size)

    assert reader.sum() == SpanProgress(250, 100, 0)
