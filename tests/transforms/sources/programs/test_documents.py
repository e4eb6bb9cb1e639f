"""Listers, retrievers and transformers, most of which misbehave; these are real processes."""

import shlex
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from feedferry.schemas import avro
from feedferry.schemas.choices import NotFound
from feedferry.schemas.errors import (
    ConfigError,
    FatalError,
    FormatError,
    SourceError,
    UnavailableError,
)
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import (
    Action,
    Anchor,
    Arrival,
    Content,
    Crawl,
    Extra,
    Meta,
    Provenance,
    Record,
)
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import Docids, StreamOptions
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.sources.base import SpanRequest
from feedferry.transforms.sources.programs import transformer
from feedferry.transforms.sources.programs.calls import ProgramCalls
from feedferry.transforms.sources.programs.config import Programs, User
from feedferry.transforms.sources.programs.documents import documents, list_documents
from feedferry.transforms.sources.programs.programs_source import PROGRAMS
from feedferry.transforms.sources.programs.retriever import merge
from support.listings import FOLDER, HEADER, listed, shell, stream

pytestmark = pytest.mark.slow

A, B = listed("a"), listed("b")
NO_FILE = "no file in place of the metadata"
STRICT = ReadOptions(own=(StreamOptions(strict=True),))
DOCIDS = Docids(base_url="http://adaptor.example.com/doc/")
UNDER_BASE = ReadOptions(own=(StreamOptions(docids=DOCIDS),))
DOCUMENT = Record(
    url="a",
    action=Action.ADD,
    content=Content(b"text"),
    mimetype="text/plain",
    metadata=(Meta("kind", "wiki"), Meta("kind", "page"), Meta("", "")),
)


def lister(behaviour: str, **keys: Any) -> Programs:  # the fields of Programs
    return Programs(lister=shell("lister.sh", behaviour), **keys)


def retriever(behaviour: str, **keys: Any) -> Programs:  # the fields of Programs
    all_keys = {"retries": 0, "backoff_seconds": 0, "timeout_seconds": 30.0, **keys}
    return Programs(lister=("list",), retriever=shell("retriever.sh", behaviour), **all_keys)


def retrieve(
    programs: Programs, *items: ReadResult, options: ReadOptions = ReadOptions()
) -> list[ReadResult]:
    return list(documents(items, programs, options=options))


def reject_of(programs: Programs, options: ReadOptions = ReadOptions()) -> Reject:
    results = retrieve(programs, A, options=options)
    (reject,) = (result for result in results if not isinstance(result, Notice))
    assert isinstance(reject, Reject)
    return reject


def retrieved(record: Record, *, content: str = "") -> Record:
    """The answer of retriever.sh for a document, merged with the listed record."""
    return Record(
        url=record.url,
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content((content or f"{record.url} at 0").encode()),
        mimetype="text/plain",
        provenance=record.provenance,
    )


def codes(results: list[ReadResult]) -> list[str]:
    return [result.code if isinstance(result, Reject) else "good" for result in results]


def transform(behaviour: str, record: Record = DOCUMENT, **keys: Any) -> Record | Reject:
    return transform_by(shell("transformer.sh", behaviour), record, **keys)


def transform_by(
    command: tuple[str, ...], record: Record = DOCUMENT, **keys: Any
) -> Record | Reject:
    all_keys = {"retries": 0, "timeout_seconds": 30.0, **keys}
    programs = Programs(lister=("list",), transformer=command, **all_keys)
    return transformer.transform(ProgramCalls(programs), record, threading.Event())


