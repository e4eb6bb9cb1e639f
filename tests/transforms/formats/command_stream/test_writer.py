"""Command streams as they are written, byte by byte, and each refusal in full."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.record import (
    Action,
    Anchor,
    Arrival,
    Content,
    Crawl,
    Encoding,
    Extra,
    Meta,
    Record,
)
from feedferry.transforms.formats import StreamOptions
from feedferry.transforms.formats.base import WriteOptions
from feedferry.transforms.formats.command_stream.syntax import check_delimiter
from feedferry.transforms.formats.command_stream.writer import (
    AuthorizerEncoder,
    CommandEncoder,
    ListerEncoder,
    RetrieverEncoder,
    request,
)

LISTED = Record(url="a", action=Action.ADD, arrival=Arrival.CRAWLED)
DELETED = Record(url="a", action=Action.DELETE)
PLAN = Record(url="a", action=Action.ADD, arrival=Arrival.PUSHED, content=Content(b"<p>\n\0</p>"))
EMPTY = replace(PLAN, content=Content(b""))
ANSWER = Record(url="a", action=Action.UPDATE)
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
DELIMITERS = ("\0", "\n", ",", "**", "#~#", "\r\n", "\0\n", "\u00e9", "\u00e9\u00e9", "\x80")
FLAGS = Crawl(
    lock=False, crawl_once=True, secure=True, no_index=False, no_follow=True, no_archive=False
)
AUGUST = datetime(2011, 8, 3, 16, 7, 23, 999999, tzinfo=UTC)
EARLY = datetime(1969, 12, 31, 23, 59, 58, 500000, tzinfo=UTC)

lister = ListerEncoder(WriteOptions(own=(StreamOptions(delimiter="\n"),)))
retriever = RetrieverEncoder(WriteOptions(own=(StreamOptions(delimiter="\n"),)))
authorizer = AuthorizerEncoder(WriteOptions(own=(StreamOptions(delimiter="\n"),)))


def separated_by(delimiter: str) -> ListerEncoder:
    return ListerEncoder(WriteOptions(own=(StreamOptions(delimiter=delimiter),)))


def framed(encoder: CommandEncoder, *records: Record) -> bytes:
    return encoder.frame([encoder.encode(record) for record in records])


def ids(*docids: str) -> list[Record]:
    return [replace(LISTED, url=docid) for docid in docids]


def extras(*places_and_values: tuple[str, str]) -> dict[str, tuple[Extra, ...]]:
    return {"extras": tuple(Extra(f"stream/{place}", value) for place, value in places_and_values)}


def principals(*results: Principal) -> dict[str, Acl]:
    return {"acl": Acl(principals=results)}


def asked(docid: str, username: str, *groups: str) -> Record:
    stated = extras(("username", username), *(("group", group) for group in groups))
    return replace(ANSWER, url=docid, **stated)


def refusal(encoder: CommandEncoder, record: Record) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        encoder.encode(record)
    return caught.value.code, caught.value.reason


# Delimiters


@pytest.mark.parametrize("text", DELIMITERS)
def test_the_header_states_the_delimiter_and_ends_with_it(text: str) -> None:
    mark = text.encode()
    assert check_delimiter(text) == text
    assert separated_by(text).prolog() == b"GSA Adaptor Data Version 1 [" + mark + b"]" + mark


@pytest.mark.parametrize(
    ("delimiter", "message"),
    [
        ("", "an empty delimiter; expected one or more characters"),
        ("~" * 101, "a delimiter of 101 characters; expected at most 100"),
        *(
            (
                f"~{char}~",
                f"{char!r} in the delimiter {f'~{char}~'!r}; expected neither a letter, a digit nor"
                " one of : / - _ space = + [ ]",
            )
            for char in "Az5:/-_ =+[]\ud800"
        ),
    ],
)
def test_another_delimiter_is_refused_before_anything_is_written(
    delimiter: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        separated_by(delimiter)
    assert str(caught.value) == message


@pytest.mark.parametrize("delimiter", ["\0", "\n", "~"])
def test_nul_and_line_feed_in_a_value_are_two_bytes_each(delimiter: str) -> None:
    (record,) = ids("a\0b\nc=\u00e9")
    expected = b"id=a\xc0\x80b\xc0\x8ac=\xc3\xa9" + delimiter.encode()
    assert separated_by(delimiter).encode(record) == expected


@pytest.mark.parametrize(
    ("delimiter", "docid"),
    [
        *((",", "a,b"), ("**", "a**"), ("**", "a*"), ("#~#", "a#~"), ("\r\n", "a\r")),
        ("#~!", "a#"),  # the deployed parser does not find the delimiter after it
        ("\n", "a\r"),  # lenient readers take it for a part of the line end
        *(("\u00e9\u00e9", "a\u00e9"), ("\n", "b" * 100 + "\r")),
    ],
)
def test_a_value_that_the_delimiter_does_not_end_is_refused(delimiter: str, docid: str) -> None:
    shown = f"id={docid}"[:80]
    assert refusal(separated_by(delimiter), *ids(docid)) == (
        "unsafe-delimiter",
        f"{shown!r} holds the delimiter {delimiter!r} or ends with a part of it;"
        " expected a delimiter that no value holds, such as --delimiter '\\0'",
    )


@pytest.mark.parametrize(
    ("delimiter", "docid"),
    [("#~#", "a~"), ("\r\n", "a\rb"), ("\r\n", "a\n"), ("\0", "a\r"), ("~\r", "a\r")],
)
def test_a_value_that_only_has_another_part_of_the_delimiter_is_written(
    delimiter: str, docid: str
) -> None:
    (record,) = ids(docid)
    assert separated_by(delimiter).encode(record).endswith(delimiter.encode())


# Listings


@pytest.mark.parametrize(
    ("record", "stated", "written"),
    [
        (
            LISTED,
            {
                "crawl": Crawl(
                    lock=True, crawl_immediately=True, crawl_once=True, display_url="http://e.com/a"
                ),
                "modified": AUGUST,
                "extras": (Extra("stream/colour=", "red"), Extra("stream/bright", "")),
            },
            b"last-modified=1312387643\nresult-link=http://e.com/a\n"
            b"crawl-immediately\ncrawl-once\nlock\ncolour=red\nbright\n",
        ),
        (LISTED, {"modified": EARLY}, b"last-modified=-2\n"),
        (LISTED, {"crawl": Crawl(lock=False, crawl_immediately=False, crawl_once=False)}, b""),
        (DELETED, {"crawl": Crawl(lock=True)}, b"lock\ndelete\n"),
        (LISTED, {"extras": (Extra("record/@foo", "bar"),)}, b""),
        *(
            (LISTED, extras((place, value)), written)
            for place, value, written in (
                ("foo", "", b"foo\n"),
                ("foo=", "", b"foo=\n"),
                ("foo=", "a=b", b"foo=a=b\n"),
                ("id-list=", "", b"id-list=\n"),
                ("last-modified=", "99999999999999", b"last-modified=99999999999999\n"),
            )
        ),
    ],
)
def test_a_listed_record_is_its_id_and_commands(
    record: Record, stated: dict[str, Any], written: bytes
) -> None:
    assert lister.encode(replace(record, **stated)) == b"id=a\n" + written


@pytest.mark.parametrize(
    ("delimiter", "records", "written"),
    [
        ("~", ids("a", "b", "lock"), b"id-list~a~b~lock~~"),
        ("~", ids("a", "b"), b"id=a~id=b~"),
        ("~", [*ids("a", "b", "c"), DELETED, *ids("d")], b"id-list~a~b~c~~id=a~delete~id=d~"),
        ("~", ids("a", "b", "", "c", "d"), b"id=a~id=b~id=~id=c~id=d~"),
        ("**", ids("a", "b", "c"), b"id=a**id=b**id=c**"),
        ("**", ids("a", "b", "c", "d"), b"id-list**a**b**c**d****"),
    ],
)
def test_bare_ids_are_a_list_where_that_is_not_longer(
    delimiter: str, records: list[Record], written: bytes
) -> None:
    assert framed(separated_by(delimiter), *records) == written


# Documents


@pytest.mark.parametrize(
    ("stated", "written"),
    [
        (
            {
                "mimetype": "text/html; charset=UTF-8",
                "modified": AUGUST,
                "metadata": (Meta("author", "Jo\0e"), Meta("", "")),
                "extras": (Extra("stream/colour=", "red"), Extra("stream/param/X-a", "1")),
                "crawl": replace(
                    FLAGS,
                    display_url="http://e.com/a",
                    anchors=(Anchor("http://e.com/b", "B\n"), Anchor("c", ""), Anchor("d", None)),
                ),
            },
            b"mime-type=text/html; charset=UTF-8\nlast-modified=1312387643\n"
            b"display-url=http://e.com/a\nsecure=true\nno-index=false\nno-follow=true\n"
            b"no-archive=false\ncrawl-once=true\nlock=false\n"
            b"meta-name=author\nmeta-value=Jo\xc0\x80e\nmeta-name=\nmeta-value=\n"
            b"colour=red\nparam-name=X-a\nparam-value=1\n"
            b"anchor-uri=http://e.com/b\nanchor-text=B\xc0\x8a\nanchor-uri=c\n"
            b"anchor-text=\nanchor-uri=d\nanchor-text\n",
        ),
        (
            {
                "acl": Acl(
                    inheritance=Inheritance.AND_BOTH_PERMIT,
                    inherit_from="folder",
                    inherit_fragment="f",
                    principals=(
                        replace(JOE, case_sensitive=False),
                        replace(STAFF, case_sensitive=False, access=Access.DENY),
                    ),
                )
            },
            b"acl\nacl-inheritance-type=and-both-permit\nacl-inherit-from=folder\n"
            b"acl-inherit-fragment=f\nacl-case-insensitive\nacl-permit-user=joe\n"
            b"acl-deny-group=staff\n",
        ),
        ({"acl": Acl()}, b"acl\n"),
        (
            principals(replace(JOE, case_sensitive=True, access=Access.DENY)),
            b"acl\nacl-case-sensitive\nacl-deny-user=joe\n",
        ),
        (
            principals(*(replace(STAFF, namespace=name) for name in (None, "ns", "ns", "", None))),
            b"acl\nacl-permit-group=staff\nnamespace=ns\nacl-permit-group=staff\n"
            b"acl-permit-group=staff\nnamespace=\nacl-permit-group=staff\nnamespace=Default\n"
            b"acl-permit-group=staff\n",
        ),
    ],
    ids=["all-fields", "acl", "empty-acl", "case-sensitive", "namespaces"],
)
def test_a_document_is_its_commands_before_the_content(
    stated: dict[str, Any], written: bytes
) -> None:
    assert retriever.encode(replace(EMPTY, **stated)) == b"id=a\n" + written + b"content\n"


def test_content_is_written_last_as_it_is_and_unpacked() -> None:
    packed = Content(b"eJyzKbAryEnMs9EvsAMAFqgDrw==", Encoding.ZLIB_BASE64)
    assert retriever.encode(PLAN) == b"id=a\ncontent\n<p>\n\0</p>"
    assert retriever.encode(replace(PLAN, content=packed)) == b"id=a\ncontent\n<p>plan</p>"


def test_a_deletion_is_not_found() -> None:
    record = replace(DELETED, crawl=Crawl(lock=True))
    assert retriever.encode(record) == b"id=a\nnot-found\n"


# Answers and questions


@pytest.mark.parametrize(
    ("records", "written"),
    [
        ([ANSWER], b"id=a\n"),
        *(
            (
                [replace(ANSWER, **extras(("authz-status", status)))],
                f"id=a\nauthz-status={status}\n".encode(),
            )
            for status in ("PERMIT", "DENY", "INDETERMINATE")
        ),
        ([asked("a", "joe", "staff", "eng")], b"username=joe\ngroup=staff\ngroup=eng\nid=a\n"),
        (
            [asked("a", "joe", "eng"), asked("b", "joe", "eng"), asked("c", "sue")],
            b"username=joe\ngroup=eng\nid=a\nid=b\nusername=sue\nid=c\n",
        ),
        (
            [asked("a", "joe", "eng"), asked("b", "joe")],
            b"username=joe\ngroup=eng\nid=a\nusername=joe\nid=b\n",
        ),
    ],
)
def test_a_user_with_its_groups_is_before_its_ids_and_a_status_after_its_id(
    records: list[Record], written: bytes
) -> None:
    assert framed(authorizer, *records) == written


# Refusals

BAD_ACLS = (
    {"acl": Acl(alone=True)},
    {"acl": Acl(inherit_fragment="f")},
    principals(JOE, replace(JOE, case_sensitive=True)),
    principals(replace(JOE, unqualified=True)),
    principals(replace(JOE, name=" ")),
)
BAD_ACL = (
    "an ACL that no command expresses; expected one rule of case, names, and a parent of the"
    " fragment"
)
BAD_ANSWERS = (
    (extras(("username", "joe"), ("username", "sue")), "['joe', 'sue'] and []"),
    (extras(("authz-status", "DENY"), ("authz-status", "PERMIT")), "[] and ['DENY', 'PERMIT']"),
    (extras(("group", "eng")), "[] and []"),
    (extras(("authz-status", "permit")), "[] and ['permit']"),
)
BAD_ANSWER = "expected at most one user, groups only of a user, and at most one known status"
BAD_EXTRAS = (
    *(("lock", ""), ("content=", "x"), ("id-list", ""), ("last-modified=", "5"), ("=", "x")),
    *(("last-modified", ""), ("foo", "bar"), ("", "x"), ("a=b=", "x"), ("not-found", "")),
)
BAD_EXTRA = "an extra at 'stream/{}'; expected a command that no parser knows"
NOT_TEXT = {"metadata": (Meta("author", "", b"\xff"),)}


BAD_ACTIONS = (
    (lister, LISTED, Action.UPDATE, "ADD or DELETE"),
    (lister, LISTED, Action.DELETE_PATTERN, "ADD or DELETE"),
    (retriever, PLAN, Action.UPDATE_INDEX, "ADD or DELETE"),
    (authorizer, PLAN, Action.ADD, "UPDATE"),
)
BAD_TEXT = "a lone surrogate U+DC80; expected Unicode text"
BAD_PLANS = (
    *((extras(pair), "bad-extra", BAD_EXTRA.format(pair[0])) for pair in BAD_EXTRAS),
    ({"content": None}, "no-content", "a document without content; expected its content"),
    (NOT_TEXT, "bad-metadata", "a value of 'author' that is not text; expected text"),
    *((stated, "bad-acl", BAD_ACL) for stated in BAD_ACLS),
)


@pytest.mark.parametrize(
    ("encoder", "record", "stated", "code", "reason"),
    [
        (lister, LISTED, {"url": "a\udc80"}, "not-unicode", BAD_TEXT),
        *(
            (
                encoder,
                record,
                {"action": action},
                "bad-action",
                f"action {action.value}; expected {expected}",
            )
            for encoder, record, action, expected in BAD_ACTIONS
        ),
        *((retriever, PLAN, *refused) for refused in BAD_PLANS),
        *(
            (authorizer, ANSWER, stated, "bad-extra", f"{finding}; {BAD_ANSWER}")
            for stated, finding in BAD_ANSWERS
        ),
    ],
)
def test_a_record_that_no_command_expresses_is_refused(
    encoder: CommandEncoder, record: Record, stated: dict[str, Any], code: str, reason: str
) -> None:
    assert refusal(encoder, replace(record, **stated)) == (code, reason)


# Requests to an authorizer


@pytest.mark.parametrize(
    ("username", "password", "groups", "written"),
    [
        ("joe", "s3", ("a", "b"), b"username=joe\0password=s3\0group=a\0group=b\0id=1\0id=2\0"),
        ("\u00e9\n", None, (), b"username=\xc3\xa9\n\0id=1\0id=2\0"),
    ],
)
def test_a_request_is_in_the_order_of_the_specification_and_in_plain_utf_8(
    username: str, password: str | None, groups: tuple[str, ...], written: bytes
) -> None:
    text = request(username=username, password=password, groups=groups, ids=("1", "2"))
    assert text == b"GSA Adaptor Data Version 1 [\0]\0" + written


@pytest.mark.parametrize(
    ("password", "message"),
    [
        (
            "s\0e",
            "the value of password holds the delimiter '\\x00' or ends with a part of it;"
            " expected a delimiter that no value holds, such as --delimiter '\\0'",
        ),
        ("\ud800", "a lone surrogate U+D800; expected Unicode text"),
    ],
)
def test_a_password_that_cannot_be_written_is_refused_and_not_shown(
    password: str, message: str
) -> None:
    with pytest.raises(RecordError) as caught:
        request(username="joe", password=password, groups=(), ids=("1",))
    assert str(caught.value) == message
