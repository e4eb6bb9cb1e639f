"""Listers and retrievers that are run, most of which misbehave."""

import shlex
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.acl import Acl
from schemas.errors import ConfigError, FatalError, FormatError, SourceError, UnavailableError
from schemas.notice import Notice
from schemas.record import (
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
from schemas.reject import Filtered, Reject
from support.listings import FOLDER, HEADER, listed, shell, stream
from transforms.formats.base import Docids, Mode, NotFound, ReadOptions, ReadResult
from transforms.sources.programs.config import Programs, User
from transforms.sources.programs.documents import documents
from transforms.sources.programs.lister import list_documents
from transforms.sources.programs.retriever import merge, retrieve

pytestmark = pytest.mark.slow

A, B, C, D = listed("a"), listed("b"), listed("c"), listed("d")
STRICT = ReadOptions(mode=Mode.STRICT)
UNDER_BASE = ReadOptions(docids=Docids(base_url="http://adaptor.example.com/doc/"))


def lister(trouble: str, **bounds: Any) -> Programs:  # the fields of Programs
    return Programs(lister=shell("lister.sh", trouble), **bounds)


def retriever(trouble: str, **bounds: Any) -> Programs:  # the fields of Programs
    kept = {"retries": 0, "backoff_seconds": 0, "timeout_seconds": 30.0, **bounds}
    return Programs(lister=("list",), retriever=shell("retriever.sh", trouble), **kept)


def outcomes(
    programs: Programs, *found: ReadResult, options: ReadOptions = ReadOptions()
) -> list[ReadResult]:
    return list(retrieve(found, programs, options=options))


def outcome(programs: Programs, options: ReadOptions = ReadOptions()) -> ReadResult:
    """What becomes of document a, notices aside."""
    (found,) = (
        one for one in outcomes(programs, A, options=options) if not isinstance(one, Notice)
    )
    return found


def trouble_of(programs: Programs, options: ReadOptions = ReadOptions()) -> Reject:
    found = outcome(programs, options)
    assert isinstance(found, Reject)
    return found


def retrieved(record: Record, *, content: str = "") -> Record:
    """What retriever.sh says of a document, merged with what was listed."""
    return Record(
        url=record.url,
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content((content or f"{record.url} at 0").encode()),
        mimetype="text/plain",
        provenance=record.provenance,
    )


def codes(found: list[ReadResult]) -> list[str]:
    return [one.code if isinstance(one, Reject) else "good" for one in found]


def test_the_output_of_the_lister_is_written_to_the_file(tmp_path: Path) -> None:
    list_documents(lister("good"), tmp_path / "listing")

    expected = stream("id=a", "last-modified=1000", "lock", "id=b")
    assert (tmp_path / "listing").read_bytes() == expected


def test_an_empty_listing_is_valid(tmp_path: Path) -> None:
    list_documents(lister("nothing"), tmp_path / "listing")

    assert (tmp_path / "listing").read_bytes() == stream()[:-1]


def test_a_lister_runs_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "list.sh").symlink_to(FOLDER / "lister.sh")
    programs = Programs(lister=("/bin/sh", "./list.sh", "good"), folder=str(tmp_path))
    list_documents(programs, tmp_path / "listing")

    assert (tmp_path / "listing").exists()


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        (
            lister("exit"),
            "(lister-exit): exit code 3; expected 0; stderr ends 'no such disk'",
        ),
        (
            lister("signal"),
            "(lister-signal): killed by SIGKILL; expected it to exit by itself; nothing on stderr",
        ),
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


@pytest.mark.parametrize("trouble", ["exit", "signal", "garbage", "empty"])
def test_a_partial_listing_is_removed(tmp_path: Path, trouble: str) -> None:
    with pytest.raises(FatalError):
        list_documents(lister(trouble), tmp_path / "listing")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trouble", ["garbage", "empty"])
def test_output_that_is_not_a_lister_stream_stops_the_run(tmp_path: Path, trouble: str) -> None:
    with pytest.raises(FormatError, match=f"^/bin/sh .*lister.sh {trouble}"):
        list_documents(lister(trouble), tmp_path / "listing")


def test_a_missing_lister_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no-such-lister: No such file or directory"):
        list_documents(Programs(lister=("no-such-lister",)), tmp_path / "listing")


def test_a_listing_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    path = tmp_path / "none" / "listing"

    with pytest.raises(FatalError) as caught:
        list_documents(lister("good"), path)

    assert str(caught.value) == f"{path}: No such file or directory; expected to write there"


