"""Listings: each rule of the deployed parser, strictly and with repairs."""

import io
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.errors import FormatError, UnavailableError
from schemas.notice import Notice
from schemas.record import Action, Arrival, Crawl, Extra, Meta, Provenance, Record
from schemas.reject import Reject
from schemas.span import Span
from support.streams import read_both_ways
from transforms.formats.base import Docids, Mode, ReadOptions
from transforms.formats.command_stream import lister

HEADER = b"GSA Adaptor Data Version 1 [\n]\n"
MODES = pytest.mark.parametrize("mode", [Mode.STRICT, Mode.LENIENT])
A = Record(url="a", action=Action.ADD, arrival=Arrival.CRAWLED)
HOUR = datetime(1970, 1, 1, 1, tzinfo=UTC)


def read(body: bytes, mode: Mode = Mode.LENIENT, header: bytes = HEADER) -> list[Any]:
    options = ReadOptions(mode=mode)
    read = partial(lister.read, span=Span(source="ids"), options=options)
    return read_both_ways(read, header + body)


def records(body: bytes, mode: Mode = Mode.LENIENT) -> list[Record]:
    found = [one for one in read(body, mode) if isinstance(one, Record)]
    return [replace(one, provenance=Provenance()) for one in found]


def record(body: bytes, mode: Mode) -> Record:
    (found,) = records(body, mode)
    return found


def urls(body: bytes, mode: Mode = Mode.LENIENT) -> list[str]:
    return [one.url for one in records(body, mode)]


def notices(body: bytes, mode: Mode = Mode.LENIENT) -> list[tuple[str, str, int]]:
    found = [one for one in read(body, mode) if isinstance(one, Notice)]
    return [(one.code, one.detail, one.offset - len(HEADER)) for one in found]


def rejects(body: bytes) -> list[tuple[str, str, bytes]]:
    found = [one for one in read(body) if isinstance(one, Reject)]
    text = HEADER + body
    assert [text[one.offset :][: one.length] for one in found] == [one.data for one in found]
    return [(one.code, one.reason, one.data) for one in found]


def refusal(body: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        read(body, Mode.STRICT)
    return str(caught.value)


@MODES
@pytest.mark.parametrize("body", [b"", b"\n\n", b"id-list", b"id-list\n\n"])
def test_a_listing_of_nothing_is_one(mode: Mode, body: bytes) -> None:
    assert read(body, mode) == []


@MODES
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"id=a", A),
        (b"id=a=b", replace(A, url="a=b")),
        (b"id=", replace(A, url="")),
        (b"id-list\nid=x\n", replace(A, url="id=x")),
        (b"id=a\nlast-modified=3600", replace(A, modified=HOUR)),
        (b"id=a\nlast-modified=+3600", replace(A, modified=HOUR)),
        (b"id=a\nlast-modified=1\nlast-modified=3600", replace(A, modified=HOUR)),
        (b"id=a\nresult-link=/x?y", replace(A, crawl=Crawl(display_url="/x?y"))),
        (b"id=a\nresult-link=", replace(A, crawl=Crawl(display_url=""))),
        (b"id=a\ncrawl-immediately", replace(A, crawl=Crawl(crawl_immediately=True))),
        (b"id=a\ncrawl-once", replace(A, crawl=Crawl(crawl_once=True))),
        (b"id=a\nlock\nlock", replace(A, crawl=Crawl(lock=True))),
        (b"id=a\nlock=true", replace(A, crawl=Crawl(lock=True))),
        (b"id=a\ndelete", replace(A, action=Action.DELETE, arrival=None)),
        (b"id-list\nz\na\n\nlock", replace(A, crawl=Crawl(lock=True))),
        (
            b"id=a\nwhat\nwho=x=y",
            replace(A, extras=(Extra("stream/what", ""), Extra("stream/who=", "x=y"))),
        ),
        (b"id=a\nid-list=", replace(A, extras=(Extra("stream/id-list=", ""),))),
        (b"id=a\nLock", replace(A, extras=(Extra("stream/Lock", ""),))),
        (
            b"id=a\nlast-modified=253402300800",
            replace(A, extras=(Extra("stream/last-modified=", "253402300800"),)),
        ),
    ],
)
def test_what_the_deployed_parser_takes(mode: Mode, body: bytes, expected: Record) -> None:
    assert records(body, mode)[-1] == expected


