"""Documents of retrievers: each rule of the deployed parser, strictly and with repairs."""

import io
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import FormatError, UnavailableError
from schemas.notice import Notice
from schemas.record import Action, Anchor, Arrival, Content, Crawl, Extra, Meta, Provenance, Record
from schemas.reject import Filtered, Reject
from schemas.span import Span
from support.streams import read_both_ways
from transforms.formats.base import Mode, NotFound, ReadOptions
from transforms.formats.command_stream import retriever

HEADER = b"GSA Adaptor Data Version 1 [\n]\n"
MODES = pytest.mark.parametrize("mode", [Mode.STRICT, Mode.LENIENT])
A = Record(url="a", action=Action.ADD, arrival=Arrival.PUSHED, content=Content(b"x"))
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.DENY)


def read(body: bytes, mode: Mode = Mode.LENIENT, not_found: NotFound = NotFound.SKIP) -> list[Any]:
    options = ReadOptions(mode=mode, not_found=not_found)
    read = partial(retriever.read, span=Span(source="said"), options=options)
    return read_both_ways(read, HEADER + body)


def record(body: bytes, mode: Mode = Mode.LENIENT) -> Record:
    (found,) = (one for one in read(body, mode) if isinstance(one, Record))
    return replace(found, provenance=Provenance())


def document(commands: bytes, mode: Mode = Mode.LENIENT) -> Record:
    """The record of `a` with some commands and the content `x`."""
    return record(b"id=a\n" + commands + b"\ncontent\nx", mode)


def acl(commands: bytes, mode: Mode = Mode.LENIENT) -> Acl | None:
    return document(b"acl\n" + commands, mode).acl


def notices(body: bytes, mode: Mode = Mode.LENIENT) -> list[tuple[str, str]]:
    return [(one.code, one.detail) for one in read(body, mode) if isinstance(one, Notice)]


def refusal(body: bytes, mode: Mode = Mode.STRICT) -> str:
    with pytest.raises(FormatError) as caught:
        read(body, mode)
    return str(caught.value)


def rejected(body: bytes) -> Reject:
    (found,) = (one for one in read(body) if isinstance(one, Reject))
    return found


@MODES
@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (b"", A),
        (b"mime-type=", replace(A, mimetype="")),
        (b"mime-type=Text/x; a=b", replace(A, mimetype="Text/x; a=b")),
        (b"mime-type", A),
        (b"meta-name=n\nmeta-value=v=w", replace(A, metadata=(Meta("n", "v=w"),))),
        (b"meta-name=\nmeta-value=", replace(A, metadata=(Meta("", ""),))),
        (
            b"meta-name=n\nmeta-value=v\nmeta-name=n\nmeta-value=u",
            replace(A, metadata=(Meta("n", "v"), Meta("n", "u"))),
        ),
        (b"meta-name=n\n\nmeta-value=v", replace(A, metadata=(Meta("n", "v"),))),
        (
            b"meta-name=n\nwhat\nmeta-value=v",
            replace(A, metadata=(Meta("n", "v"),), extras=(Extra("stream/what", ""),)),
        ),
        (b"param-name=n\nparam-value=v", replace(A, extras=(Extra("stream/param/n", "v"),))),
        (b"last-modified=-5", replace(A, modified=datetime(1969, 12, 31, 23, 59, 55, tzinfo=UTC))),
        (
            b"secure=true\nno-index=TRUE\nno-follow=false\nno-archive=true\ncrawl-once=false\nlock=true",
            replace(
                A,
                crawl=Crawl(
                    secure=True,
                    no_index=True,
                    no_follow=False,
                    no_archive=True,
                    crawl_once=False,
                    lock=True,
                ),
            ),
        ),
        (b"display-url=", replace(A, crawl=Crawl(display_url=""))),
        (
            b"display-url=x\ndisplay-url=http://e.com/",
            replace(A, crawl=Crawl(display_url="http://e.com/")),
        ),
        (b"anchor-uri=x\nanchor-text=y", replace(A, crawl=Crawl(anchors=(Anchor("x", "y"),)))),
        (b"anchor-uri=x\nanchor-text=", replace(A, crawl=Crawl(anchors=(Anchor("x", ""),)))),
        (b"anchor-uri=x\nanchor-text", replace(A, crawl=Crawl(anchors=(Anchor("x", None),)))),
        (b"param-name=n\nparam-value=", replace(A, extras=(Extra("stream/param/n", ""),))),
        (b"param-name=n\nparam-value", replace(A, extras=(Extra("stream/param=/n", ""),))),
        (b"acl", replace(A, acl=Acl())),
        (b"acl-permit-user=joe\nacl", replace(A, acl=Acl(principals=(JOE,)))),
        (b"acl-permit-user=joe", A),
    ],
)
def test_what_the_deployed_parser_takes(mode: Mode, commands: bytes, expected: Record) -> None:
    assert document(commands, mode) == expected