def test_a_document_is_retrieved() -> None:
    assert outcomes(retriever("good"), A) == [retrieved(A)]


def test_the_retriever_gets_the_time_of_the_last_crawl() -> None:
    visited = datetime(2011, 8, 3, 16, 7, 23, 456_789, tzinfo=UTC)
    record = Record(url="a", action=Action.ADD, visited=visited)
    (found,) = outcomes(retriever("good"), record)

    assert isinstance(found, Record)
    assert found.content == Content(b"a at 1312387643456")


def test_an_id_with_special_characters_is_one_argument() -> None:
    record = listed("a b'\"$(c)*é")

    assert outcomes(retriever("good"), record) == [retrieved(record)]


def test_items_that_are_not_added_documents_are_passed_on() -> None:
    gone = listed("gone", action=Action.DELETE)
    reject = Reject(code="bad-date", reason="a date", stage="read")
    notice = Notice(code="bom", detail="a mark")

    found = outcomes(retriever("good"), gone, A, reject, notice, B)
    assert found == [gone, retrieved(A), reject, notice, retrieved(B)]


def test_without_a_retriever_the_listing_is_the_result() -> None:
    assert outcomes(Programs(lister=("list",)), A, B) == [A, B]


def test_documents_come_in_the_order_of_the_listing(tmp_path: Path) -> None:
    programs = retriever("last-first", parallel=2, folder=str(tmp_path))

    assert outcomes(programs, A, B) == [retrieved(A), retrieved(B)]


def test_a_document_that_is_not_found_is_filtered() -> None:
    expected = Filtered(code="not-found", url="a", action="ADD")
    assert outcome(retriever("not-found")) == expected


def test_a_document_that_is_not_found_is_deleted_with_the_option() -> None:
    expected = Record(url="a", action=Action.DELETE, provenance=A.provenance)
    assert outcome(retriever("not-found"), ReadOptions(not_found=NotFound.DELETE)) == expected


def test_a_document_that_is_up_to_date_is_filtered() -> None:
    expected = Filtered(code="up-to-date", url="a", action="ADD")
    assert outcome(retriever("up-to-date")) == expected


def test_a_reject_has_the_place_in_the_listing_and_the_output() -> None:
    assert outcome(retriever("exit")) == Reject(
        code="program-exit",
        reason="exit code 3; expected 0; stderr ends 'no such disk'",
        stage="retrieve",
        source="listing",
        span=2,
        offset=33,
        url="a",
        action="ADD",
        length=len(stream("id=a", "mime-type=text/plain", "content", "a at 0")) - 1,
        data=stream("id=a", "mime-type=text/plain", "content", "a at 0")[:-1],
    )


def test_a_reject_keeps_the_first_megabyte_of_the_output() -> None:
    reject = trouble_of(retriever("big"))

    assert (len(reject.data), reject.length > 2_000_000, reject.truncated) == (1 << 20, True, True)


@pytest.mark.parametrize(
    ("programs", "code", "reason"),
    [
        (
            retriever("signal"),
            "program-signal",
            "killed by SIGKILL; expected it to exit by itself; nothing on stderr",
        ),
        (
            retriever("hang", timeout_seconds=0.3),
            "program-timeout",
            "still running after 0.3 s; expected an end within that time (timeout); "
            "nothing on stderr",
        ),
        (
            retriever("endless", max_output_bytes=100_000),
            "program-endless",
            "more than 100000 bytes of output; expected at most that (max_output_bytes); "
            "nothing on stderr",
        ),
        (
            retriever("other"),
            "other-document",
            "an answer for 'not-a'; expected one for 'a'; nothing on stderr",
        ),
        (
            retriever("second"),
            "other-document",
            "2 documents; expected one; nothing on stderr",
        ),
    ],
)
def test_a_failed_retriever_rejects_its_document(
    programs: Programs, code: str, reason: str
) -> None:
    reject = trouble_of(programs)

    assert (reject.code, reject.reason) == (code, reason)


@pytest.mark.parametrize("trouble", ["garbage", "empty", "nothing"])
def test_output_that_is_no_stream_rejects_the_document(trouble: str) -> None:
    assert trouble_of(retriever(trouble)).code == "no-stream"


def test_the_reason_ends_with_standard_error() -> None:
    assert trouble_of(retriever("garbage")).reason.endswith("; stderr ends 'what?'")


def test_a_bad_record_of_a_retriever_keeps_its_own_code() -> None:
    assert trouble_of(retriever("bad-acl")).code == "bad-acl"