@MODES
def test_ids_are_kept_in_their_order_and_as_often_as_they_are_there(mode: Mode) -> None:
    assert urls(b"id=b\nid=a\nid=b\nid-list\na\na\n\nid=c", mode) == ["b", "a", "b", "a", "a", "c"]


@MODES
def test_a_record_stands_at_its_offset(mode: Mode) -> None:
    found = [one.provenance for one in read(b"id=a\nwhat\nid-list\nb\nc\n\nlock\n", mode)[1:]]
    assert found == [
        Provenance(source="ids", offset=31),
        Provenance(source="ids", offset=49),
        Provenance(source="ids", offset=51),
    ]


def test_a_url_is_made_of_an_id_by_the_rule() -> None:
    options = ReadOptions(docids=Docids(base_url="http://adaptor.example.com/doc/"))
    found = lister.read(io.BytesIO(HEADER + b"id=a b\nid=c"), options=options)
    assert [one.url for one in found if isinstance(one, Record)] == [
        "http://adaptor.example.com/doc/a%20b",
        "http://adaptor.example.com/doc/c",
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"lock\nid=a", "ids (byte 31): lock; expected id or id-list before it"),
        (b"id", "ids (byte 31): id without an argument; expected id=…"),
        (b"id=a\nmime-type=x", "ids (byte 36): mime-type; expected a command of a lister"),
        (b"id=a\ncontent\n", "ids (byte 36): content; expected a command of a lister"),
        (b"id=a\ndisplay-url=x", "ids (byte 36): display-url; expected a command of a lister"),
        (b"id=a\nacl", "ids (byte 36): acl; expected a command of a lister"),
        (b"id=a\nnamespace=", "ids (byte 36): namespace; expected a command of a lister"),
        (b"id=a\nnot-found", "ids (byte 36): not-found; expected a command of a lister"),
        (b"id=a\nup-to-date", "ids (byte 36): up-to-date; expected a command of a lister"),
        (b"id=a\nauthz-status=DENY", "ids (byte 36): authz-status; expected a command of a lister"),
        (b"id=a\nmeta-name=Department", "ids (byte 36): meta-name; expected a command of a lister"),
        (
            b"id=a\nlast-modified=20110803 16:07:23",
            "ids (byte 36): last-modified='20110803 16:07:23'; expected seconds since 1970",
        ),
        (b"id=a\nlast-modified", "ids (byte 36): last-modified=None; expected seconds since 1970"),
        (
            b"id=a\nresult-link=a b",
            "ids (byte 36): result-link='a b'; expected a well-formed URL",
        ),
        (
            b"id=a\nresult-link",
            "ids (byte 36): result-link without an argument; expected result-link=…",
        ),
        (
            b"id=a\nid=\xc0",
            "ids (byte 36): the bytes b'\\xc0' in a token; expected UTF-8, with C0 80 and C0 8A "
            "besides",
        ),
    ],
)
def test_what_the_deployed_parser_throws_at(body: bytes, reason: str) -> None:
    assert refusal(body) == reason


@MODES
def test_a_repository_that_is_unavailable_lists_nothing_whole(mode: Mode) -> None:
    with pytest.raises(UnavailableError) as caught:
        read(b"id=a\nid=b\nrepository-unavailable=down", mode)
    assert str(caught.value) == "ids (byte 41): repository-unavailable: 'down'"


def test_strictly_a_flag_that_is_false_is_true() -> None:
    assert record(b"id=a\nlock=false\ndelete=false", Mode.STRICT).action is Action.DELETE