@MODES
@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (b"acl-permit-user= joe\t\nacl-deny-group=staff", Acl(principals=(JOE, STAFF))),
        (b"acl-deny-group=staff\nacl-permit-user=joe", Acl(principals=(STAFF, JOE))),
        (
            b"acl-permit-user=joe\nnamespace=n\nacl-deny-group=staff",
            Acl(principals=(JOE, replace(STAFF, namespace="n"))),
        ),
        (b"namespace=\nacl-permit-user=joe", Acl(principals=(replace(JOE, namespace=""),))),
        (b"acl-permit-user=joe\nnamespace", Acl(principals=(JOE,))),
        (
            b"namespace\nnamespace=\nacl-permit-user=joe",
            Acl(principals=(replace(JOE, namespace=""),)),
        ),
        (
            b"acl-permit-user=joe\nnamespace=\nacl-permit-user=joe",
            Acl(principals=(JOE, replace(JOE, namespace=""))),
        ),
        (b"acl-inherit-from=p", Acl(inherit_from="p")),
        (b"acl-inherit-from=", Acl(inherit_from="")),
        (
            b"acl-inherit-from=p\nacl-inherit-fragment=f",
            Acl(inherit_from="p", inherit_fragment="f"),
        ),
        (b"acl-inherit-from=p\nacl-inherit-fragment=f\nacl-inherit-from=q", Acl(inherit_from="q")),
        (b"acl-inheritance-type=and-both-permit", Acl(inheritance=Inheritance.AND_BOTH_PERMIT)),
        (b"acl-inheritance-type=child-overrides", Acl(inheritance=Inheritance.CHILD_OVERRIDES)),
        (b"acl-inheritance-type=leaf-node", Acl(inheritance=Inheritance.LEAF_NODE)),
        (b"acl-inheritance-type=parent-overrides", Acl(inheritance=Inheritance.PARENT_OVERRIDES)),
        (
            b"acl-permit-user=joe\nacl-case-insensitive=false",
            Acl(principals=(replace(JOE, case_sensitive=False),)),
        ),
        (
            b"acl-case-insensitive\nacl-case-sensitive\nacl-permit-user=joe",
            Acl(principals=(replace(JOE, case_sensitive=True),)),
        ),
    ],
)
def test_what_the_deployed_parser_makes_an_acl_of(
    mode: Mode, commands: bytes, expected: Acl
) -> None:
    assert acl(commands, mode) == expected


TWICE = b"acl-permit-user=d\\bob\nacl-permit-user=bob@d\nacl-permit-user=d/bob"


def names(found: Acl | None) -> list[str]:
    return [one.name for one in found.principals] if found else []


def test_strictly_a_principal_is_there_once_in_whatever_form() -> None:
    assert names(acl(TWICE, Mode.STRICT)) == ["d\\bob"]


def test_with_repairs_principals_are_kept_as_they_are() -> None:
    assert names(acl(TWICE)) == ["d\\bob", "bob@d", "d/bob"]


PAIRS = b"meta-name=n\nmeta-value=v\nmeta-name=n\nmeta-value=v"


def test_strictly_a_pair_is_there_once() -> None:
    assert document(PAIRS, Mode.STRICT).metadata == (Meta("n", "v"),)


def test_with_repairs_a_pair_is_there_as_often_as_it_is() -> None:
    assert document(PAIRS).metadata == (Meta("n", "v"), Meta("n", "v"))


