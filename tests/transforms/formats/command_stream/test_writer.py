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
GONE = Record(url="a", action=Action.DELETE)
PLAN = Record(url="a", action=Action.ADD, arrival=Arrival.PUSHED, content=Content(b"<p>\n\0</p>"))
ANSWER = Record(url="a", action=Action.UPDATE)
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
DELIMITERS = ("\0", "\n", ",", "**", "#~#", "\r\n", "\0\n", "\u00e9", "\u00e9\u00e9", "\x80")

lister = ListerEncoder(WriteOptions(delimiter="\n"))
retriever = RetrieverEncoder(WriteOptions(delimiter="\n"))
authorizer = AuthorizerEncoder(WriteOptions(delimiter="\n"))


def encode(encoder: CommandEncoder, record: Record, **stated: Any) -> bytes:
    return encoder.encode(replace(record, **stated))


def refusal(encoder: CommandEncoder, record: Record, **stated: Any) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        encode(encoder, record, **stated)
    return caught.value.code, caught.value.reason


def framed(encoder: CommandEncoder, *records: Record) -> bytes:
    return encoder.frame([encoder.encode(record) for record in records])


def ids(*docids: str) -> list[Record]:
    return [replace(LISTED, url=docid) for docid in docids]


def asked(docid: str, username: str, *groups: str) -> Record:
    extras = [Extra("stream/username", username), *(Extra("stream/group", one) for one in groups)]
    return Record(url=docid, action=Action.UPDATE, extras=tuple(extras))


def read_strictly(data: bytes) -> list[Any]:
    options = ReadOptions(mode=Mode.STRICT)
    found = lister_stream.read(io.BytesIO(data), options=options)
    return [replace(one, provenance=Provenance()) for one in found if isinstance(one, Record)]


def test_the_delimiter_is_nul_unless_another_is_given() -> None:
    assert ListerEncoder(WriteOptions()).prolog() == b"GSA Adaptor Data Version 1 [\0]\0"


def test_the_header_states_the_delimiter_and_ends_with_it() -> None:
    assert ListerEncoder(WriteOptions(delimiter="\u00e9~")).prolog() == (
        b"GSA Adaptor Data Version 1 [\xc3\xa9~]\xc3\xa9~"
    )


def test_a_line_feed_in_the_header_is_one_byte() -> None:
    assert lister.prolog() == HEADER


@pytest.mark.parametrize("encoder", [lister, retriever, authorizer])
def test_nothing_ends_a_stream_but_its_end(encoder: CommandEncoder) -> None:
    assert encoder.epilog() == b""


@pytest.mark.parametrize("text", DELIMITERS)
def test_a_delimiter_without_forbidden_characters_is_taken(text: str) -> None:
    assert check_delimiter(text) == text