def test_a_flag_that_is_false_is_repaired() -> None:
    found = record(b"id=a\nlock=false\ndelete=false", Mode.LENIENT)
    assert found == replace(A, crawl=Crawl(lock=False))


def test_a_flag_that_is_repaired_is_noticed() -> None:
    assert notices(b"id=a\nlock=false") == [
        ("flag", "lock='false', a flag with an argument; read as false", 5)
    ]


@MODES
@pytest.mark.parametrize("token", [b"what", b"what=ever"])
def test_an_unknown_command_is_noticed_by_its_name(mode: Mode, token: bytes) -> None:
    assert notices(b"id=a\n" + token, mode) == [
        ("unknown-command what", "'what', a command that nobody knows; kept", 5)
    ]


@MODES
def test_an_unknown_command_before_any_id_is_skipped(mode: Mode) -> None:
    detail = "'what', a command that nobody knows; skipped, as it stands before any id"
    found = (records(b"what\nid=a", mode), notices(b"what\nid=a", mode))
    assert found == ([A], [("unknown-command what", detail, 0)])


def test_strictly_a_carriage_return_belongs_to_the_id() -> None:
    assert urls(b"id=a\r\nid=b\r\n", Mode.STRICT) == ["a\r", "b\r"]


def test_a_carriage_return_at_the_end_of_lines_is_repaired() -> None:
    assert urls(b"id=a\r\nid-list\r\nb\r\n\r\nid=c\r\n") == ["a", "b", "c"]


OVERLAPS = [
    (b"\r\n", b"id=a\r\r\nid=b\r\n", ["a\r\r\nid=b"], ["a\r", "b"]),
    (b"**", b"id=a***id=b**", ["a"], ["a*", "b"]),
    (b"#~#", b"id=b#~#~#id=c", ["b"], ["b#~", "c"]),
]


@pytest.mark.parametrize(("delimiter", "body", "strict", "lenient"), OVERLAPS)
def test_a_delimiter_that_overlaps_an_id(
    delimiter: bytes, body: bytes, strict: list[str], lenient: list[str]
) -> None:
    header = b"GSA Adaptor Data Version 1 [" + delimiter + b"]"
    found = [read(body, mode, header) for mode in (Mode.STRICT, Mode.LENIENT)]
    made = [[one.url for one in ones if isinstance(one, Record)] for ones in found]
    codes = [one.code for one in found[1] if isinstance(one, Notice)]
    assert (made, codes) == ([strict, lenient], ["overlap"])


def test_an_overlap_says_what_was_made_of_it() -> None:
    (notice, *_) = read(b"**id=a***id=b", header=b"GSA Adaptor Data Version 1 [**]")
    assert notice == Notice(
        code="overlap",
        detail="a delimiter that overlaps what it ends; read as what makes sense",
        source="ids",
        offset=33,
    )


DOCUMENTED = b"""id=/repository/docs/file1
id=/repository/docs/file2
crawl-immediately
last-modified=20110803 16:07:23

meta-name=Department
meta-content=Engineering

meta-name=Creator
meta-content=howardhawks

id=/repository/docs/file3
id=/repository/docs/file4
id=/repository/docs/file5
"""


def test_the_example_of_the_documentation_is_read() -> None:
    place = "/repository/docs/file"
    second = Record(
        url=place + "2",
        action=Action.ADD,
        arrival=Arrival.CRAWLED,
        metadata=(Meta("Department", "Engineering"), Meta("Creator", "howardhawks")),
        modified=datetime(2011, 8, 3, 16, 7, 23, tzinfo=UTC),
        crawl=Crawl(crawl_immediately=True),
    )
    others = [replace(A, url=place + nth) for nth in "1345"]
    assert records(DOCUMENTED) == [others[0], second, *others[1:]]