def metadata(behaviour: str, record: Record = DOCUMENT) -> tuple[Meta, ...]:
    result = transform(behaviour, record)
    assert isinstance(result, Record)
    return result.metadata


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [("good", stream("id=a", "last-modified=1000", "lock", "id=b")), ("nothing", stream()[:-1])],
)
def test_a_listing_is_written_to_the_file(tmp_path: Path, behaviour: str, expected: bytes) -> None:
    (tmp_path / "list.sh").symlink_to(FOLDER / "lister.sh")
    programs = Programs(lister=("/bin/sh", "./list.sh", behaviour), folder=str(tmp_path))
    list_documents(programs, tmp_path / "listing")

    assert (tmp_path / "listing").read_bytes() == expected


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        (lister("exit"), "(lister-exit): exit code 3; expected 0; stderr ends 'no such disk'"),
        (
            lister("hang", lister_timeout_seconds=0.2),
            "(lister-timeout): still running after 0.2 s; expected an end within that time "
            "(lister_timeout); nothing on stderr",
        ),
        (
            lister("endless", max_listing_bytes=100_000),
            "(lister-endless): more than 100000 bytes of output; expected at most that "
            "(max_listing_bytes); nothing on stderr",
        ),
    ],
)
def test_a_failed_lister_stops_the_run(tmp_path: Path, programs: Programs, expected: str) -> None:
    with pytest.raises(SourceError) as caught:
        list_documents(programs, tmp_path / "listing")

    assert str(caught.value) == f"{shlex.join(programs.lister)} {expected}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("behaviour", ["garbage", "empty"])
def test_output_that_is_not_a_lister_stream_stops_the_run(tmp_path: Path, behaviour: str) -> None:
    with pytest.raises(FormatError, match=f"^/bin/sh .*lister.sh {behaviour}"):
        list_documents(lister(behaviour), tmp_path / "listing")

    assert list(tmp_path.iterdir()) == []


def test_a_listing_that_ends_with_unavailable_leaves_no_file(tmp_path: Path) -> None:
    listing = r"GSA Adaptor Data Version 1 [\n]\nid=a\nrepository-unavailable=db down\n"
    programs = Programs(lister=("printf", listing), folder=str(tmp_path))

    with pytest.raises(UnavailableError) as caught:
        list_documents(programs, tmp_path / "listing")

    assert str(caught.value).endswith("(byte 36): repository-unavailable: 'db down'")
    assert list(tmp_path.iterdir()) == []


def test_a_listing_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    path = tmp_path / "none" / "listing"

    with pytest.raises(FatalError) as caught:
        list_documents(lister("good"), path)

    assert str(caught.value) == f"{path}: No such file or directory; expected to write there"


@pytest.mark.parametrize("record", [A, listed("a b'\"$(c)*é")])
def test_a_document_is_retrieved_by_its_id(record: Record) -> None:
    assert retrieve(retriever("good"), record) == [retrieved(record)]


def test_the_retriever_gets_the_time_of_the_last_crawl() -> None:
    visited = datetime(2011, 8, 3, 16, 7, 23, 456_789, tzinfo=UTC)
    (result,) = retrieve(retriever("good"), Record(url="a", action=Action.ADD, visited=visited))

    assert isinstance(result, Record)
    assert result.content == Content(b"a at 1312387643456")


def test_items_that_are_not_added_documents_are_passed_on() -> None:
    gone = listed("gone", action=Action.DELETE)
    reject = Reject(code="bad-date", reason="a date", stage="read")
    notice = Notice(code="bom", detail="a mark")

    results = retrieve(retriever("good"), gone, A, reject, notice, B)
    assert results == [gone, retrieved(A), reject, notice, retrieved(B)]


@pytest.mark.parametrize(
    ("behaviour", "not_found", "expected"),
    [
        ("not-found", NotFound.SKIP, Filtered(code="not-found", url="a", action="ADD")),
        (
            "not-found",
            NotFound.DELETE,
            Record(url="a", action=Action.DELETE, provenance=A.provenance),
        ),
        ("up-to-date", NotFound.SKIP, Filtered(code="up-to-date", url="a", action="ADD")),
    ],
)
def test_a_document_without_content_is_filtered_or_deleted(
    behaviour: str, not_found: NotFound, expected: ReadResult
) -> None:
    options = ReadOptions(own=(StreamOptions(not_found=not_found),))
    assert retrieve(retriever(behaviour), A, options=options)[-1] == expected


