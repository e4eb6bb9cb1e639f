"""Documents of retrievers: each rule of the deployed parser, strictly and with repairs."""

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.record import Action, Anchor, Arrival, Content, Crawl, Extra, Meta, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.transforms.formats.command_stream import stream_documents as documents
from support.command_streams import MODES, NOT_UTF8, StreamUnderTest

A = Record(url="a", action=Action.ADD, arrival=Arrival.PUSHED, content=Content(b"x"))
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.DENY)

stream = StreamUnderTest(documents.read)


def document(commands: bytes, is_strict: bool = False) -> Record:
    """The record of `a` with some commands and the content `x`."""
    return stream.record(b"id=a\n" + commands + b"\ncontent\nx", is_strict)


def acl(commands: bytes, is_strict: bool = False) -> Acl | None:
    return document(b"acl\n" + commands, is_strict).acl


N_V = {"metadata": (Meta("n", "v"),)}


@MODES
@pytest.mark.parametrize(
    ("commands", "stated"),
    [
        (b"", {}),
        (b"mime-type=", {"mimetype": ""}),
        (b"mime-type=Text/x; a=b", {"mimetype": "Text/x; a=b"}),
        (b"mime-type", {}),
        (b"meta-name=n\nmeta-value=v=w", {"metadata": (Meta("n", "v=w"),)}),
        (b"meta-name=\nmeta-value=", {"metadata": (Meta("", ""),)}),
        (
            b"meta-name=n\nmeta-value=v\nmeta-name=n\nmeta-value=u",
            {"metadata": (Meta("n", "v"), Meta("n", "u"))},
        ),
        (b"meta-name=n\n\nmeta-value=v", N_V),
        (b"meta-name=n\nwhat\nmeta-value=v", N_V | {"extras": (Extra("stream/what", ""),)}),
        (b"param-name=n\nparam-value=v", {"extras": (Extra("stream/param/n", "v"),)}),
        (b"param-name=n\nparam-value", {"extras": (Extra("stream/param/n", ""),)}),
        (b"display-url=", {"crawl": Crawl(display_url="")}),
        (
            b"display-url=x\ndisplay-url=http://e.com/",
            {"crawl": Crawl(display_url="http://e.com/")},
        ),
        *(
            (
                f"anchor-uri=x\nanchor-text{argument}".encode(),
                {"crawl": Crawl(anchors=(Anchor("x", text),))},
            )
            for argument, text in (("=y", "y"), ("=", ""), ("", None))
        ),
        (b"acl", {"acl": Acl()}),
        (b"acl-permit-user=joe\nacl", {"acl": Acl(principals=(JOE,))}),
        (b"acl-permit-user=joe", {}),
    ],
)
def test_commands_that_the_deployed_parser_accepts(
    is_strict: bool, commands: bytes, stated: dict[str, object]
) -> None:
    assert document(commands, is_strict) == replace(A, **stated)


@pytest.mark.parametrize(
    ("name", "argument", "strict", "lenient", "is_repaired"),
    [
        *(("lock", text, True, True, False) for text in ("=true", "=True")),
        *(("lock", text, False, False, False) for text in ("=false", "=FALSE", "=0", "=no")),
        *(("lock", text, False, True, True) for text in ("=yes", "=1", "=true ", "")),
        *(("lock", text, False, False, True) for text in ("=", "=x")),
        *(("secure", text, False, True, True) for text in ("=x", "=", "")),
        ("secure", "=no", False, False, False),
    ],
)
def test_a_flag_is_true_strictly_only_if_it_says_so(
    name: str, argument: str, strict: bool, lenient: bool, is_repaired: bool
) -> None:
    command = f"{name}{argument}"
    shown = f"{name}={argument[1:]!r}" if argument else name
    detail = f"{shown}, neither true nor false; read as {str(lenient).lower()}"
    body = f"id=a\n{command}\n".encode()
    assert stream.record(body, True).crawl == replace(Crawl(), **{name: strict})
    assert stream.record(body).crawl == replace(Crawl(), **{name: lenient})
    assert stream.notices(body) == ([("flag", detail)] if is_repaired else [])


def permitted(*principals: Principal) -> Acl:
    return Acl(principals=principals)


NO_SPACE, SPACE_N = replace(JOE, namespace=""), replace(STAFF, namespace="n")
FROM_P = Acl(inherit_from="p")