@pytest.mark.parametrize("stated", [b"lock=yes", b"lock=1", b"lock", b"lock="])
def test_strictly_a_flag_that_is_not_true_is_false(stated: bytes) -> None:
    assert document(stated, Mode.STRICT).crawl == Crawl(lock=False)


@pytest.mark.parametrize("stated", [b"lock=yes", b"lock=1", b"lock"])
def test_a_flag_that_is_meant_is_repaired(stated: bytes) -> None:
    assert document(stated).crawl == Crawl(lock=True)


@MODES
@pytest.mark.parametrize(
    ("end", "content"),
    [
        (b"content", b""),
        (b"content\n", b""),
        (b"content=foo\nx", b"x"),
        (b"content\n\n\nx\n\n", b"\n\nx\n\n"),
        (
            b"content\nid=b\ncontent\nrepository-unavailable\n",
            b"id=b\ncontent\nrepository-unavailable\n",
        ),
        (b"content\n" + bytes(range(256)), bytes(range(256))),
        (b"content\n\xc0\x80\xc0\x8a\r\n", b"\xc0\x80\xc0\x8a\r\n"),
    ],
)
def test_content_is_all_that_follows(mode: Mode, end: bytes, content: bytes) -> None:
    assert record(b"id=a\n" + end, mode).content == Content(content)


@MODES
def test_an_id_may_stand_in_a_list(mode: Mode) -> None:
    assert record(b"id-list\na\n\ncontent\nx", mode) == A


@MODES
def test_a_document_may_have_no_content(mode: Mode) -> None:
    assert record(b"id=a\nmime-type=x", mode) == replace(A, content=None, mimetype="x")


@MODES
@pytest.mark.parametrize("code", ["up-to-date", "not-found"])
def test_what_is_not_sent_is_filtered(mode: Mode, code: str) -> None:
    body = f"id=a\nmime-type=x\n{code}\nacl\nacl-permit-user=joe\n".encode()
    assert read(body, mode) == [Filtered(code=code, url="a", action="ADD")]


@MODES
def test_what_is_not_found_is_deleted_if_that_is_asked_for(mode: Mode) -> None:
    found = read(b"id=a\nacl\nnot-found", mode, NotFound.DELETE)
    place = Provenance(source="said", offset=31)
    assert found == [Record(url="a", action=Action.DELETE, provenance=place)]


def test_strictly_an_acl_without_content_is_forgotten() -> None:
    assert record(b"id=a\nacl\nacl-permit-user=joe", Mode.STRICT).acl is None


def test_an_acl_without_content_is_kept() -> None:
    assert record(b"id=a\nacl\nacl-permit-user=joe").acl == Acl(principals=(JOE,))


@pytest.mark.parametrize(("mode", "made"), [(Mode.STRICT, "forgotten"), (Mode.LENIENT, "kept")])
def test_an_acl_without_content_is_noticed(mode: Mode, made: str) -> None:
    expected = [("acl-without-content", f"an ACL that no content follows; {made}")]
    assert notices(b"id=a\nacl\n", mode) == expected


@MODES
def test_an_acl_that_is_not_to_be_sent_is_noticed(mode: Mode) -> None:
    detail = "acl-… commands without acl; ignored, as it asks for that"
    assert notices(b"id=a\nacl-permit-user=joe\ncontent", mode) == [("acl-ignored", detail)]


def test_strictly_an_unknown_command_lets_a_pair_be_torn() -> None:
    body = b"id=a\nmeta-name=n\nmeta-content=v\nmeta-name=m\n"
    assert refusal(body) == "said (byte 63): meta-name behind meta-name; expected meta-value"


def test_meta_content_is_repaired() -> None:
    assert document(b"meta-name=n\nmeta-content=v").metadata == (Meta("n", "v"),)


def test_a_command_of_a_lister_is_taken() -> None:
    found = document(b"result-link=x\ncrawl-immediately")
    assert found.crawl == Crawl(display_url="x", crawl_immediately=True)