def test_a_reject_has_the_place_in_the_listing_and_the_output() -> None:
    output = stream("id=a", "mime-type=text/plain", "content", "a at 0")[:-1]
    assert reject_of(retriever("exit")) == Reject(
        code="program-exit",
        reason="exit code 3; expected 0; stderr ends 'no such disk'",
        stage="retrieve",
        source="listing",
        span=2,
        offset=33,
        url="a",
        action="ADD",
        length=len(output),
        data=output,
    )


def test_a_reject_keeps_the_first_megabyte_of_the_output() -> None:
    reject = reject_of(retriever("big"))

    assert (len(reject.data), reject.length > 2_000_000, reject.truncated) == (1 << 20, True, True)


@pytest.mark.parametrize(
    ("programs", "code", "reason"),
    [
        (
            retriever("other"),
            "other-document",
            "an answer for 'not-a'; expected one for 'a'; nothing on stderr",
        ),
        (retriever("second"), "other-document", "2 documents; expected one; nothing on stderr"),
    ],
)
def test_a_failed_retriever_rejects_its_document(
    programs: Programs, code: str, reason: str
) -> None:
    reject = reject_of(programs)

    assert (reject.code, reject.reason) == (code, reason)


@pytest.mark.parametrize(
    ("behaviour", "is_strict", "code", "reason"),
    [
        ("garbage", False, "no-stream", "; stderr ends 'what?'"),
        ("empty", False, "no-stream", ""),
        ("nothing", False, "no-stream", ""),
        ("echo", True, "no-stream", ""),
        ("bad-acl", False, "bad-acl", ""),
        ("unavailable", False, "repository-unavailable", "'at night'; nothing on stderr"),
        ("unavailable", True, "repository-unavailable", "'at night'; nothing on stderr"),
    ],
)
def test_output_that_is_no_document_rejects_the_document(
    behaviour: str, is_strict: bool, code: str, reason: str
) -> None:
    reject = reject_of(retriever(behaviour), ReadOptions(own=(StreamOptions(strict=is_strict),)))

    assert (reject.code, reject.reason[-len(reason) :]) == (code, reason or reject.reason)


def test_lenient_reading_repairs_a_stream_after_an_echoed_flag() -> None:
    notice, record = retrieve(retriever("echo"), A)

    assert (isinstance(notice, Notice), record) == (True, retrieved(A))


def test_a_bad_document_does_not_affect_others() -> None:
    items = (listed("good"), listed("exit"), listed("a\0b"), listed("good"))

    expected = ["good", "program-exit", "program-argument", "good"]
    assert codes(retrieve(retriever("as-id"), *items)) == expected


def test_the_retriever_gets_the_id_from_which_the_url_was_made() -> None:
    record = listed("http://adaptor.example.com/doc/b%20c")
    foreign = listed("http://www.example.com/b")
    result, reject = retrieve(retriever("good"), record, foreign, options=UNDER_BASE)

    assert result == retrieved(record, content="b c at 0")
    assert codes([reject]) == ["foreign-url"]


@pytest.mark.parametrize("behaviour", ["first-fails", "first-unavailable"])
def test_a_successful_retry_gives_the_document(tmp_path: Path, behaviour: str) -> None:
    programs = retriever(behaviour, retries=1, folder=str(tmp_path))

    assert retrieve(programs, A) == [retrieved(A)]


def test_closing_the_generator_ends_all_programs() -> None:
    results = documents(
        [listed("good"), listed("hang"), listed("hang")], retriever("as-id", parallel=2)
    )
    next(results)
    results.close()

    assert not any(thread.name.startswith("program") for thread in threading.enumerate())


def test_a_program_that_is_missing_stops_the_run(tmp_path: Path) -> None:
    missing = ("no-such-program",)
    finding = "no-such-program: No such file or directory"

    with pytest.raises(SourceError, match=finding):
        list_documents(Programs(lister=missing), tmp_path / "listing")
    with pytest.raises(SourceError, match=finding):
        retrieve(Programs(lister=("list",), retriever=missing), A)
    with pytest.raises(SourceError, match=finding):
        transform_by(missing)