@MODES
@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (b"acl-permit-user= joe\t\nacl-deny-group=staff", permitted(JOE, STAFF)),
        (b"acl-deny-group=staff\nacl-permit-user=joe", permitted(STAFF, JOE)),
        (b"acl-permit-user=joe\nnamespace=n\nacl-deny-group=staff", permitted(JOE, SPACE_N)),
        (b"namespace=\nacl-permit-user=joe", permitted(NO_SPACE)),
        (b"acl-permit-user=joe\nnamespace", permitted(JOE)),
        (b"namespace\nnamespace=\nacl-permit-user=joe", permitted(NO_SPACE)),
        (b"acl-permit-user=joe\nnamespace=\nacl-permit-user=joe", permitted(JOE, NO_SPACE)),
        (b"acl-inherit-from=p", FROM_P),
        (b"acl-inherit-from=", Acl(inherit_from="")),
        (b"acl-inherit-from=p\nacl-inherit-fragment=f", replace(FROM_P, inherit_fragment="f")),
        (b"acl-inherit-from=p\nacl-inherit-fragment=f\nacl-inherit-from=q", Acl(inherit_from="q")),
        *(
            (b"acl-inheritance-type=" + name, Acl(inheritance=inheritance))
            for name, inheritance in (
                (b"and-both-permit", Inheritance.AND_BOTH_PERMIT),
                (b"child-overrides", Inheritance.CHILD_OVERRIDES),
                (b"leaf-node", Inheritance.LEAF_NODE),
                (b"parent-overrides", Inheritance.PARENT_OVERRIDES),
            )
        ),
        (
            b"acl-permit-user=joe\nacl-case-insensitive=false",
            permitted(replace(JOE, case_sensitive=False)),
        ),
        (
            b"acl-case-insensitive\nacl-case-sensitive\nacl-permit-user=joe",
            permitted(replace(JOE, case_sensitive=True)),
        ),
    ],
)
def test_acl_commands_that_the_deployed_parser_accepts(
    is_strict: bool, commands: bytes, expected: Acl
) -> None:
    assert acl(commands, is_strict) == expected


@MODES
@pytest.mark.parametrize(
    ("end", "content"),
    [
        *((b"content", b""), (b"content\n", b""), (b"content=foo\nx", b"x")),
        (b"content\n\n\nx\n\n", b"\n\nx\n\n"),
        (
            b"content\nid=b\ncontent\nrepository-unavailable\n",
            b"id=b\ncontent\nrepository-unavailable\n",
        ),
        (b"content\n" + bytes(range(256)), bytes(range(256))),
        (b"content\n\xc0\x80\xc0\x8a\r\n", b"\xc0\x80\xc0\x8a\r\n"),
    ],
)
def test_all_bytes_after_the_content_command_are_content(
    is_strict: bool, end: bytes, content: bytes
) -> None:
    assert stream.record(b"id=a\n" + end, is_strict).content == Content(content)


@MODES
@pytest.mark.parametrize("code", ["up-to-date", "not-found"])
def test_a_document_that_is_not_sent_is_filtered(is_strict: bool, code: str) -> None:
    body = f"id=a\nmime-type=x\n{code}\nacl\nacl-permit-user=joe\n".encode()
    assert stream.read(body, is_strict) == [Filtered(code=code, url="a", action="ADD")]


def test_commands_of_a_lister_are_accepted_in_lenient_mode_except_a_deletion() -> None:
    expected = Crawl(display_url="x", crawl_immediately=True)
    assert document(b"result-link=x\ncrawl-immediately").crawl == expected
    body = b"id=a\ndelete\ncontent\nx"
    reason = "delete; expected a command of a retriever"
    assert stream.rejects(body) == [("bad-command", reason, body)]


@pytest.mark.parametrize("name", ["acl-deny-users", "ACL", "acl_permit_user"])
def test_an_unknown_command_that_may_be_of_an_acl_spoils_the_document(name: str) -> None:
    body = f"id=a\nacl\nacl-permit-user=anna\n{name}=tim\ncontent\nx".encode()
    reason = f"unknown ACL command {name}; expected acl or a known acl-… command"
    assert stream.rejects(body) == [("bad-acl", reason, body)]
    assert stream.records(body) == []


def no_argument(name: str) -> tuple[str, str]:
    return "no-argument", f"{name} without an argument; expected {name}=…"


