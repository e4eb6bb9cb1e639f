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
from transforms.formats.base import Docids, Found, Mode, NotFound, ReadOptions
from transforms.sources.programs.programs_file import Programs, User
from transforms.sources.programs.retry import Pauses
from transforms.sources.programs.run_programs import documents, list_documents, merge, retrieve

pytestmark = pytest.mark.slow

AT_ONCE = Pauses(sleep=lambda seconds: None)
A, B, C, D = listed("a"), listed("b"), listed("c"), listed("d")
STRICT = ReadOptions(mode=Mode.STRICT)
UNDER_BASE = ReadOptions(docids=Docids(base_url="http://adaptor.example.com/doc/"))


def lister(trouble: str, **bounds: Any) -> Programs:  # the fields of Programs
    return Programs(lister=shell("lister.sh", trouble), **bounds)


def retriever(trouble: str, **bounds: Any) -> Programs:  # the fields of Programs
    kept = {"retries": 0, "timeout_seconds": 30.0, **bounds}
    return Programs(lister=("list",), retriever=shell("retriever.sh", trouble), **kept)


def batches(folder: Path, trouble: str, **bounds: Any) -> Programs:  # the fields of Programs
    kept = {"retries": 0, "batch": 3, "folder": str(folder), **bounds}
    return Programs(lister=("list",), retriever=shell("batch.sh", trouble), **kept)


def outcomes(
    programs: Programs, *found: Found, options: ReadOptions = ReadOptions()
) -> list[Found]:
    return list(retrieve(found, programs, options=options, pauses=AT_ONCE))


def outcome(programs: Programs, options: ReadOptions = ReadOptions()) -> Found:
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


def calls(folder: Path) -> list[str]:
    return [line.strip() for line in (folder / "calls").read_text().splitlines()]


def codes(found: list[Found]) -> list[str]:
    return [one.code if isinstance(one, Reject) else "good" for one in found]


def test_what_a_lister_says_is_in_the_file(tmp_path: Path) -> None:
    list_documents(lister("good"), tmp_path / "listing")

    expected = stream("id=a", "last-modified=1000", "lock", "id=b")
    assert (tmp_path / "listing").read_bytes() == expected


def test_a_listing_of_nothing_is_one(tmp_path: Path) -> None:
    list_documents(lister("nothing"), tmp_path / "listing")

    assert (tmp_path / "listing").read_bytes() == stream()[:-1]


def test_a_lister_works_in_its_folder(tmp_path: Path) -> None:
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
            "(lister-signal): killed by SIGKILL; expected an end of its own; nothing on stderr",
        ),
        (
            lister("hang", lister_timeout_seconds=0.2),
            "(lister-timeout): still running after 0.2 s; expected an end within that "
            "(lister_timeout); nothing on stderr",
        ),
        (
            lister("endless", max_listing_bytes=100_000),
            "(lister-endless): more than 100000 bytes of output; expected at most that "
            "(max_listing_bytes); nothing on stderr",
        ),
    ],
)
def test_a_lister_that_does_not_end_well_fails_the_run(
    tmp_path: Path, programs: Programs, expected: str
) -> None:
    with pytest.raises(SourceError) as caught:
        list_documents(programs, tmp_path / "listing")

    assert str(caught.value) == f"{shlex.join(programs.lister)} {expected}"


@pytest.mark.parametrize("trouble", ["exit", "signal", "garbage", "empty"])
def test_nothing_is_left_of_half_a_listing(tmp_path: Path, trouble: str) -> None:
    with pytest.raises(FatalError):
        list_documents(lister(trouble), tmp_path / "listing")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trouble", ["garbage", "empty"])
def test_what_is_no_listing_fails_the_run(tmp_path: Path, trouble: str) -> None:
    with pytest.raises(FormatError, match=f"^/bin/sh .*lister.sh {trouble}"):
        list_documents(lister(trouble), tmp_path / "listing")


def test_a_lister_that_is_not_there_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no-such-lister: No such file or directory"):
        list_documents(Programs(lister=("no-such-lister",)), tmp_path / "listing")


def test_a_listing_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    path = tmp_path / "none" / "listing"

    with pytest.raises(FatalError) as caught:
        list_documents(lister("good"), path)

    assert str(caught.value) == f"{path}: No such file or directory; expected to write there"


def test_a_document_is_retrieved() -> None:
    assert outcomes(retriever("good"), A) == [retrieved(A)]


def test_a_retriever_is_told_when_a_document_was_crawled_last() -> None:
    visited = datetime(2011, 8, 3, 16, 7, 23, 456_789, tzinfo=UTC)
    record = Record(url="a", action=Action.ADD, visited=visited)
    (found,) = outcomes(retriever("good"), record)

    assert isinstance(found, Record)
    assert found.content == Content(b"a at 1312387643456")


