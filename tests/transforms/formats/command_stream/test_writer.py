"""Command streams as they are written, byte by byte, and each refusal in full."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import ConfigError, RecordError
from schemas.record import (
    Action,
    Anchor,
    Arrival,
    Content,
    Crawl,
    Encoding,
    Extra,
    Meta,
    Provenance,
    Record,
)
from support.strategies import texts
from transforms.formats.base import Mode, ReadOptions, WriteOptions
from transforms.formats.command_stream import lister as lister_stream
from transforms.formats.command_stream.syntax import check_delimiter
from transforms.formats.command_stream.writer import (
    AuthorizerEncoder,
    CommandEncoder,
    ListerEncoder,
    RetrieverEncoder,
    request,
)

HEADER = b"GSA Adaptor Data Version 1 [\n]\n"
LISTED = Record(url="a", action=Action.ADD, arrival=Arrival.CRAWLED)
DELETED = Record(url="a", action=Action.DELETE)
PLAN = Record(url="a", action=Action.ADD, arrival=Arrival.PUSHED, content=Content(b"<p>\n\0</p>"))
EMPTY = replace(PLAN, content=Content(b""))
ANSWER = Record(url="a", action=Action.UPDATE)
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
DELIMITERS = ("\0", "\n", ",", "**", "#~#", "\r\n", "\0\n", "\u00e9", "\u00e9\u00e9", "\x80")
AUGUST = datetime(2011, 8, 3, 16, 7, 23, 999999, tzinfo=UTC)

lister = ListerEncoder(WriteOptions(delimiter="\n"))
retriever = RetrieverEncoder(WriteOptions(delimiter="\n"))
authorizer = AuthorizerEncoder(WriteOptions(delimiter="\n"))


def encode(encoder: CommandEncoder, record: Record, **stated: Any) -> bytes:
    return encoder.encode(replace(record, **stated))


def framed(encoder: CommandEncoder, *records: Record) -> bytes:
    return encoder.frame([encoder.encode(record) for record in records])


def ids(*docids: str) -> list[Record]:
    return [replace(LISTED, url=docid) for docid in docids]


def asked(docid: str, username: str, *groups: str) -> Record:
    extras = [Extra("stream/username", username), *(Extra("stream/group", one) for one in groups)]
    return Record(url=docid, action=Action.UPDATE, extras=tuple(extras))


def read_strictly(data: bytes) -> list[Record]:
    results = lister_stream.read(io.BytesIO(data), options=ReadOptions(mode=Mode.STRICT))
    return [replace(one, provenance=Provenance()) for one in results if isinstance(one, Record)]


# Headers and delimiters


@pytest.mark.parametrize(
    ("options", "header"),
    [
        (WriteOptions(), b"GSA Adaptor Data Version 1 [\0]\0"),
        (WriteOptions(delimiter="\u00e9~"), b"GSA Adaptor Data Version 1 [\xc3\xa9~]\xc3\xa9~"),
        (WriteOptions(delimiter="\n"), HEADER),
    ],
)
def test_the_header_states_the_delimiter_and_ends_with_it(
    options: WriteOptions, header: bytes
) -> None:
    assert ListerEncoder(options).prolog() == header


@pytest.mark.parametrize("text", DELIMITERS)
def test_a_delimiter_without_forbidden_characters_is_accepted(text: str) -> None:
    assert check_delimiter(text) == text


@pytest.mark.parametrize(
    ("delimiter", "message"),
    [
        ("", "an empty delimiter; expected one or more characters"),
        ("~" * 101, "a delimiter of 101 characters; expected at most 100"),
        ("\ud800", "a lone surrogate in the delimiter '\\ud800'; expected Unicode text"),
        *(
            (
                f"~{char}~",
                f"{char!r} in the delimiter '~{char}~'; expected neither a letter, a digit nor one"
                " of : / - _ space = + [ ]",
            )
            for char in "Az5:/-_ =+[]"
        ),
    ],
)
def test_another_delimiter_is_refused_before_anything_is_written(
    delimiter: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ListerEncoder(WriteOptions(delimiter=delimiter))
    assert str(caught.value) == message


@pytest.mark.parametrize("delimiter", ["\0", "\n", "~"])
def test_nul_and_line_feed_in_a_value_are_two_bytes_each(delimiter: str) -> None:
    encoder = ListerEncoder(WriteOptions(delimiter=delimiter))

    assert encode(encoder, LISTED, url="a\0b\nc=\u00e9") == (
        b"id=a\xc0\x80b\xc0\x8ac=\xc3\xa9" + delimiter.encode()
    )


@pytest.mark.parametrize(
    ("delimiter", "docid"),
    [
        pytest.param(",", "a,b", id="held"),
        pytest.param("**", "a**", id="held-at-the-end"),
        pytest.param("**", "a*", id="doubled"),
        pytest.param("#~#", "a#~", id="begun"),
        pytest.param("#~!", "a#", id="begun-and-not-found-by-the-deployed-parser"),
        pytest.param("\r\n", "a\r", id="carriage-return-before-crlf"),
        pytest.param("\n", "a\r", id="carriage-return-before-lf"),
        pytest.param("\u00e9\u00e9", "a\u00e9", id="of-more-bytes"),
        pytest.param("\n", "b" * 100 + "\r", id="long"),
    ],
)
def test_a_value_that_the_delimiter_does_not_end_is_refused(delimiter: str, docid: str) -> None:
    with pytest.raises(RecordError) as caught:
        encode(ListerEncoder(WriteOptions(delimiter=delimiter)), LISTED, url=docid)

    shown = f"id={docid}"[:80]
    assert (caught.value.code, caught.value.reason) == (
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
    encoder = ListerEncoder(WriteOptions(delimiter=delimiter))

    assert encode(encoder, LISTED, url=docid).endswith(delimiter.encode())


# Listings


@pytest.mark.parametrize(
    ("record", "stated", "written"),
    [
        (LISTED, {}, b""),
        (
            LISTED,
            {
                "crawl": Crawl(
                    lock=True,
                    crawl_immediately=True,
                    crawl_once=True,
                    display_url="http://www.example.com/a",
                ),
                "modified": AUGUST,
                "extras": (Extra("stream/colour=", "red"), Extra("stream/bright", "")),
            },
            b"last-modified=1312387643\nresult-link=http://www.example.com/a\n"
            b"crawl-immediately\ncrawl-once\nlock\ncolour=red\nbright\n",
        ),
        (
            LISTED,
            {"modified": datetime(1969, 12, 31, 23, 59, 58, 500000, tzinfo=UTC)},
            b"last-modified=-2\n",
        ),
        (LISTED, {"crawl": Crawl(lock=False, crawl_immediately=False, crawl_once=False)}, b""),
        (DELETED, {"crawl": Crawl(lock=True)}, b"lock\ndelete\n"),
        *(
            (LISTED, {"extras": (Extra(place, value),)}, written)
            for place, value, written in (
                ("record/@foo", "bar", b""),
                ("stream/foo", "", b"foo\n"),
                ("stream/foo=", "", b"foo=\n"),
                ("stream/foo=", "a=b", b"foo=a=b\n"),
                ("stream/id-list=", "", b"id-list=\n"),
                ("stream/last-modified=", "99999999999999", b"last-modified=99999999999999\n"),
            )
        ),
    ],
)
def test_a_listed_record_is_its_id_and_commands(
    record: Record, stated: dict[str, Any], written: bytes
) -> None:
    assert encode(lister, record, **stated) == b"id=a\n" + written


def list_of(*names: str) -> bytes:
    return b"\n".join([b"id-list", *(name.encode() for name in names), b"", b""])


@pytest.mark.parametrize(
    ("records", "written"),
    [
        (ids("a", "b", "lock"), list_of("a", "b", "lock")),
        (ids("a", "b"), b"id=a\nid=b\n"),
        (
            [*ids("a", "b", "c"), DELETED, *ids("d")],
            list_of("a", "b", "c") + b"id=a\ndelete\nid=d\n",
        ),
        (ids("a", "b", "", "c", "d"), b"id=a\nid=b\nid=\nid=c\nid=d\n"),
    ],
)
def test_three_bare_ids_or_more_are_a_list(records: list[Record], written: bytes) -> None:
    assert framed(lister, *records) == written


@pytest.mark.parametrize(
    ("docids", "written"),
    [("abc", b"id=a**id=b**id=c**"), ("abcd", b"id-list**a**b**c**d****")],
)
def test_with_a_longer_delimiter_a_list_needs_four_ids(docids: str, written: bytes) -> None:
    encoder = ListerEncoder(WriteOptions(delimiter="**"))

    assert framed(encoder, *ids(*docids)) == written


@given(st.lists(texts(max_size=2)), st.sampled_from(("\0", "\n", "\0\n", "\0\0\0\0\0")))
def test_a_frame_is_never_longer_than_its_records(docids: list[str], delimiter: str) -> None:
    encoder = ListerEncoder(WriteOptions(delimiter=delimiter))
    encoded = [encoder.encode(record) for record in ids(*(docid + ">" for docid in docids))]

    assert len(encoder.frame(encoded)) <= len(b"".join(encoded)) + encoder.frame_bytes


@given(st.lists(texts().map(lambda text: text + ">")), st.sampled_from(DELIMITERS))
def test_ids_survive_a_round_trip_through_the_deployed_parser(
    docids: list[str], delimiter: str
) -> None:
    encoder = ListerEncoder(WriteOptions(delimiter=delimiter))
    clear = [one for one in ids(*docids) if delimiter not in one.url]

    assert read_strictly(encoder.prolog() + framed(encoder, *clear)) == clear


# Documents


@pytest.mark.parametrize(
    ("stated", "written"),
    [
        ({}, b"<p>\n\0</p>"),
        (
            {"content": Content(b"eJyzKbAryEnMs9EvsAMAFqgDrw==", Encoding.ZLIB_BASE64)},
            b"<p>plan</p>",
        ),
    ],
)
def test_content_is_written_last_and_unpacked(stated: dict[str, Any], written: bytes) -> None:
    assert encode(retriever, PLAN, **stated) == b"id=a\ncontent\n" + written


@pytest.mark.parametrize(
    ("stated", "written"),
    [
        (
            {
                "mimetype": "text/html; charset=UTF-8",
                "modified": AUGUST,
                "metadata": (Meta("author", "Jo\0e"), Meta("", "")),
                "extras": (Extra("stream/colour=", "red"), Extra("stream/param/X-a", "1")),
                "crawl": Crawl(
                    lock=False,
                    crawl_once=True,
                    secure=True,
                    no_index=False,
                    no_follow=True,
                    no_archive=False,
                    display_url="http://www.example.com/a",
                    anchors=(Anchor("http://www.example.com/b", "B\n"), Anchor("c", "")),
                ),
            },
            b"mime-type=text/html; charset=UTF-8\nlast-modified=1312387643\n"
            b"display-url=http://www.example.com/a\nsecure=true\nno-index=false\nno-follow=true\n"
            b"no-archive=false\ncrawl-once=true\nlock=false\n"
            b"meta-name=author\nmeta-value=Jo\xc0\x80e\nmeta-name=\nmeta-value=\n"
            b"colour=red\nparam-name=X-a\nparam-value=1\n"
            b"anchor-uri=http://www.example.com/b\nanchor-text=B\xc0\x8a\nanchor-uri=c\n"
            b"anchor-text=\n",
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
            {"acl": Acl(principals=(replace(JOE, case_sensitive=True, access=Access.DENY),))},
            b"acl\nacl-case-sensitive\nacl-deny-user=joe\n",
        ),
        (
            {
                "acl": Acl(
                    principals=tuple(
                        replace(STAFF, namespace=space) for space in (None, "ns", "ns", "", None)
                    )
                )
            },
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
    assert encode(retriever, EMPTY, **stated) == b"id=a\n" + written + b"content\n"


def test_a_deletion_is_not_found() -> None:
    assert encode(retriever, DELETED, crawl=Crawl(lock=True)) == b"id=a\nnot-found\n"


def test_a_delimiter_in_content_is_content() -> None:
    encoder = RetrieverEncoder(WriteOptions(delimiter=","))

    assert encode(encoder, PLAN, content=Content(b"a,b,")) == b"id=a,content,a,b,"


# Answers and questions


@pytest.mark.parametrize("status", ["PERMIT", "DENY", "INDETERMINATE"])
def test_an_answer_follows_its_id(status: str) -> None:
    extras = (Extra("stream/authz-status", status),)
    written = f"id=a\nauthz-status={status}\n"

    assert encode(authorizer, ANSWER, extras=extras) == written.encode()
    assert encode(authorizer, ANSWER) == b"id=a\n"


@pytest.mark.parametrize(
    ("records", "written"),
    [
        (
            [asked("a", "joe", "staff", "eng")],
            b"username=joe\ngroup=staff\ngroup=eng\nid=a\n",
        ),
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
def test_a_user_with_its_groups_is_named_before_its_ids(
    records: list[Record], written: bytes
) -> None:
    assert framed(authorizer, *records) == written


# Refusals


def extras(*places_and_values: tuple[str, str]) -> dict[str, tuple[Extra, ...]]:
    return {"extras": tuple(Extra(f"stream/{place}", value) for place, value in places_and_values)}


def principals(*found: Principal) -> dict[str, Acl]:
    return {"acl": Acl(principals=found)}


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


@pytest.mark.parametrize(
    ("encoder", "record", "stated", "code", "reason"),
    [
        (
            lister,
            LISTED,
            {"url": "a\udc80"},
            "not-unicode",
            "a lone surrogate U+DC80; expected Unicode text",
        ),
        *(
            (
                encoder,
                record,
                {"action": action},
                "bad-action",
                f"action {action.value}; expected {expected}",
            )
            for encoder, record, action, expected in (
                (lister, LISTED, Action.UPDATE, "ADD or DELETE"),
                (lister, LISTED, Action.DELETE_PATTERN, "ADD or DELETE"),
                (lister, LISTED, Action.UPDATE_INDEX, "ADD or DELETE"),
                (retriever, PLAN, Action.UPDATE, "ADD or DELETE"),
                (authorizer, PLAN, Action.ADD, "UPDATE"),
            )
        ),
        *(
            (
                encoder,
                record,
                extras((place, value)),
                "bad-extra",
                f"an extra at {f'stream/{place}'!r}; expected a command that no parser knows",
            )
            for encoder, record, place, value in (
                (lister, LISTED, "lock", ""),
                (lister, LISTED, "content=", "x"),
                (lister, LISTED, "id-list", ""),
                (lister, LISTED, "last-modified=", "5"),
                (lister, LISTED, "last-modified", ""),
                (lister, LISTED, "foo", "bar"),
                (lister, LISTED, "", "x"),
                (lister, LISTED, "=", "x"),
                (lister, LISTED, "a=b=", "x"),
                (retriever, PLAN, "not-found", ""),
            )
        ),
        (
            retriever,
            PLAN,
            {"content": None},
            "no-content",
            "a document without content; expected its content",
        ),
        (
            retriever,
            PLAN,
            {"metadata": (Meta("author", "", b"\xff"),)},
            "bad-metadata",
            "a value of 'author' that is not text; expected text",
        ),
        *((retriever, PLAN, stated, "bad-acl", BAD_ACL) for stated in BAD_ACLS),
        *(
            (authorizer, ANSWER, stated, "bad-extra", f"{found}; {BAD_ANSWER}")
            for stated, found in BAD_ANSWERS
        ),
    ],
)
def test_a_record_that_no_command_expresses_is_refused(
    encoder: CommandEncoder, record: Record, stated: dict[str, Any], code: str, reason: str
) -> None:
    with pytest.raises(RecordError) as caught:
        encode(encoder, record, **stated)
    assert (caught.value.code, caught.value.reason) == (code, reason)


# Requests to an authorizer


@pytest.mark.parametrize(
    ("stated", "written"),
    [
        (
            {"username": "joe", "password": "s3", "groups": ("a", "b"), "ids": ("1", "2")},
            b"[\0]\0username=joe\0password=s3\0group=a\0group=b\0id=1\0id=2\0",
        ),
        ({"username": "\u00e9\n"}, b"[\0]\0username=\xc3\xa9\n\0id=1\0"),
    ],
)
def test_a_request_is_in_the_order_of_the_specification_and_in_plain_utf_8(
    stated: dict[str, Any], written: bytes
) -> None:
    defaults = {"password": None, "groups": (), "ids": ("1",)}

    assert request(**(defaults | stated)) == b"GSA Adaptor Data Version 1 " + written


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