NOT_UTF8 = "the bytes b'\\xff' in a token; expected UTF-8, with C0 80 and C0 8A besides"
TYPES = "and-both-permit, child-overrides, leaf-node, parent-overrides"
REFUSED = [
    (b"id", "no-argument", "id without an argument; expected id=…"),
    (b"id=\xff", "not-utf8", NOT_UTF8),
    (b"id=a\nwhat=\xff", "not-utf8", NOT_UTF8),
    (b"id=a\nmeta-name", "no-argument", "meta-name without an argument; expected meta-name=…"),
    (b"id=a\nmeta-name=n", "bad-pair", "content behind meta-name; expected meta-value"),
    (b"id=a\nmeta-name=n\nlock=true", "bad-pair", "lock behind meta-name; expected meta-value"),
    (b"id=a\nmeta-value=v", "bad-pair", "meta-value by itself; expected meta-name before it"),
    (
        b"id=a\nmeta-name=n\nmeta-value",
        "no-argument",
        "meta-value without an argument; expected meta-value=…",
    ),
    (
        b"id=a\nparam-name=n\nmeta-value=v",
        "bad-pair",
        "meta-value behind param-name; expected param-value",
    ),
    (b"id=a\nparam-value=v", "bad-pair", "param-value by itself; expected param-name before it"),
    (b"id=a\nanchor-text=v", "bad-pair", "anchor-text by itself; expected anchor-uri before it"),
    (b"id=a\nanchor-uri=v", "bad-pair", "content behind anchor-uri; expected anchor-text"),
    (b"id=a\nlast-modified=", "bad-date", "last-modified=''; expected seconds since 1970"),
    (
        b"id=a\ndisplay-url",
        "no-argument",
        "display-url without an argument; expected display-url=…",
    ),
    (
        b"id=a\nnamespace\nacl-permit-user=joe",
        "no-argument",
        "acl-permit-user after namespace without an argument; expected namespace=…",
    ),
    (b"id=a\nacl-permit-user= ", "bad-acl", "acl-permit-user=' '; expected a name"),
    (b"id=a\nacl-deny-group=", "bad-acl", "acl-deny-group=''; expected a name"),
    (
        b"id=a\nacl-inherit-fragment=f",
        "bad-acl",
        "acl-inherit-fragment first; expected acl-inherit-from before it",
    ),
    (
        b"id=a\nacl-inherit-from",
        "no-argument",
        "acl-inherit-from without an argument; expected acl-inherit-from=…",
    ),
    (
        b"id=a\nacl-inheritance-type=LEAF_NODE",
        "bad-acl",
        f"acl-inheritance-type='LEAF_NODE'; expected one of {TYPES}",
    ),
    (
        b"id=a\nacl-inheritance-type",
        "bad-acl",
        f"acl-inheritance-type=None; expected one of {TYPES}",
    ),
    (
        b"id=a\nup-to-date\nmime-type=x",
        "after-response",
        "mime-type after up-to-date; expected the end",
    ),
    (
        b"id=a\nup-to-date\nnot-found",
        "after-response",
        "not-found after up-to-date; expected the end",
    ),
    (b"id=a\nnot-found", "after-response", "content after not-found; expected the end"),
    (
        b"id=a\nnot-found\nmeta-name=n",
        "after-response",
        "meta-name after not-found; expected the end",
    ),
]


@pytest.mark.parametrize(("body", "code", "reason"), REFUSED)
def test_what_the_deployed_parser_throws_at(body: bytes, code: str, reason: str) -> None:
    assert refusal(body + b"\ncontent\nx").endswith(f"): {reason}")


@pytest.mark.parametrize(("body", "code", "reason"), REFUSED)
def test_what_is_wrong_is_set_aside_with_the_content(body: bytes, code: str, reason: str) -> None:
    body += b"\ncontent\nx\n\xff"
    found = rejected(body)
    assert (found.code, found.reason, found.offset, found.length, found.data, found.truncated) == (
        code,
        reason,
        len(HEADER),
        len(body),
        body,
        False,
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "said (byte 31): no document; expected an id behind the header"),
        (b"what\n", "said (byte 36): no document; expected an id behind the header"),
        (b"lock=true\nid=a", "said (byte 31): lock; expected id or id-list before it"),
        (b"content\nx", "said (byte 31): content; expected id or id-list before it"),
        (b"id=a\nid=b", "said (byte 36): a second id; expected one document in a stream"),
        (b"id-list\na\nb", "said (byte 41): a second id; expected one document in a stream"),
        (b"id=a\nresult-link=x", "said (byte 36): result-link; expected a command of a retriever"),
        (b"id=a\ndelete", "said (byte 36): delete; expected a command of a retriever"),
        (
            b"id=a\ncrawl-immediately",
            "said (byte 36): crawl-immediately; expected a command of a retriever",
        ),
        (
            b"id=a\nauthz-status=DENY",
            "said (byte 36): authz-status; expected a command of a retriever",
        ),
        (b"id=a\nmeta-name=x", "said (byte 36): the end behind meta-name; expected meta-value"),
    ],
)
def test_a_stream_that_the_deployed_parser_throws_at(body: bytes, reason: str) -> None:
    assert refusal(body) == reason


