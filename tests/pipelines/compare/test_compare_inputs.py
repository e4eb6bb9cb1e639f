"""The chunks of a run as the input of a comparison."""

import tracemalloc
from pathlib import Path

import pytest

from feedferry.pipelines.compare.inputs import CompareInput
from feedferry.pipelines.folders.manifest import REPORT, write_manifest
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError, UnknownFormatError
from feedferry.schemas.reject import UNKNOWN_FORMAT, Reject
from feedferry.schemas.run_record import RUN_RECORD
from feedferry.transforms.compare.history import each
from support.archives import HOST, jsonl, put

CHUNK = Chunk(path="", bytes=1, sha256="", records={}, first_url="", last_url="", source="", span=0)


def make_run(folder: Path, count: int) -> list[Path]:
    """A run whose chunks delete a document each; return their files."""
    paths = [f"chunks/{number:06d}.jsonl" for number in range(1, count + 1)]
    files = [put(folder / path, jsonl(f"{HOST}/{path}")) for path in paths]
    chunks = [
        Chunk(
            path=path, bytes=1, sha256="", records={}, first_url="", last_url="", source="", span=0
        )
        for path in paths
    ]
    write_manifest(folder, chunks)
    put(folder / REPORT, b"{}")
    return [*map(Path, files)]


def urls(run: CompareInput) -> list[str | None]:
    return [item.url for item in each(run.results()) if not isinstance(item, Reject)]  # type: ignore[union-attr]  # records


def test_runs_are_read_chunk_by_chunk_each_time(tmp_path: Path) -> None:
    files = [*make_run(tmp_path / "a", 3), *make_run(tmp_path / "b", 2)]
    runs = CompareInput((str(tmp_path / "a"), str(tmp_path / "b")), {}, folder=tmp_path)
    expected = [f"{HOST}/chunks/{path.name}" for path in files]
    assert (urls(runs), urls(runs)) == (expected, expected)


@pytest.mark.parametrize("words", [{}, {"from_format": "jsonl"}])
def test_a_run_without_chunks_has_no_records(tmp_path: Path, words: dict[str, str]) -> None:
    (tmp_path / "run").mkdir()
    make_run(tmp_path / "run", 0)
    assert urls(CompareInput((str(tmp_path / "run"),), words, folder=tmp_path)) == []


def test_a_run_that_has_stopped_is_no_input(tmp_path: Path) -> None:
    put(tmp_path / "run" / RUN_RECORD, b"{}")
    with pytest.raises(ConfigError, match="an unfinished run; expected a finished one"):
        CompareInput((str(tmp_path / "run"),), {}, folder=tmp_path)


def test_a_chunk_that_is_no_feed_is_a_reject_and_a_run_of_these_is_an_error(tmp_path: Path) -> None:
    run, *files = tmp_path / "run", *make_run(tmp_path / "run", 3)
    files[0].write_bytes(b"%PDF-1.4")
    items = [*each(CompareInput((str(run),), {}, folder=tmp_path).results())]
    assert [item.code for item in items if isinstance(item, Reject)] == [UNKNOWN_FORMAT]
    assert len(items) == 3
    for file in files[1:]:
        file.write_bytes(b"%PDF-1.4")
    with pytest.raises(UnknownFormatError, match=files[0].name):
        CompareInput((str(run),), {}, folder=tmp_path)


def test_a_missing_chunk_is_an_error(tmp_path: Path) -> None:
    run, *files = tmp_path / "run", *make_run(tmp_path / "run", 3)
    files[1].unlink()
    with pytest.raises(ConfigError, match=files[1].name):
        urls(CompareInput((str(run),), {}, folder=tmp_path))


def test_the_chunks_of_a_run_are_not_held(tmp_path: Path) -> None:
    make_run(tmp_path / "run", 3000)
    urls(CompareInput((str(tmp_path / "run"),), {}, folder=tmp_path))
    tracemalloc.start()
    run = CompareInput((str(tmp_path / "run"),), {}, folder=tmp_path)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert run.names
    assert held < 200_000