def test_an_id_of_any_letters_is_one_argument() -> None:
    record = listed("a b'\"$(c)*é")

    assert outcomes(retriever("good"), record) == [retrieved(record)]


def test_what_is_not_to_be_added_is_passed_on() -> None:
    gone = listed("gone", action=Action.DELETE)
    reject = Reject(code="bad-date", reason="a date", stage="read")
    notice = Notice(code="bom", detail="a mark")

    found = outcomes(retriever("good"), gone, A, reject, notice, B)
    assert found == [gone, retrieved(A), reject, notice, retrieved(B)]


def test_without_a_retriever_a_listing_is_all_there_is() -> None:
    assert outcomes(Programs(lister=("list",)), A, B) == [A, B]


def test_documents_come_in_the_order_of_the_listing(tmp_path: Path) -> None:
    programs = retriever("last-first", parallel=2, folder=str(tmp_path))

    assert outcomes(programs, A, B) == [retrieved(A), retrieved(B)]


def test_a_document_that_is_not_found_is_filtered() -> None:
    expected = Filtered(code="not-found", url="a", action="ADD")
    assert outcome(retriever("not-found")) == expected


def test_a_document_that_is_not_found_is_deleted_if_that_is_asked_for() -> None:
    expected = Record(url="a", action=Action.DELETE, provenance=A.provenance)
    assert outcome(retriever("not-found"), ReadOptions(not_found=NotFound.DELETE)) == expected


def test_a_document_that_is_up_to_date_is_filtered() -> None:
    expected = Filtered(code="up-to-date", url="a", action="ADD")
    assert outcome(retriever("up-to-date")) == expected


def test_a_reject_says_where_the_document_was_listed_and_keeps_what_came() -> None:
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


def test_a_reject_keeps_the_beginning_of_much() -> None:
    reject = trouble_of(retriever("big"))

    assert (len(reject.data), reject.length > 2_000_000, reject.truncated) == (1 << 20, True, True)