@pytest.mark.parametrize("body", [b"", b"what\n"])
def test_a_stream_of_no_document_is_refused_with_repairs_too(body: bytes) -> None:
    assert "no document; expected an id behind the header" in refusal(body, Mode.LENIENT)


def test_content_of_nobody_is_set_aside() -> None:
    found = rejected(b"what\ncontent\nid=a\nlock=true\n")
    assert (found.code, found.data) == ("no-id", b"content\nid=a\nlock=true\n")


def test_each_document_of_a_stream_is_read_with_repairs() -> None:
    found = [one for one in read(b"id=a\nlock=x\nid=b\ncontent\n") if isinstance(one, Record)]
    assert [one.url for one in found] == ["a", "b"]


def test_strictly_a_repository_that_is_unavailable_is_an_error() -> None:
    with pytest.raises(UnavailableError) as caught:
        read(b"id=a\nrepository-unavailable=down", Mode.STRICT)
    assert str(caught.value) == "said (byte 36): repository-unavailable: 'down'"


@pytest.mark.parametrize(
    ("body", "url", "data"),
    [
        (b"id=a\nrepository-unavailable=x", "a", b"id=a\nrepository-unavailable=x"),
        (b"repository-unavailable", None, b"\nrepository-unavailable"),
    ],
)
def test_a_repository_that_is_unavailable_costs_the_document(
    body: bytes, url: str | None, data: bytes
) -> None:
    found = rejected(body)
    assert (found.code, found.url, found.data) == ("repository-unavailable", url, data)


def test_a_retrievers_stream_is_not_cut() -> None:
    spans = list(retriever.cut(io.BytesIO(HEADER), source="said", span_bytes=1))
    assert spans == [Span(source="said")]


def test_one_record_is_written() -> None:
    with pytest.raises(ValueError, match="too many values"):
        retriever.write([A, A], io.BytesIO())


def test_a_retriever_deletes_nothing_by_a_command_of_listers() -> None:
    (found,) = read(b"id=a\ndelete\ncontent\nx")

    assert isinstance(found, Reject)
    assert (found.code, found.reason) == (
        "bad-command",
        "delete; expected a command of a retriever",
    )


@pytest.mark.parametrize("name", ["acl-deny-users", "ACL", "acl_permit_user"])
def test_what_may_be_of_an_acl_and_is_not_known_spoils_the_document(name: str) -> None:
    body = f"id=a\nacl\nacl-permit-user=anna\n{name}=tim\ncontent\nx"

    (found,) = read(body.encode())

    assert isinstance(found, Reject)
    assert (found.code, found.reason) == (
        "bad-acl",
        f"unknown ACL command {name}; expected acl or a known acl-… command",
    )


@pytest.mark.slow
def test_many_pairs_of_metadata_are_told_apart_in_time() -> None:
    commands = b"".join(b"meta-name=%d\nmeta-value=x\n" % number for number in range(50_000))
    assert len(document(commands[:-1], Mode.STRICT).metadata) == 50_000


def test_a_refused_command_is_not_in_the_reject_of_an_unavailable_repository() -> None:
    found = [one for one in read(b"\xbd\nrepository-unavailable\n") if isinstance(one, Reject)]
    assert [(one.code, one.data, one.offset - len(HEADER)) for one in found] == [
        ("not-utf8", b"\xbd", 0),
        ("repository-unavailable", b"repository-unavailable\n", 2),
    ]