def test_only_added_documents_are_transformed_after_they_are_retrieved() -> None:
    programs = retriever("as-id", transformer=shell("transformer.sh", "add"))
    items = [listed(name) for name in ("good", "not-found", "exit")]
    result, filtered, reject = retrieve(programs, *items)

    assert isinstance(result, Record)
    assert (result.content, result.metadata) == (Content(b"good at 0"), (Meta("added", "yes"),))
    assert (type(filtered), type(reject)) == (Filtered, Reject)


def test_merge_keeps_fields_that_only_the_listing_states() -> None:
    early = datetime(2020, 1, 1, tzinfo=UTC)
    before = Record(
        url="a",
        action=Action.ADD,
        arrival=Arrival.CRAWLED,
        modified=early,
        crawl=Crawl(lock=True, display_url="http://show/a"),
        extras=(Extra("stream/x", "1"),),
        provenance=Provenance(source="listing", offset=7),
    )
    crawl = Crawl(lock=False, no_index=True, anchors=(Anchor("http://b", "b"),))
    after = replace(
        DOCUMENT,
        arrival=Arrival.PUSHED,
        crawl=crawl,
        extras=(Extra("stream/y", "2"),),
        provenance=Provenance(source="a", offset=31),
    )

    assert merge(before, after) == replace(
        DOCUMENT,
        arrival=Arrival.PUSHED,
        modified=early,
        crawl=replace(crawl, display_url="http://show/a"),
        extras=(Extra("stream/x", "1"), Extra("stream/y", "2")),
        provenance=Provenance(source="listing", offset=7),
    )


def test_a_deletion_has_no_fields_of_the_listing() -> None:
    listing = Provenance(source="listing")
    before = replace(A, crawl=Crawl(lock=True), provenance=listing)
    after = Record(url="a", action=Action.DELETE, provenance=Provenance(source="a"))

    assert merge(before, after) == Record(url="a", action=Action.DELETE, provenance=listing)


def test_a_transformer_may_write_or_replace_its_file() -> None:
    added = Meta("added", "yes")
    assert metadata("add") == (*DOCUMENT.metadata, added)
    assert metadata("renamed") == (Meta("b", "2"), Meta("a", "1"))
    assert transform("clear") == replace(DOCUMENT, metadata=())
    raw = Record(url="a", action=Action.ADD, metadata=(Meta("raw", "", b"\xfe"),))
    assert metadata("add", raw) == (Meta("raw", "", b"\xfe"), added)
    assert metadata("bytes") == (Meta("raw", "", b"\xff"),)


def test_the_parameters_name_the_document() -> None:
    expected = (Meta("docid", "a"), Meta("url", "a"), Meta("mimetype", "text/plain"))
    assert metadata("params") == expected
    assert metadata("params", A) == expected[:2]


def test_a_reject_of_a_transformer_contains_the_whole_record() -> None:
    assert transform("exit", A) == Reject(
        code="transformer-exit",
        reason="exit code 3; expected 0; stderr ends 'no such name'",
        stage="transform",
        source="listing",
        span=2,
        offset=33,
        url="a",
        action="ADD",
        data=avro.encode(A),
    )


@pytest.mark.parametrize(
    ("command", "finding"),
    [
        (shell("transformer.sh", "odd"), "metadata that ends b'a\\x00'"),
        (shell("transformer.sh", "torn"), "metadata that ends b'a\\x00b'"),
        (shell("transformer.sh", "name"), "the name b'\\xff'"),
        (shell("transformer.sh", "gone"), NO_FILE),
        (shell("transformer.sh", "big"), "more than 1000 bytes of metadata (max_output_bytes)"),
        (("/bin/sh", "-c", 'rm "$1"; mkfifo "$1"', "sh"), NO_FILE),
        (("/bin/sh", "-c", 'rm "$1"; ln -s /dev/zero "$1"', "sh"), NO_FILE),
        (("/bin/sh", "-c", 'rm "$1"; mkdir "$1"', "sh"), NO_FILE),
    ],
)
def test_unreadable_metadata_is_a_reject(command: tuple[str, ...], finding: str) -> None:
    reject = transform_by(command, max_output_bytes=1000)

    assert isinstance(reject, Reject)
    expected = f"{finding}; expected name, NUL, value and NUL, in UTF-8"
    assert (reject.code, reject.reason) == ("transformer-output", expected)