TYPES = "and-both-permit, child-overrides, leaf-node, parent-overrides"
REFUSED = [
    (b"id", *no_argument("id")),
    (b"id=\xff", "not-utf8", NOT_UTF8),
    (b"id=a\nwhat=\xff", "not-utf8", NOT_UTF8),
    (b"id=a\nmeta-name", *no_argument("meta-name")),
    (b"id=a\nmeta-name=n", "bad-pair", "content after meta-name; expected meta-value"),
    (b"id=a\nmeta-name=n\nlock=true", "bad-pair", "lock after meta-name; expected meta-value"),
    (b"id=a\nmeta-value=v", "bad-pair", "meta-value by itself; expected meta-name before it"),
    (b"id=a\nmeta-name=n\nmeta-value", *no_argument("meta-value")),
    (
        b"id=a\nparam-name=n\nmeta-value=v",
        "bad-pair",
        "meta-value after param-name; expected param-value",
    ),
    (b"id=a\nparam-value=v", "bad-pair", "param-value by itself; expected param-name before it"),
    (b"id=a\nanchor-text=v", "bad-pair", "anchor-text by itself; expected anchor-uri before it"),
    (b"id=a\nanchor-uri=v", "bad-pair", "content after anchor-uri; expected anchor-text"),
    (b"id=a\nlast-modified=", "bad-date", "last-modified=''; expected seconds since 1970"),
    (b"id=a\ndisplay-url", *no_argument("display-url")),
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
    (b"id=a\nacl-inherit-from", *no_argument("acl-inherit-from")),
    *(
        (
            b"id=a\nacl-inheritance-type" + argument.encode(),
            "bad-acl",
            f"acl-inheritance-type={argument[1:] or None!r}; expected one of {TYPES}",
        )
        for argument in ("=LEAF_NODE", "")
    ),
    *(
        (
            f"id=a\n{first}\n{second}".encode(),
            "after-response",
            f"{second.partition('=')[0] or 'content'} after {first}; expected the end",
        )
        for first, second in (
            *(("up-to-date", "mime-type=x"), ("up-to-date", "not-found")),
            *(("not-found", "meta-name=n"), ("not-found", "")),
        )
    ),
]


@pytest.mark.parametrize(("body", "code", "reason"), REFUSED)
def test_an_error_ends_the_stream_strictly_and_else_costs_the_document(
    body: bytes, code: str, reason: str
) -> None:
    assert stream.refusal(body + b"\ncontent\nx").endswith(f"): {reason}")
    body += b"\ncontent\nx\n\xff"
    assert stream.rejects(body) == [(code, reason, body)]


@pytest.mark.parametrize(
    ("body", "offset", "reason"),
    [
        (b"", 31, "no document; expected an id after the header"),
        (b"what\n", 36, "no document; expected an id after the header"),
        (b"lock=true\nid=a", 31, "lock; expected id or id-list before it"),
        (b"content\nx", 31, "content; expected id or id-list before it"),
        (b"id=a\nid=b", 36, "a second id; expected one document in a stream"),
        (b"id-list\na\nb", 41, "a second id; expected one document in a stream"),
        *(
            (
                b"id=a\n" + command,
                36,
                f"{command.partition(b'=')[0].decode()}; expected a command of a retriever",
            )
            for command in (b"result-link=x", b"delete", b"crawl-immediately", b"authz-status=DENY")
        ),
        (b"id=a\nmeta-name=x", 36, "the end after meta-name; expected meta-value"),
    ],
)
def test_a_stream_that_the_deployed_parser_throws_at(body: bytes, offset: int, reason: str) -> None:
    assert stream.refusal(body) == f"a.txt (byte {offset}): {reason}"


def test_content_without_an_id_is_rejected() -> None:
    reason = "content; expected id or id-list before it"
    data = b"content\nid=a\nlock=true\n"
    assert stream.rejects(b"what\n" + data) == [("no-id", reason, data)]


@pytest.mark.parametrize(
    ("body", "rejects"),
    [
        (b"id=a\nrepository-unavailable", [("a", b"id=a\nrepository-unavailable")]),
        (b"repository-unavailable", [(None, b"\nrepository-unavailable")]),
        (b"\xbd\nrepository-unavailable\n", [(None, b"\xbd"), (None, b"repository-unavailable\n")]),
    ],
)
def test_an_unavailable_repository_costs_the_document(
    body: bytes, rejects: list[tuple[str | None, bytes]]
) -> None:
    results = [reject for reject in stream.read(body) if isinstance(reject, Reject)]
    assert [(item.url, item.data) for item in results] == rejects
    assert results[-1].code == "repository-unavailable"


@pytest.mark.slow
def test_many_metadata_pairs_are_compared_in_linear_time() -> None:
    commands = b"".join(b"meta-name=%d\nmeta-value=x\n" % number for number in range(50_000))
    assert len(document(commands[:-1], True).metadata) == 50_000