def test_the_example_of_the_documentation_is_repaired() -> None:
    foreign = "{} in a lister's stream; taken as it is"
    mended = "meta-content, which is no command; read as meta-value"
    date = "last-modified='20110803 16:07:23', not seconds since 1970; read as a date"
    assert [(code, detail) for code, detail, _ in notices(DOCUMENTED)] == [
        ("date", date),
        ("foreign-command", foreign.format("meta-name")),
        ("meta-content", mended),
        ("foreign-command", foreign.format("meta-value")),
        ("foreign-command", foreign.format("meta-name")),
        ("meta-content", mended),
        ("foreign-command", foreign.format("meta-value")),
    ]


NOT_UTF8 = "the bytes {} in a token; expected UTF-8, with C0 80 and C0 8A besides"


@pytest.mark.parametrize(
    ("bad", "code", "reason"),
    [
        (b"id\nlock\n", "no-argument", "id without an argument; expected id=…"),
        (b"id=\xff\nlock\n", "not-utf8", NOT_UTF8.format(r"b'\xff'")),
        (b"id=x\nwhat=\xff\n", "not-utf8", NOT_UTF8.format(r"b'\xff'")),
        (
            b"id=x\nlast-modified=now\nlock\n",
            "bad-date",
            "last-modified='now'; expected seconds since 1970",
        ),
        (
            b"id=x\nresult-link\n",
            "no-argument",
            "result-link without an argument; expected result-link=…",
        ),
        (b"id=x\nmeta-name=a\n", "bad-pair", "the end behind meta-name; expected meta-value"),
        (b"id=x\nmeta-value=a\n", "bad-pair", "meta-value by itself; expected meta-name before it"),
        (
            b"id=x\nmeta-name=a\nlock\nlast-modified=now\n",
            "bad-pair",
            "lock behind meta-name; expected meta-value",
        ),
    ],
)
def test_what_is_wrong_costs_the_record_that_it_is_in(bad: bytes, code: str, reason: str) -> None:
    body = b"id=a\n" + bad + b"id=b\n"
    assert (urls(body), rejects(body)) == (["a", "b"], [(code, reason, bad)])


def test_an_id_of_a_list_that_is_no_text_costs_itself() -> None:
    body = b"id-list\na\n\xff\nb\n"
    expected = [("not-utf8", NOT_UTF8.format(r"b'\xff'"), b"\xff\n")]
    assert (urls(body), rejects(body)) == (["a", "b"], expected)


def test_a_command_before_any_id_is_set_aside() -> None:
    body = b"lock\nid=a\n"
    expected = [("no-id", "lock; expected id or id-list before it", b"lock")]
    assert (records(body), rejects(body)) == ([A], expected)


def test_a_reject_says_where_and_which() -> None:
    (reject,) = read(b"id=x\nlast-modified=now\n")
    assert reject == Reject(
        code="bad-date",
        reason="last-modified='now'; expected seconds since 1970",
        stage="read",
        source="ids",
        offset=31,
        length=23,
        url="x",
        action="ADD",
        data=b"id=x\nlast-modified=now\n",
    )


def test_unknown_commands_without_end_are_counted_by_a_hundred_names() -> None:
    body = b"id=a\n" + b"".join(b"x%d\n" % nth for nth in range(500))
    assert len({code for code, *_ in notices(body)}) == 101


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.LENIENT])
def test_content_in_a_listing_ends_it(mode: Mode) -> None:
    stream = io.BytesIO(b"GSA Adaptor Data Version 1 [\n]\nid=a\ncontent\nid=b\ndelete\n")

    with pytest.raises(FormatError) as caught:
        list(lister.read(stream, options=ReadOptions(mode=mode)))

    assert str(caught.value).startswith(" (byte 36): content")


@pytest.mark.parametrize("word", ["n", "never", "", "delete"])
def test_a_document_is_not_deleted_by_a_guess(word: str) -> None:
    stream = io.BytesIO(b"GSA Adaptor Data Version 1 [\n]\nid=a\ndelete=" + word.encode())

    (found,) = lister.read(stream)

    assert isinstance(found, Reject)
    assert (found.code, found.reason) == (
        "bad-flag",
        f"delete={word!r}; expected delete without an argument",
    )