@pytest.mark.parametrize("mode", list(Mode))
def test_an_unavailable_repository_rejects_the_document(mode: Mode) -> None:
    reject = trouble_of(retriever("unavailable"), ReadOptions(mode=mode))

    assert (reject.code, "'at night'" in reject.reason) == ("repository-unavailable", True)


def test_strict_reading_rejects_a_stream_after_an_echoed_flag() -> None:
    assert trouble_of(retriever("echo"), STRICT).code == "no-stream"


def test_lenient_reading_repairs_a_stream_after_an_echoed_flag() -> None:
    notice, record = outcomes(retriever("echo"), A)

    assert (isinstance(notice, Notice), record) == (True, retrieved(A))


def test_a_bad_document_does_not_affect_others() -> None:
    found = outcomes(retriever("as-id"), listed("good"), listed("exit"), listed("good"))

    assert codes(found) == ["good", "program-exit", "good"]


def test_the_retriever_gets_the_id_from_which_the_url_was_made() -> None:
    record = listed("http://adaptor.example.com/doc/b%20c")
    found = outcomes(retriever("good"), record, options=UNDER_BASE)

    assert found == [retrieved(record, content="b c at 0")]


def test_a_url_outside_the_base_url_is_a_reject() -> None:
    record = listed("http://www.example.com/b")

    assert codes(outcomes(retriever("good"), record, options=UNDER_BASE)) == ["foreign-url"]


def test_an_id_with_nul_is_a_reject() -> None:
    (found,) = outcomes(retriever("good"), listed("a\0b"))

    assert codes([found]) == ["program-argument"]


def test_a_missing_retriever_stops_the_run() -> None:
    programs = Programs(lister=("list",), retriever=("no-such-retriever",))

    with pytest.raises(SourceError, match="no-such-retriever: No such file or directory"):
        outcomes(programs, A)


@pytest.mark.parametrize("trouble", ["first-fails", "first-unavailable"])
def test_a_successful_retry_gives_the_document(tmp_path: Path, trouble: str) -> None:
    programs = retriever(trouble, retries=1, folder=str(tmp_path))

    assert outcomes(programs, A) == [retrieved(A)]


def test_without_retries_the_first_failure_is_final(tmp_path: Path) -> None:
    assert trouble_of(retriever("first-fails", folder=str(tmp_path))).code == "program-exit"


def test_closing_the_generator_ends_all_programs() -> None:
    found = retrieve(
        [listed("good"), listed("hang"), listed("hang")], retriever("as-id", parallel=2)
    )
    next(found)
    found.close()

    assert not any(thread.name.startswith("program") for thread in threading.enumerate())


def test_an_error_of_the_listing_is_raised() -> None:
    def torn() -> Iterator[ReadResult]:
        yield A
        raise FormatError("a torn end")

    with pytest.raises(FormatError, match="a torn end"):
        list(retrieve(torn(), retriever("good")))


def test_all_programs_run_in_sequence() -> None:
    programs = Programs(
        lister=("list",),
        retriever=shell("retriever.sh", "good"),
        transformer=shell("transformer.sh", "add"),
    )
    (found,) = documents([A], programs)

    assert isinstance(found, Record)
    assert (found.content, found.metadata[-1]) == (Content(b"a at 0"), Meta("added", "yes"))


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
    after = Record(
        url="a",
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content(b"text"),
        metadata=(Meta("kind", "wiki"),),
        crawl=Crawl(lock=False, no_index=True, anchors=(Anchor("http://b", "b"),)),
        extras=(Extra("stream/y", "2"),),
        provenance=Provenance(source="a", offset=31),
    )

    assert merge(before, after) == Record(
        url="a",
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content(b"text"),
        metadata=(Meta("kind", "wiki"),),
        modified=early,
        crawl=Crawl(
            lock=False,
            no_index=True,
            display_url="http://show/a",
            anchors=(Anchor("http://b", "b"),),
        ),
        extras=(Extra("stream/x", "1"), Extra("stream/y", "2")),
        provenance=Provenance(source="listing", offset=7),
    )


def test_merge_prefers_the_retriever() -> None:
    late = datetime(2021, 1, 1, tzinfo=UTC)
    before = Record(url="a", action=Action.ADD, modified=datetime(2020, 1, 1, tzinfo=UTC))
    after = Record(url="a", action=Action.ADD, modified=late, acl=Acl())

    assert merge(before, after) == Record(url="a", action=Action.ADD, modified=late, acl=Acl())