def test_metadata_with_nul_is_a_reject() -> None:
    record = Record(url="a", action=Action.ADD, metadata=(Meta("kind", "a\0b"),))
    reject = transform("add", record)

    assert isinstance(reject, Reject)
    reason = "b'a\\x00b'; expected names, values and parameters without NUL"
    assert (reject.code, reject.reason) == ("transformer-nul", reason)


def secretive(*lister_lines: str, retriever: tuple[str, ...] = ()) -> Programs:
    """A lister that writes its secret, which is in the environment, in place of `$TOKEN`."""
    script = "".join(f'printf "%s\\n" "{line}";' for line in (HEADER[:-1], *lister_lines))
    return Programs(
        lister=("/bin/sh", "-c", script),
        retriever=retriever,
        authorizer=("printf", HEADER.replace("\n", "\\n") + "pa55\\n"),
        users=(User(name="ann", password="${env:ANNS}"),),
        environment={"TOKEN": "${env:SECRET}"},
        retries=0,
    )


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3same")
    monkeypatch.setenv("ANNS", "pa55")


@pytest.mark.usefixtures("secrets")
def test_reasons_show_no_secret() -> None:
    script = f'printf "%s" "{HEADER}" "id=a\nlast-modified=$TOKEN\ncontent"'
    reject = reject_of(secretive(retriever=("/bin/sh", "-c", script)))

    reason = "last-modified='***'; expected seconds since 1970; nothing on stderr"
    assert (reject.code, reject.reason) == ("bad-date", reason)


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize(
    "item",
    [
        A,
        Notice(code="unknown-command s3same", detail="'s3same', an unknown command; skipped"),
    ],
)
def test_notices_of_programs_and_of_the_listing_show_no_secret(item: ReadResult) -> None:
    first, *_ = retrieve(secretive(), item)

    assert isinstance(first, Notice)
    detail = "'***', an unknown command; skipped"
    assert (first.code, first.detail) == ("unknown-command ***", detail)


@pytest.mark.usefixtures("secrets")
def test_errors_of_the_listing_show_no_secret() -> None:
    def torn() -> Iterator[ReadResult]:
        yield listed("gone", action=Action.DELETE)
        raise FormatError("'s3same'; expected an id")

    with pytest.raises(FormatError) as caught:
        list(documents(torn(), secretive()))

    assert str(caught.value) == "'***'; expected an id"


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            secretive("id=a", "repository-unavailable=$TOKEN is locked").lister[-1],
            "): repository-unavailable: '*** is locked'",
        ),
        (
            'printf %s "$TOKEN"',
            ": header: '***'; expected 'GSA Adaptor Data Version' to begin with",
        ),
        (
            'printf "%s" "$ANNS" >&2; exit 1',
            "(lister-exit): exit code 1; expected 0; stderr ends '***'",
        ),
    ],
)
def test_errors_of_the_lister_show_no_secret(tmp_path: Path, script: str, expected: str) -> None:
    programs = replace(secretive(), lister=("/bin/sh", "-c", script))

    with pytest.raises(FatalError) as caught:
        list_documents(programs, tmp_path / "listing")

    assert str(caught.value).endswith(expected)


def test_a_missing_secret_is_found_before_a_program_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3same")

    with pytest.raises(ConfigError, match="env:ANNS"):
        list(documents([], secretive()))


def test_documents_are_retrieved_one_by_one_where_records_may_come_in_batches(
    tmp_path: Path,
) -> None:
    path = tmp_path / "listing"
    path.write_bytes(stream(*(f"id={number}" for number in range(9))))
    span, options = Span(path=str(path)), ReadOptions(batch_records=4)
    results = PROGRAMS.read(SpanRequest(span=span, config=retriever("good"), options=options))
    contents = [result.content for result in results if isinstance(result, Record)]
    assert contents == [Content(f"{number} at 0".encode()) for number in range(9)]
