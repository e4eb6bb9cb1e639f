"""Listings: each rule of the deployed parser, strictly and with repairs."""

import io
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from feedferry.schemas.record import Action, Arrival, Crawl, Extra, Record
from feedferry.transforms.formats import Docids, StreamOptions
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.command_stream import lister
from support.command_streams import HEADER, MODES, NOT_UTF8, StreamUnderTest

A = Record(url="a", action=Action.ADD, arrival=Arrival.CRAWLED)
HOUR = datetime(1970, 1, 1, 1, tzinfo=UTC)
AUGUST = datetime(2011, 8, 3, 16, 7, 23, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

stream = StreamUnderTest(lister.read)


def urls(body: bytes, is_strict: bool = False) -> list[str]:
    return [record.url for record in stream.records(body, is_strict)]


def extras(*commands: tuple[str, str]) -> dict[str, object]:
    return {"extras": tuple(Extra(f"stream/{name}", value) for name, value in commands)}


@MODES
@pytest.mark.parametrize("body", [b"", b"\n\n", b"id-list", b"id-list\n\n"])
def test_a_listing_may_be_empty(is_strict: bool, body: bytes) -> None:
    assert stream.read(body, is_strict) == []


@MODES
@pytest.mark.parametrize(
    ("body", "stated"),
    [
        (b"id=a", {}),
        (b"id-list\nid=x\n", {"url": "id=x"}),
        (b"id=a\nlast-modified=1\nlast-modified=3600", {"modified": HOUR}),
        (b"id=a\nresult-link=/x?y", {"crawl": Crawl(display_url="/x?y")}),
        (b"id=a\nresult-link=", {"crawl": Crawl(display_url="")}),
        (b"id=a\nlock\nlock", {"crawl": Crawl(lock=True)}),
        (b"id=a\nwhat\nwho=x=y", extras(("what", ""), ("who=", "x=y"))),
        (b"id=a\nid-list=", extras(("id-list=", ""))),
        (b"id=a\nLock", extras(("Lock", ""))),
        (b"id=a\nlast-modified=253402300800", extras(("last-modified=", "253402300800"))),
    ],
)
def test_commands_that_the_deployed_parser_accepts(
    is_strict: bool, body: bytes, stated: dict[str, object]
) -> None:
    assert stream.records(body, is_strict)[-1] == replace(A, **stated)


@MODES
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("1312387643", AUGUST),
        ("+5", datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
        ("-5", datetime(1969, 12, 31, 23, 59, 55, tzinfo=UTC)),
        ("9223372036854775807", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        *(("253402300799", LATEST), ("-62135596801", None)),
    ],
)
def test_a_time_is_epoch_seconds(is_strict: bool, text: str, moment: datetime | None) -> None:
    assert stream.record(f"id=a\nlast-modified={text}".encode(), is_strict).modified == moment


DATES = ("20110803 16:07:23", "2011-08-03T16:07:23Z", "Wed, 03 Aug 2011 16:07:23 GMT")


@pytest.mark.parametrize("text", [*DATES, " 1312387643 "])
def test_a_date_is_refused_strictly_and_else_repaired(text: str) -> None:
    body = f"id=a\nlast-modified={text}".encode()
    detail = f"last-modified={text!r}, not seconds since 1970; read as a date"
    assert stream.refusal(body).endswith(f"{text!r}; expected seconds since 1970")
    assert (stream.record(body).modified, stream.notices(body)) == (AUGUST, [("date", detail)])


def test_a_date_is_in_the_zone_of_the_options() -> None:
    body = HEADER + b"id=a\nlast-modified=20110803 16:07:23"
    (_, record) = lister.read(io.BytesIO(body), options=ReadOptions(zone="Europe/Zurich"))
    assert isinstance(record, Record)
    assert record.modified == datetime(2011, 8, 3, 14, 7, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("argument", "value", "is_repaired"),
    [
        *((text, True, False) for text in ("", "=true", "=TRUE", "=yes", "=1", "=on")),
        *((text, False, True) for text in ("=false", "=NO", "=0", "=off")),
        *((text, True, True) for text in ("=", "=maybe")),
    ],
)
def test_a_flag_is_true_strictly_and_else_may_be_false(
    argument: str, value: bool, is_repaired: bool
) -> None:
    body = f"id=a\nlock{argument}".encode()
    finding = f"lock={argument[1:]!r}, a flag with an argument; read as {str(value).lower()}"
    assert stream.record(body, True).crawl == Crawl(lock=True)
    assert stream.record(body).crawl == Crawl(lock=value)
    assert stream.notices(body) == ([("flag", finding)] if is_repaired else [])


def test_a_url_that_java_refuses_is_refused_strictly_and_else_kept() -> None:
    body = b"id=a\nresult-link=a b"
    notice = ("url", "result-link='a b' is not a well-formed URL; kept")
    assert stream.refusal(body).endswith("result-link='a b'; expected a well-formed URL")
    assert (stream.record(body).crawl, stream.notices(body)) == (Crawl(display_url="a b"), [notice])


def test_a_url_is_made_of_an_id_by_the_rule() -> None:
    docids = Docids(base_url="http://adaptor.example.com/doc/")
    options = ReadOptions(own=(StreamOptions(docids=docids),))
    results = lister.read(io.BytesIO(HEADER + b"id=a b\nid=c"), options=options)
    assert [record.url for record in results if isinstance(record, Record)] == [
        "http://adaptor.example.com/doc/a%20b",
        "http://adaptor.example.com/doc/c",
    ]


SECONDS = "expected seconds since 1970"
FOREIGN = (
    *("mime-type=x", "content\n", "display-url=x", "acl", "namespace=", "not-found"),
    *("up-to-date", "authz-status=DENY", "meta-name=Department"),
)


@pytest.mark.parametrize(
    ("body", "offset", "reason"),
    [
        (b"lock\nid=a", 31, "lock; expected id or id-list before it"),
        (b"id", 31, "id without an argument; expected id=…"),
        *(
            (
                f"id=a\n{command}".encode(),
                36,
                f"{command.partition('=')[0].strip()}; expected a command of a lister",
            )
            for command in FOREIGN
        ),
        *(
            (f"id=a\nlast-modified{argument}".encode(), 36, f"last-modified={shown}; {SECONDS}")
            for argument, shown in (("=now", "'now'"), ("=1.5", "'1.5'"), ("", "None"))
        ),
        (b"id=a\nresult-link", 36, "result-link without an argument; expected result-link=…"),
        (b"id=a\nid=\xff", 36, NOT_UTF8),
    ],
)
def test_commands_that_the_deployed_parser_throws_at(body: bytes, offset: int, reason: str) -> None:
    assert stream.refusal(body) == f"a.txt (byte {offset}): {reason}"


@pytest.mark.parametrize("word", ["n", "never", "", "delete"])
def test_a_deletion_is_never_guessed(word: str) -> None:
    body = f"id=a\ndelete={word}".encode()
    reason = f"delete={word!r}; expected delete without an argument"
    assert stream.rejects(body) == [("bad-flag", reason, body)]


@MODES
def test_an_unknown_command_before_any_id_is_skipped(is_strict: bool) -> None:
    detail = "'what', an unknown command; skipped, as it is before any id"
    assert stream.records(b"what\nid=a", is_strict) == [A]
    assert stream.notices(b"what\nid=a", is_strict) == [("unknown-command what", detail)]


@pytest.mark.parametrize(
    ("bad", "code", "reason"),
    [
        (b"id=x\nwhat=\xff\n", "not-utf8", NOT_UTF8),
        (b"id=x\nlast-modified=now\nlock\n", "bad-date", f"last-modified='now'; {SECONDS}"),
        (b"id=x\nmeta-name=a\n", "bad-pair", "the end after meta-name; expected meta-value"),
        (b"id=x\nmeta-value=a\n", "bad-pair", "meta-value by itself; expected meta-name before it"),
        (
            b"id=x\nmeta-name=a\nlock\nlast-modified=now\n",
            "bad-pair",
            "lock after meta-name; expected meta-value",
        ),
    ],
)
def test_an_error_costs_the_record_that_has_it(bad: bytes, code: str, reason: str) -> None:
    body = b"id=a\n" + bad + b"id=b\n"
    assert (urls(body), stream.rejects(body)) == (["a", "b"], [(code, reason, bad)])


@MODES
def test_content_in_a_listing_is_an_error(is_strict: bool) -> None:
    message = stream.refusal(b"id=a\ncontent\nid=b\ndelete\n", is_strict)
    assert message.startswith("a.txt (byte 36): content")