def test_merge_keeps_crawl_hints_of_the_listing() -> None:
    before = Record(url="a", action=Action.ADD, crawl=Crawl(lock=True))

    assert merge(before, Record(url="a", action=Action.ADD)) == before


def test_a_deletion_has_no_fields_of_the_listing() -> None:
    before = Record(
        url="a",
        action=Action.ADD,
        arrival=Arrival.CRAWLED,
        crawl=Crawl(lock=True),
        provenance=Provenance(source="listing"),
    )
    after = Record(url="a", action=Action.DELETE, provenance=Provenance(source="a"))

    expected = Record(url="a", action=Action.DELETE, provenance=Provenance(source="listing"))
    assert merge(before, after) == expected


def test_a_listing_that_ends_with_unavailable_leaves_no_file(tmp_path: Path) -> None:
    listing = r"GSA Adaptor Data Version 1 [\n]\nid=a\nrepository-unavailable=db down\n"
    programs = Programs(lister=("printf", listing), folder=str(tmp_path))

    with pytest.raises(UnavailableError) as caught:
        list_documents(programs, tmp_path / "listing")

    assert str(caught.value).endswith("(byte 36): repository-unavailable: 'db down'")
    assert list(tmp_path.iterdir()) == []


def secretive(*lister_lines: str, retriever: tuple[str, ...] = ()) -> Programs:
    """A lister that shows its secret, which it has from the environment, where `$TOKEN` stands."""
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
    (reject,) = documents([A], secretive(retriever=("/bin/sh", "-c", script)))

    assert isinstance(reject, Reject)
    assert (reject.code, reject.reason) == (
        "bad-date",
        "last-modified='***'; expected seconds since 1970; nothing on stderr",
    )


@pytest.mark.usefixtures("secrets")
def test_notices_show_no_secret() -> None:
    first, *_ = documents([A], secretive())

    assert isinstance(first, Notice)
    assert (first.code, first.detail) == (
        "unknown-command ***",
        "'***', a command that nobody knows; skipped",
    )


@pytest.mark.usefixtures("secrets")
def test_notices_of_the_listing_show_no_secret() -> None:
    notice = Notice(code="unknown-command s3same", detail="'s3same', a command; kept")
    first, *_ = documents([notice], secretive())

    assert first == Notice(code="unknown-command ***", detail="'***', a command; kept")


@pytest.mark.usefixtures("secrets")
def test_errors_of_the_listing_show_no_secret() -> None:
    def torn() -> Iterator[ReadResult]:
        yield listed("gone", action=Action.DELETE)
        raise FormatError("'s3same'; expected an id")

    with pytest.raises(FormatError) as caught:
        list(documents(torn(), secretive()))

    assert str(caught.value) == "'***'; expected an id"


@pytest.mark.usefixtures("secrets")
def test_the_reason_of_an_unavailable_repository_shows_no_secret(tmp_path: Path) -> None:
    programs = secretive("id=a", "repository-unavailable=$TOKEN is locked")

    with pytest.raises(UnavailableError) as caught:
        list_documents(programs, tmp_path / "listing")

    assert str(caught.value).endswith("): repository-unavailable: '*** is locked'")


@pytest.mark.usefixtures("secrets")
def test_a_format_error_of_the_listing_shows_no_secret(tmp_path: Path) -> None:
    programs = Programs(
        lister=("/bin/sh", "-c", 'printf %s "$TOKEN"'), environment={"TOKEN": "${env:SECRET}"}
    )

    with pytest.raises(FormatError) as caught:
        list_documents(programs, tmp_path / "listing")

    expected = "header: '***'; expected 'GSA Adaptor Data Version' to begin with"
    assert str(caught.value).partition(": ")[2] == expected


@pytest.mark.usefixtures("secrets")
def test_standard_error_of_the_lister_shows_no_password(tmp_path: Path) -> None:
    script = 'printf "%s" "$ANNS" >&2; exit 1'
    programs = msgspec.structs.replace(secretive(), lister=("/bin/sh", "-c", script))

    with pytest.raises(SourceError) as caught:
        list_documents(programs, tmp_path / "listing")

    expected = "(lister-exit): exit code 1; expected 0; stderr ends '***'"
    assert str(caught.value).endswith(expected)


def test_a_missing_secret_is_found_before_a_program_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "s3same")

    with pytest.raises(ConfigError, match="env:ANNS"):
        list(documents([], secretive()))
