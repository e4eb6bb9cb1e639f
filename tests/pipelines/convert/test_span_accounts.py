"""The chunks and files of a run, from the accounts that its spans have stored."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.convert.publication.publish import check_files
from feedferry.pipelines.convert.publication.span_accounts import collect
from feedferry.schemas.account import Account, Chunk, SpanFile, merge
from feedferry.schemas.errors import FatalError
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats import ReadOptions, WriteOptions
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.storage.run_folders.attempts import Attempt
from feedferry.transforms.storage.storage import LocalStorage

CHUNK = Chunk(path="", bytes=4, sha256="", records={}, first_url="", last_url="", source="", span=0)


def settings_in(work: Path) -> Settings:
    return Settings(
        folder=str(work),
        target=Target(format="gsa-feed"),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 20,
    )


def store(work: Path, ordinal: int, names: Iterable[str]) -> Account:
    """Store the account of a span with some files; return it without them, as workers do."""
    with Attempt(LocalStorage(work), Span(ordinal=ordinal)) as attempt:
        for name in names:
            attempt.storage.put(name, b"text")
        files = [
            SpanFile(
                path=attempt.path_of(name),
                bytes=4,
                sha256="",
                modified_ns=attempt.storage.modified_ns(name),
            )
            for name in names
        ]
        chunks = [replace(CHUNK, path=file.path) for file in files if file.path.endswith(".xml")]
        account = attempt.commit(Account(spans=1, chunks=chunks, files=files))
    return replace(account, chunks=[], files=[])


def names(paths: Iterable[str]) -> list[str]:
    return [path.rpartition("/")[2] for path in paths]


def test_chunks_and_other_files_are_in_the_order_of_their_spans(tmp_path: Path) -> None:
    accounts = [
        store(tmp_path, 1, ["b-10.xml", "b-9.xml", "b.rejects.avro"]),
        store(tmp_path, 0, ["a-0.xml"]),
        store(tmp_path, 2, []),
    ]
    collected = collect(merge(accounts), settings_in(tmp_path), lambda account: None)
    expected = ["a-0.xml", "b-9.xml", "b-10.xml"]
    assert [names(chunk.path for chunk in collected.chunks) for _ in range(2)] == [expected] * 2
    assert names(file.path for file in collected.files) == ["b.rejects.avro"]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".lines"] == []


def test_a_chunk_that_has_changed_and_a_damaged_account_are_refused(tmp_path: Path) -> None:
    account = store(tmp_path, 0, ["a-0.xml"])

    def check(stored: Account) -> None:
        check_files(stored, tmp_path, verify=False)

    collect(account, settings_in(tmp_path), check)
    [chunk] = tmp_path.glob("*/*/a-0.xml")
    chunk.write_bytes(b"longer text")
    with pytest.raises(FatalError, match=r"a-0\.xml: differs from the 4 bytes that were written"):
        collect(account, settings_in(tmp_path), check)
    Path(tmp_path, *account.stored).write_bytes(b"{")
    with pytest.raises(FatalError, match="damaged; expected the account of a span"):
        collect(account, settings_in(tmp_path), check)