@pytest.mark.parametrize(
    ("programs", "code", "reason"),
    [
        (
            retriever("signal"),
            "program-signal",
            "killed by SIGKILL; expected an end of its own; nothing on stderr",
        ),
        (
            retriever("hang", timeout_seconds=0.3),
            "program-timeout",
            "still running after 0.3 s; expected an end within that (timeout); nothing on stderr",
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
def test_what_a_retriever_does_wrong_is_a_reject(
    programs: Programs, code: str, reason: str
) -> None:
    reject = trouble_of(programs)

    assert (reject.code, reject.reason) == (code, reason)


@pytest.mark.parametrize("trouble", ["garbage", "empty", "nothing"])
def test_what_is_no_stream_is_a_reject(trouble: str) -> None:
    assert trouble_of(retriever(trouble)).code == "no-stream"


def test_the_reason_of_no_stream_ends_with_what_the_program_said() -> None:
    assert trouble_of(retriever("garbage")).reason.endswith("; stderr ends 'what?'")


def test_a_bad_record_of_a_retriever_is_a_reject_by_its_own_code() -> None:
    assert trouble_of(retriever("bad-acl")).code == "bad-acl"


@pytest.mark.parametrize("mode", list(Mode))
def test_a_repository_that_is_unavailable_is_a_reject(mode: Mode) -> None:
    reject = trouble_of(retriever("unavailable"), ReadOptions(mode=mode))

    assert (reject.code, "'at night'" in reject.reason) == ("repository-unavailable", True)


def test_the_flag_that_a_shell_echoes_is_no_stream_where_nothing_is_mended() -> None:
    assert trouble_of(retriever("echo"), STRICT).code == "no-stream"


def test_the_flag_that_a_shell_echoes_is_noticed_where_it_is_mended() -> None:
    notice, record = outcomes(retriever("echo"), A)

    assert (isinstance(notice, Notice), record) == (True, retrieved(A))


def test_one_bad_document_takes_no_other_with_it() -> None:
    found = outcomes(retriever("as-id"), listed("good"), listed("exit"), listed("good"))

    assert codes(found) == ["good", "program-exit", "good"]


def test_the_retriever_is_given_the_id_that_a_url_was_made_of() -> None:
    record = listed("http://adaptor.example.com/doc/b%20c")
    found = outcomes(retriever("good"), record, options=UNDER_BASE)

    assert found == [retrieved(record, content="b c at 0")]


def test_a_url_that_was_made_of_no_id_is_a_reject() -> None:
    record = listed("http://www.example.com/b")

    assert codes(outcomes(retriever("good"), record, options=UNDER_BASE)) == ["foreign-url"]


def test_a_url_in_a_batch_that_was_made_of_no_id_takes_no_other_with_it(tmp_path: Path) -> None:
    good, foreign = listed("http://adaptor.example.com/doc/a"), listed("http://www.example.com/b")
    found = outcomes(batches(tmp_path, "good"), good, foreign, options=UNDER_BASE)

    assert codes(found) == ["good", "foreign-url"]


def test_an_id_with_nul_cannot_be_asked_for() -> None:
    (found,) = outcomes(retriever("good"), listed("a\0b"))

    assert codes([found]) == ["program-argument"]


def test_a_retriever_that_is_not_there_ends_the_run() -> None:
    programs = Programs(lister=("list",), retriever=("no-such-retriever",))

    with pytest.raises(SourceError, match="no-such-retriever: No such file or directory"):
        outcomes(programs, A)


@pytest.mark.parametrize("trouble", ["first-fails", "first-unavailable"])
def test_what_goes_well_the_second_time_is_good(tmp_path: Path, trouble: str) -> None:
    programs = retriever(trouble, retries=1, folder=str(tmp_path))

    assert outcomes(programs, A) == [retrieved(A)]


def test_without_retries_the_first_time_counts(tmp_path: Path) -> None:
    assert trouble_of(retriever("first-fails", folder=str(tmp_path))).code == "program-exit"


def test_nothing_runs_when_nobody_wants_more() -> None:
    found = retrieve(
        [listed("good"), listed("hang"), listed("hang")], retriever("as-id", parallel=2)
    )
    next(found)
    found.close()

    assert not any(thread.name.startswith("program") for thread in threading.enumerate())


def test_a_listing_that_tears_is_torn_here_too() -> None:
    def torn() -> Iterator[Found]:
        yield A
        raise FormatError("a torn end")

    with pytest.raises(FormatError, match="a torn end"):
        list(retrieve(torn(), retriever("good")))


def test_a_batch_is_asked_for_at_once(tmp_path: Path) -> None:
    found = outcomes(batches(tmp_path, "good"), A, B, C, D)

    expected = [retrieved(A), retrieved(B), retrieved(C), retrieved(D)]
    assert (found, calls(tmp_path)) == (expected, ["a b c", "d"])


def test_a_batch_ends_where_something_else_is_listed(tmp_path: Path) -> None:
    gone = listed("gone", action=Action.DELETE)
    found = outcomes(batches(tmp_path, "good"), A, B, gone, C)

    assert (found[2], calls(tmp_path)) == (gone, ["a b", "c"])


@pytest.mark.parametrize("trouble", ["short", "torn"])
def test_what_is_missing_in_a_batch_is_all_that_is_rejected(tmp_path: Path, trouble: str) -> None:
    found = outcomes(batches(tmp_path, trouble), A, B, C)

    assert codes(found) == ["good", "short-batch", "short-batch"]


def test_the_reject_of_a_missing_answer_says_how_they_are_given(tmp_path: Path) -> None:
    _, found, _ = outcomes(batches(tmp_path, "short"), A, B, C)

    assert isinstance(found, Reject)
    assert found.reason == (
        "no answer, or a torn one; expected for each id the length of a stream, LF and the stream; "
        "nothing on stderr"
    )


def test_an_answer_in_a_batch_for_another_id_concerns_this_one_only(tmp_path: Path) -> None:
    found = outcomes(batches(tmp_path, "other"), A, B, C)

    assert codes(found) == ["good", "other-document", "good"]


def test_the_ids_of_a_batch_that_fails_are_asked_for_one_by_one(tmp_path: Path) -> None:
    found = outcomes(batches(tmp_path, "poison"), A, B, C)

    expected = (["good", "program-exit", "good"], ["a b c", "a", "b", "c"])
    assert (codes(found), calls(tmp_path)) == expected


def test_what_was_unavailable_in_a_batch_is_asked_for_by_itself(tmp_path: Path) -> None:
    found = outcomes(batches(tmp_path, "night"), A, B, C)

    assert (codes(found), calls(tmp_path)) == (["good", "good", "good"], ["a b c", "b"])


def test_bytes_behind_a_batch_are_no_answer(tmp_path: Path) -> None:
    found = outcomes(batches(tmp_path, "long"), A, B)

    assert codes(found) == ["no-stream", "no-stream"]


def test_a_program_that_knows_no_batches_gives_no_answer(tmp_path: Path) -> None:
    found = outcomes(retriever("good", batch=2), A, B)

    assert codes(found) == ["short-batch", "short-batch"]


def test_all_programs_are_run_one_behind_the_other() -> None:
    programs = Programs(
        lister=("list",),
        retriever=shell("retriever.sh", "good"),
        transformer=shell("transformer.sh", "add"),
    )
    (found,) = documents([A], programs)

    assert isinstance(found, Record)
    assert (found.content, found.metadata[-1]) == (Content(b"a at 0"), Meta("added", "yes"))


def test_merging_keeps_what_only_the_listing_says() -> None:
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


def test_merging_takes_the_word_of_the_retriever_where_both_speak() -> None:
    late = datetime(2021, 1, 1, tzinfo=UTC)
    before = Record(url="a", action=Action.ADD, modified=datetime(2020, 1, 1, tzinfo=UTC))
    after = Record(url="a", action=Action.ADD, modified=late, acl=Acl())

    assert merge(before, after) == Record(url="a", action=Action.ADD, modified=late, acl=Acl())


def test_merging_keeps_the_hints_of_a_listing_beside_none() -> None:
    before = Record(url="a", action=Action.ADD, crawl=Crawl(lock=True))

    assert merge(before, Record(url="a", action=Action.ADD)) == before


def test_nothing_of_a_listing_goes_with_a_deletion() -> None:
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


def test_a_listing_that_says_at_its_end_that_it_is_not_whole_leaves_no_file(tmp_path: Path) -> None:
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
def test_a_secret_that_a_program_says_is_in_no_reason() -> None:
    script = f'printf "%s" "{HEADER}" "id=a\nlast-modified=$TOKEN\ncontent"'
    (reject,) = documents([A], secretive(retriever=("/bin/sh", "-c", script)))

    assert isinstance(reject, Reject)
    assert (reject.code, reject.reason) == (
        "bad-date",
        "last-modified='***'; expected seconds since 1970; nothing on stderr",
    )


@pytest.mark.usefixtures("secrets")
def test_a_secret_that_a_program_says_is_in_no_notice() -> None:
    first, *_ = documents([A], secretive())

    assert isinstance(first, Notice)
    assert (first.code, first.detail) == (
        "unknown-command ***",
        "'***', a command that nobody knows; skipped",
    )


@pytest.mark.usefixtures("secrets")
def test_a_secret_in_what_is_said_of_a_listing_is_masked() -> None:
    notice = Notice(code="unknown-command s3same", detail="'s3same', a command; kept")
    first, *_ = documents([notice], secretive())

    assert first == Notice(code="unknown-command ***", detail="'***', a command; kept")


@pytest.mark.usefixtures("secrets")
def test_a_secret_in_why_a_listing_breaks_off_is_masked() -> None:
    def torn() -> Iterator[Found]:
        yield listed("gone", action=Action.DELETE)
        raise FormatError("'s3same'; expected an id")

    with pytest.raises(FormatError) as caught:
        list(documents(torn(), secretive()))

    assert str(caught.value) == "'***'; expected an id"


@pytest.mark.usefixtures("secrets")
def test_a_secret_that_a_lister_gives_as_a_reason_is_not_told(tmp_path: Path) -> None:
    programs = secretive("id=a", "repository-unavailable=$TOKEN is locked")

    with pytest.raises(UnavailableError) as caught:
        list_documents(programs, tmp_path / "listing")

    assert str(caught.value).endswith("): repository-unavailable: '*** is locked'")


@pytest.mark.usefixtures("secrets")
def test_a_secret_in_what_is_no_listing_is_not_told(tmp_path: Path) -> None:
    programs = Programs(
        lister=("/bin/sh", "-c", 'printf %s "$TOKEN"'), environment={"TOKEN": "${env:SECRET}"}
    )

    with pytest.raises(FormatError) as caught:
        list_documents(programs, tmp_path / "listing")

    expected = "header: '***'; expected 'GSA Adaptor Data Version' to begin with"
    assert str(caught.value).partition(": ")[2] == expected


@pytest.mark.usefixtures("secrets")
def test_a_password_that_a_lister_finds_is_not_told(tmp_path: Path) -> None:
    script = 'printf "%s" "$ANNS" >&2; exit 1'
    programs = msgspec.structs.replace(secretive(), lister=("/bin/sh", "-c", script))

    with pytest.raises(SourceError) as caught:
        list_documents(programs, tmp_path / "listing")

    expected = "(lister-exit): exit code 1; expected 0; stderr ends '***'"
    assert str(caught.value).endswith(expected)


def test_a_secret_that_is_not_there_is_found_before_anything_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "s3same")

    with pytest.raises(ConfigError, match="env:ANNS"):
        list(documents([], secretive()))