@pytest.mark.parametrize("found", ["A", "z", "5", ":", "/", "-", "_", " ", "=", "+", "[", "]"])
def test_a_delimiter_with_a_forbidden_character_is_refused(found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_delimiter(f"~{found}~")

    assert str(caught.value) == (
        f"{found!r} in the delimiter '~{found}~'; expected neither a letter, a digit nor one of"
        " : / - _ space = + [ ]"
    )


def test_an_empty_delimiter_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        check_delimiter("")

    assert str(caught.value) == "an empty delimiter; expected one or more characters"


def test_a_delimiter_of_more_than_a_hundred_characters_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        check_delimiter("~" * 101)
    assert str(caught.value) == "a delimiter of 101 characters; expected at most 100"


def test_a_delimiter_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        check_delimiter("\ud800")

    assert str(caught.value) == (
        "a lone surrogate in the delimiter '\\ud800'; expected Unicode text"
    )


def test_an_encoder_refuses_a_forbidden_delimiter_before_anything_is_written() -> None:
    with pytest.raises(ConfigError) as caught:
        ListerEncoder(WriteOptions(delimiter="a"))

    assert str(caught.value) == (
        "'a' in the delimiter 'a'; expected neither a letter, a digit nor one of"
        " : / - _ space = + [ ]"
    )


@pytest.mark.parametrize("delimiter", ["\0", "\n", "~"])
def test_nul_and_line_feed_in_a_value_are_two_bytes_each(delimiter: str) -> None:
    encoder = ListerEncoder(WriteOptions(delimiter=delimiter))

    assert encoder.encode(replace(LISTED, url="a\0b\nc=\u00e9")) == (
        b"id=a\xc0\x80b\xc0\x8ac=\xc3\xa9" + delimiter.encode()
    )


@pytest.mark.parametrize(
    ("delimiter", "docid"),
    [
        pytest.param(",", "a,b", id="held"),
        pytest.param("**", "a**", id="held-at-the-end"),
        pytest.param("**", "a*", id="doubled"),
        pytest.param("#~#", "a#~", id="begun"),
        pytest.param("#~!", "a#", id="begun-and-missed-by-the-deployed-parser"),
        pytest.param("\r\n", "a\r", id="carriage-return-before-crlf"),
        pytest.param("\n", "a\r", id="carriage-return-before-lf"),
        pytest.param("\u00e9\u00e9", "a\u00e9", id="of-more-bytes"),
    ],
)
def test_a_value_that_the_delimiter_does_not_end_is_refused(delimiter: str, docid: str) -> None:
    encoder = ListerEncoder(WriteOptions(delimiter=delimiter))

    assert refusal(encoder, LISTED, url=docid) == (
        "unsafe-delimiter",
        f"{'id=' + docid!r} holds the delimiter {delimiter!r} or ends with a part of it;"
        " expected a delimiter that no value holds, such as --delimiter '\\0'",
    )


@pytest.mark.parametrize(
    ("delimiter", "docid"),
    [("#~#", "a~"), ("\r\n", "a\rb"), ("\r\n", "a\n"), ("\0", "a\r"), ("~\r", "a\r")],
)
def test_a_value_that_only_has_some_of_the_delimiter_is_written(delimiter: str, docid: str) -> None:
    encoder = ListerEncoder(WriteOptions(delimiter=delimiter))

    assert encoder.encode(replace(LISTED, url=docid)).endswith(delimiter.encode())


def test_a_long_value_is_shown_by_its_beginning() -> None:
    assert refusal(lister, LISTED, url="b" * 100 + "\r") == (
        "unsafe-delimiter",
        f"'id={'b' * 77}' holds the delimiter '\\n' or ends with a part of it; expected a"
        " delimiter that no value holds, such as --delimiter '\\0'",
    )


def test_a_lone_surrogate_is_refused() -> None:
    assert refusal(lister, LISTED, url="a\udc80") == (
        "not-unicode",
        "a lone surrogate U+DC80; expected Unicode text",
    )


def test_what_nothing_is_said_of_is_an_id() -> None:
    assert encode(lister, LISTED) == b"id=a\n"


def test_a_listing_says_all_that_a_lister_can() -> None:
    crawl = Crawl(
        lock=True,
        crawl_immediately=True,
        crawl_once=True,
        display_url="http://www.example.com/a",
    )
    modified = datetime(2011, 8, 3, 16, 7, 23, 999999, tzinfo=UTC)
    extras = (Extra("stream/colour=", "red"), Extra("stream/bright", ""))

    assert encode(lister, LISTED, crawl=crawl, modified=modified, extras=extras) == (
        b"id=a\nlast-modified=1312387643\nresult-link=http://www.example.com/a\n"
        b"crawl-immediately\ncrawl-once\nlock\ncolour=red\nbright\n"
    )


def test_a_moment_before_1970_is_rounded_to_the_second_before_it() -> None:
    modified = datetime(1969, 12, 31, 23, 59, 58, 500000, tzinfo=UTC)

    assert encode(lister, LISTED, modified=modified) == b"id=a\nlast-modified=-2\n"


def test_a_flag_of_a_listing_that_is_false_is_not_said() -> None:
    crawl = Crawl(lock=False, crawl_immediately=False, crawl_once=False)

    assert encode(lister, LISTED, crawl=crawl) == b"id=a\n"


def test_a_deletion_of_a_listing_keeps_what_is_said_of_it() -> None:
    assert encode(lister, GONE, crawl=Crawl(lock=True)) == b"id=a\nlock\ndelete\n"


def test_extras_of_other_formats_are_left_out() -> None:
    assert encode(lister, LISTED, extras=(Extra("record/@foo", "bar"),)) == b"id=a\n"


@pytest.mark.parametrize(
    ("place", "value", "written"),
    [
        ("stream/foo", "", b"foo\n"),
        ("stream/foo=", "", b"foo=\n"),
        ("stream/foo=", "a=b", b"foo=a=b\n"),
        ("stream/id-list=", "", b"id-list=\n"),
        ("stream/last-modified=", "99999999999999", b"last-modified=99999999999999\n"),
    ],
)
def test_a_command_that_nobody_knows_is_written_as_it_was(
    place: str, value: str, written: bytes
) -> None:
    assert encode(lister, LISTED, extras=(Extra(place, value),)) == b"id=a\n" + written


@pytest.mark.parametrize(
    "extra",
    [
        Extra("stream/lock", ""),
        Extra("stream/content=", "x"),
        Extra("stream/id-list", ""),
        Extra("stream/last-modified=", "5"),
        Extra("stream/last-modified", ""),
        Extra("stream/foo", "bar"),
        Extra("stream/", "x"),
        Extra("stream/=", "x"),
        Extra("stream/a=b=", "x"),
    ],
)
def test_an_extra_that_would_be_another_command_is_refused(extra: Extra) -> None:
    assert refusal(lister, LISTED, extras=(extra,)) == (
        "bad-extra",
        f"an extra at {extra.place!r}; expected a command that no parser knows",
    )


@pytest.mark.parametrize("action", [Action.UPDATE, Action.DELETE_PATTERN, Action.UPDATE_INDEX])
def test_a_listing_adds_and_deletes_and_no_more(action: Action) -> None:
    assert refusal(lister, LISTED, action=action) == (
        "bad-action",
        f"action {action.value}; expected ADD or DELETE",
    )


def test_a_link_that_java_does_not_take_is_refused() -> None:
    assert refusal(lister, LISTED, crawl=Crawl(display_url="http://a b/")) == (
        "bad-url",
        "result-link='http://a b/'; expected a well-formed URL",
    )


def test_three_ids_of_which_nothing_is_said_are_a_list() -> None:
    assert framed(lister, *ids("a", "b", "lock")) == b"id-list\na\nb\nlock\n\n"


def test_two_ids_of_which_nothing_is_said_are_no_list() -> None:
    assert framed(lister, *ids("a", "b")) == b"id=a\nid=b\n"


def test_a_list_stops_before_an_id_of_which_something_is_said() -> None:
    assert framed(lister, *ids("a", "b", "c"), GONE, *ids("d")) == (
        b"id-list\na\nb\nc\n\nid=a\ndelete\nid=d\n"
    )


def test_an_empty_id_is_in_no_list() -> None:
    assert framed(lister, *ids("a", "b", "", "c", "d")) == b"id=a\nid=b\nid=\nid=c\nid=d\n"


def test_three_ids_are_no_list_where_a_long_delimiter_makes_it_longer() -> None:
    encoder = ListerEncoder(WriteOptions(delimiter="**"))

    assert framed(encoder, *ids("a", "b", "c")) == b"id=a**id=b**id=c**"


def test_four_ids_are_a_list_with_a_delimiter_of_two_bytes() -> None:
    encoder = ListerEncoder(WriteOptions(delimiter="**"))

    assert framed(encoder, *ids("a", "b", "c", "d")) == b"id-list**a**b**c**d****"


@given(st.lists(texts(max_size=2)), st.sampled_from(("\0", "\n", "\0\n", "\0\0\0\0\0")))
def test_a_frame_is_never_longer_than_its_records(docids: list[str], delimiter: str) -> None:
    encoder = ListerEncoder(WriteOptions(delimiter=delimiter))
    encoded = [encoder.encode(record) for record in ids(*(docid + ">" for docid in docids))]

    assert len(encoder.frame(encoded)) <= len(b"".join(encoded)) + encoder.frame_bytes


@given(st.lists(texts().map(lambda text: text + ">")), st.sampled_from(DELIMITERS))
def test_ids_that_are_written_read_back_as_the_deployed_parser_reads(
    docids: list[str], delimiter: str
) -> None:
    encoder = ListerEncoder(WriteOptions(delimiter=delimiter))
    clear = [one for one in ids(*docids) if delimiter not in one.url]

    assert read_strictly(encoder.prolog() + framed(encoder, *clear)) == clear


def test_a_document_is_written_with_its_content_last_and_as_it_is() -> None:
    assert encode(retriever, PLAN) == b"id=a\ncontent\n<p>\n\0</p>"


def test_content_in_zlib_and_base64_is_unwrapped() -> None:
    content = Content(b"eJyzKbAryEnMs9EvsAMAFqgDrw==", Encoding.ZLIB_BASE64)

    assert encode(retriever, PLAN, content=content) == b"id=a\ncontent\n<p>plan</p>"


def test_a_document_says_all_that_a_retriever_can() -> None:
    crawl = Crawl(
        lock=False,
        crawl_once=True,
        secure=True,
        no_index=False,
        no_follow=True,
        no_archive=False,
        display_url="http://www.example.com/a",
        anchors=(Anchor("http://www.example.com/b", "B\n"), Anchor("c", "")),
    )
    record = replace(
        PLAN,
        mimetype="text/html; charset=UTF-8",
        modified=datetime(2011, 8, 3, 16, 7, 23, tzinfo=UTC),
        metadata=(Meta("author", "Jo\0e"), Meta("", "")),
        extras=(Extra("stream/colour=", "red"), Extra("stream/param/X-a", "1")),
        crawl=crawl,
    )

    assert encode(retriever, record) == (
        b"id=a\nmime-type=text/html; charset=UTF-8\nlast-modified=1312387643\n"
        b"display-url=http://www.example.com/a\nsecure=true\nno-index=false\nno-follow=true\n"
        b"no-archive=false\ncrawl-once=true\nlock=false\n"
        b"meta-name=author\nmeta-value=Jo\xc0\x80e\nmeta-name=\nmeta-value=\n"
        b"colour=red\nparam-name=X-a\nparam-value=1\n"
        b"anchor-uri=http://www.example.com/b\nanchor-text=B\xc0\x8a\nanchor-uri=c\nanchor-text=\n"
        b"content\n<p>\n\0</p>"
    )


def test_an_acl_is_written_before_the_content() -> None:
    acl = Acl(
        inheritance=Inheritance.AND_BOTH_PERMIT,
        inherit_from="folder",
        inherit_fragment="f",
        principals=(
            replace(JOE, case_sensitive=False),
            replace(STAFF, case_sensitive=False, access=Access.DENY),
        ),
    )

    assert encode(retriever, PLAN, acl=acl, content=Content(b"")) == (
        b"id=a\nacl\nacl-inheritance-type=and-both-permit\nacl-inherit-from=folder\n"
        b"acl-inherit-fragment=f\nacl-case-insensitive\nacl-permit-user=joe\n"
        b"acl-deny-group=staff\ncontent\n"
    )


def test_an_empty_acl_is_still_one() -> None:
    assert encode(retriever, PLAN, acl=Acl(), content=Content(b"")) == b"id=a\nacl\ncontent\n"


def test_principals_that_are_case_sensitive_are_said_to_be() -> None:
    acl = Acl(principals=(replace(JOE, case_sensitive=True, access=Access.DENY),))

    assert encode(retriever, PLAN, acl=acl, content=Content(b"")) == (
        b"id=a\nacl\nacl-case-sensitive\nacl-deny-user=joe\ncontent\n"
    )


def test_a_namespace_is_said_where_it_changes() -> None:
    spaces = (None, "ns", "ns", "", None)
    acl = Acl(principals=tuple(replace(STAFF, namespace=space) for space in spaces))

    assert encode(retriever, PLAN, acl=acl, content=Content(b"")) == (
        b"id=a\nacl\nacl-permit-group=staff\nnamespace=ns\nacl-permit-group=staff\n"
        b"acl-permit-group=staff\nnamespace=\nacl-permit-group=staff\nnamespace=Default\n"
        b"acl-permit-group=staff\ncontent\n"
    )


@pytest.mark.parametrize(
    ("acl", "reason"),
    [
        (
            Acl(alone=True),
            "an ACL of a document that was sent before; expected one of this document",
        ),
        (
            Acl(inherit_fragment="f"),
            "the fragment 'f' of nothing; expected the document to inherit from",
        ),
        (
            Acl(principals=(JOE, replace(JOE, case_sensitive=True))),
            "principals of which only some are case sensitive; expected one rule for all",
        ),
        (
            Acl(principals=(replace(JOE, unqualified=True),)),
            "principal 'joe' of the type unqualified; expected another type",
        ),
        (Acl(principals=(replace(JOE, name=" "),)), "principal ' '; expected a name"),
    ],
)
def test_an_acl_that_no_commands_say_is_refused(acl: Acl, reason: str) -> None:
    assert refusal(retriever, PLAN, acl=acl) == ("bad-acl", reason)


def test_a_document_that_is_gone_is_not_found() -> None:
    assert encode(retriever, GONE, crawl=Crawl(lock=True)) == b"id=a\nnot-found\n"


def test_a_document_without_content_is_refused() -> None:
    assert refusal(retriever, PLAN, content=None) == (
        "no-content",
        "a document without content; expected its content",
    )


def test_a_retriever_gives_no_updates() -> None:
    assert refusal(retriever, PLAN, action=Action.UPDATE) == (
        "bad-action",
        "action UPDATE; expected ADD or DELETE",
    )


def test_metadata_that_is_no_text_is_refused() -> None:
    assert refusal(retriever, PLAN, metadata=(Meta("author", "", b"\xff"),)) == (
        "bad-metadata",
        "a value of 'author' that is not text; expected text",
    )


def test_an_anchor_that_java_does_not_take_is_refused() -> None:
    assert refusal(retriever, PLAN, crawl=Crawl(anchors=(Anchor("a b", ""),))) == (
        "bad-url",
        "anchor-uri='a b'; expected a well-formed URL",
    )


def test_a_command_of_a_retriever_is_no_extra() -> None:
    assert refusal(retriever, PLAN, extras=(Extra("stream/not-found", ""),)) == (
        "bad-extra",
        "an extra at 'stream/not-found'; expected a command that no parser knows",
    )


def test_a_delimiter_in_content_is_content() -> None:
    encoder = RetrieverEncoder(WriteOptions(delimiter=","))

    assert encode(encoder, PLAN, content=Content(b"a,b,")) == b"id=a,content,a,b,"


@pytest.mark.parametrize("status", ["PERMIT", "DENY", "INDETERMINATE"])
def test_an_answer_stands_behind_its_id(status: str) -> None:
    extras = (Extra("stream/authz-status", status),)

    assert encode(authorizer, ANSWER, extras=extras) == (
        b"id=a\nauthz-status=" + status.encode() + b"\n"
    )


def test_an_answer_that_is_missing_is_not_written() -> None:
    assert encode(authorizer, ANSWER) == b"id=a\n"


def test_a_question_names_the_user_and_groups_before_the_id() -> None:
    record = asked("a", "joe", "staff", "eng")

    assert encode(authorizer, record) == b"username=joe\ngroup=staff\ngroup=eng\nid=a\n"


def test_a_user_is_named_once_for_all_ids_that_are_asked_for_it() -> None:
    questions = (asked("a", "joe", "eng"), asked("b", "joe", "eng"), asked("c", "sue"))

    assert framed(authorizer, *questions) == (
        b"username=joe\ngroup=eng\nid=a\nid=b\nusername=sue\nid=c\n"
    )


def test_an_id_of_the_same_user_in_other_groups_names_both() -> None:
    assert framed(authorizer, asked("a", "joe", "eng"), asked("b", "joe")) == (
        b"username=joe\ngroup=eng\nid=a\nusername=joe\nid=b\n"
    )


@pytest.mark.parametrize(
    ("extras", "reason"),
    [
        (
            (Extra("stream/username", "joe"), Extra("stream/username", "sue")),
            "2 usernames and 0 answers for one url; expected at most one of each",
        ),
        (
            (Extra("stream/authz-status", "DENY"), Extra("stream/authz-status", "PERMIT")),
            "0 usernames and 2 answers for one url; expected at most one of each",
        ),
        ((Extra("stream/group", "eng"),), "a group without a username; expected both"),
        (
            (Extra("stream/authz-status", "permit"),),
            "authz-status='permit'; expected one of PERMIT, DENY, INDETERMINATE",
        ),
    ],
)
def test_an_answer_that_nobody_gives_is_refused(extras: tuple[Extra, ...], reason: str) -> None:
    assert refusal(authorizer, ANSWER, extras=extras) == ("bad-extra", reason)


def test_an_authorizer_has_no_documents() -> None:
    assert refusal(authorizer, PLAN) == ("bad-action", "action ADD; expected UPDATE")


def test_a_request_is_in_the_order_that_is_prescribed() -> None:
    assert request(username="joe", password="s3", groups=("a", "b"), ids=("1", "2")) == (
        b"GSA Adaptor Data Version 1 [\0]\0"
        b"username=joe\0password=s3\0group=a\0group=b\0id=1\0id=2\0"
    )


def test_a_request_without_a_password_has_none() -> None:
    assert request(username="joe", password=None, groups=(), ids=("1",), delimiter="\n") == (
        b"GSA Adaptor Data Version 1 [\n]\nusername=joe\nid=1\n"
    )


def test_a_request_is_in_plain_utf_8() -> None:
    assert request(username="\u00e9\n", password=None, groups=(), ids=("1",)) == (
        b"GSA Adaptor Data Version 1 [\0]\0username=\xc3\xa9\n\0id=1\0"
    )


def test_a_password_that_holds_the_delimiter_is_refused_and_not_shown() -> None:
    with pytest.raises(RecordError) as caught:
        request(username="joe", password="s\0e", groups=(), ids=("1",))

    assert str(caught.value) == (
        "the value of password holds the delimiter '\\x00' or ends with a part of it;"
        " expected a delimiter that no value holds, such as --delimiter '\\0'"
    )


def test_a_request_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(RecordError) as caught:
        request(username="joe", password="\ud800", groups=(), ids=("1",))

    assert str(caught.value) == "a lone surrogate U+D800; expected Unicode text"
