"""Answers and questions of authorizers: each rule, strictly and with repairs."""

import io
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.errors import FormatError, UnavailableError
from schemas.notice import Notice
from schemas.record import Action, Extra, Provenance, Record
from schemas.reject import Reject
from schemas.span import Span
from support.streams import read_both_ways
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream import authorizer
from transforms.formats.command_stream.authorizer import MAX_GROUPS

HEADER = b"GSA Adaptor Data Version 1 [\n]\n"
MODES = pytest.mark.parametrize("mode", [Mode.STRICT, Mode.LENIENT])
NOT_UTF8 = "the bytes b'\\xff' in a token; expected UTF-8, with C0 80 and C0 8A besides"


def read(body: bytes, mode: Mode = Mode.LENIENT, header: bytes = HEADER) -> list[Any]:
    options = ReadOptions(mode=mode)
    read = partial(authorizer.read, span=Span(source="said"), options=options)
    return read_both_ways(read, header + body)


def records(body: bytes, mode: Mode = Mode.LENIENT) -> list[Record]:
    found = [one for one in read(body, mode) if isinstance(one, Record)]
    return [replace(one, provenance=Provenance()) for one in found]


def statuses(body: bytes, mode: Mode = Mode.LENIENT) -> list[tuple[str, list[str]]]:
    return [(one.url, [extra.value for extra in one.extras]) for one in records(body, mode)]


def notices(body: bytes, mode: Mode = Mode.LENIENT) -> list[tuple[str, str]]:
    return [(one.code, one.detail) for one in read(body, mode) if isinstance(one, Notice)]


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
def test_nothing_is_no_answer(mode: Mode) -> None:
    assert read(b"", mode) == []


@MODES
def test_an_answer_is_an_update_of_its_id(mode: Mode) -> None:
    assert read(b"id=a\nauthz-status=PERMIT\n", mode) == [
        Record(
            url="a",
            action=Action.UPDATE,
            extras=(Extra("stream/authz-status", "PERMIT"),),
            provenance=Provenance(source="said", offset=31),
        )
    ]


@MODES
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"id=a", [("a", [])]),
        (b"id=a\nauthz-status=permit", [("a", [])]),
        (b"id=a\nauthz-status=", [("a", [])]),
        (b"id=a\nauthz-status=DENY\nauthz-status=MAYBE", [("a", ["DENY"])]),
        (b"id=a\nauthz-status=DENY\nauthz-status=INDETERMINATE", [("a", ["INDETERMINATE"])]),
        (
            b"id=a\nauthz-status=DENY\nid=b\nid=a\nauthz-status=PERMIT",
            [("a", ["PERMIT"]), ("b", [])],
        ),
        (b"id=a\nauthz-status=DENY\nid=a", [("a", [])]),
        (b"id-list\na\nb\n\nauthz-status=DENY", [("a", []), ("b", ["DENY"])]),
        (b"what\nid=a\nwhat=x\nauthz-status=DENY", [("a", ["DENY"])]),
        (b"id=a\nid-list=\nauthz-status=DENY", [("a", ["DENY"])]),
    ],
)
def test_what_the_deployed_parser_takes(
    mode: Mode, body: bytes, expected: list[tuple[str, list[str]]]
) -> None:
    assert statuses(body, mode) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"id", "said (byte 31): id without an argument; expected id=…"),
        (
            b"id\nid=a\nid\nauthz-status=DENY",
            "said (byte 39): id without an argument; expected id=…",
        ),
        (
            b"id\nauthz-status",
            "said (byte 34): authz-status without an argument; expected authz-status=…",
        ),
        (b"authz-status=DENY", "said (byte 31): authz-status; expected id or id-list before it"),
        (
            b"id=a\nauthz-status",
            "said (byte 36): authz-status without an argument; expected authz-status=…",
        ),
        (b"id=a\nlock", "said (byte 36): lock; expected id or authz-status"),
        (b"id=a\ncontent\n", "said (byte 36): content; expected id or authz-status"),
        (b"id=\xff", f"said (byte 31): {NOT_UTF8}"),
        (b"what=\xff", f"said (byte 31): {NOT_UTF8}"),
    ],
)
def test_what_the_deployed_parser_throws_at(body: bytes, reason: str) -> None:
    assert refusal(body) == reason


@MODES
@pytest.mark.parametrize("nameless", [b"id", b"id\nid", b"id\nauthz-status=PERMIT"])
def test_an_id_without_an_argument_before_another_is_left_out(mode: Mode, nameless: bytes) -> None:
    body = b"id=a\nauthz-status=DENY\n" + nameless + b"\nid=b\n"
    assert statuses(body, mode) == [("a", ["DENY"]), ("b", [])]


def test_an_id_without_an_argument_that_the_deployed_parser_passes_is_noticed() -> None:
    expected = [("no-argument", "id without an argument; set aside")]
    assert notices(b"id\nid=a", Mode.STRICT) == expected


@MODES
def test_a_repository_that_is_unavailable_answers_nothing(mode: Mode) -> None:
    with pytest.raises(UnavailableError) as caught:
        read(b"id=a\nrepository-unavailable", mode)
    assert str(caught.value) == "said (byte 36): repository-unavailable: 'no reason given'"


@MODES
@pytest.mark.parametrize("status", ["permit", "MAYBE", ""])
def test_an_unknown_status_is_noticed(mode: Mode, status: str) -> None:
    detail = f"authz-status={status!r}, none of PERMIT, DENY, INDETERMINATE; not taken"
    assert notices(f"id=a\nauthz-status={status}".encode(), mode) == [("authz-status", detail)]


@MODES
def test_an_unknown_command_is_noticed_by_its_name(mode: Mode) -> None:
    detail = "'what', a command that nobody knows; skipped"
    assert notices(b"what=x\nid=a", mode) == [("unknown-command what", detail)]


@pytest.mark.parametrize(
    ("bad", "code", "reason"),
    [
        (b"lock=x", "bad-command", "lock; expected id or authz-status"),
        (
            b"authz-status",
            "no-argument",
            "authz-status without an argument; expected authz-status=…",
        ),
        (b"authz-status=\xff", "not-utf8", NOT_UTF8),
        (b"id", "no-argument", "id without an argument; expected id=…"),
        (b"id=\xff", "not-utf8", NOT_UTF8),
    ],
)
def test_what_cannot_be_read_is_set_aside(bad: bytes, code: str, reason: str) -> None:
    body = b"id=a\nauthz-status=DENY\n" + bad + b"\nid=b\nauthz-status=PERMIT\n"
    expected = ([("a", ["DENY"]), ("b", ["PERMIT"])], [(code, reason, bad)])
    assert (statuses(body), rejects(body)) == expected


@pytest.mark.parametrize("bad", [b"id=\xff", b"id", b"id-list\n\xff\n"])
def test_the_answer_for_an_id_that_cannot_be_read_is_for_no_other(bad: bytes) -> None:
    body = b"id=a\nauthz-status=DENY\n" + bad + b"\nauthz-status=PERMIT\n"
    expected = [("authz-status", "authz-status of an id that was set aside; not taken")]
    assert (statuses(body), notices(body)) == ([("a", ["DENY"])], expected)


def test_an_answer_before_any_id_is_set_aside() -> None:
    body = b"authz-status=PERMIT\nid=a"
    reason = "authz-status; expected id or id-list before it"
    expected: tuple[Any, Any] = ([("a", [])], [("no-id", reason, b"authz-status=PERMIT")])
    assert (statuses(body), rejects(body)) == expected


ASKED = b"""user=tim_smith
password=abc123
group=managers
group=research
id=/repository/docs/file1
id=/repository/docs/file2
"""


@MODES
@pytest.mark.parametrize("body", [ASKED, ASKED.replace(b"user", b"username")])
def test_the_question_of_the_documentation_is_read(mode: Mode, body: bytes) -> None:
    asked = (
        Extra("stream/username", "tim_smith"),
        Extra("stream/group", "managers"),
        Extra("stream/group", "research"),
    )
    assert records(body, mode) == [
        Record(url="/repository/docs/file1", action=Action.UPDATE, extras=asked),
        Record(url="/repository/docs/file2", action=Action.UPDATE, extras=asked),
    ]


@MODES
def test_a_question_is_read_without_a_word(mode: Mode) -> None:
    assert notices(ASKED, mode) == []


@MODES
def test_the_answer_of_the_documentation_is_read(mode: Mode) -> None:
    body = (
        b"id=/repository/docs/file1\nauthz-status=PERMIT\n"
        b"id=/repository/docs/file2\nauthz-status=DENY\n"
    )
    assert statuses(body, mode) == [
        ("/repository/docs/file1", ["PERMIT"]),
        ("/repository/docs/file2", ["DENY"]),
    ]


@MODES
def test_two_users_may_ask_for_one_document(mode: Mode) -> None:
    body = b"username=ann\ngroup=g\nid=a\nusername=ben\nid=a\n"
    assert statuses(body, mode) == [("a", ["ann", "g"]), ("a", ["ben"])]


@pytest.mark.parametrize("bad", [b"username=\xff", b"user=\xff", b"group=\xff"])
def test_what_nobody_can_say_who_asks_for_is_set_aside(bad: bytes) -> None:
    body = b"username=ann\nid=a\n" + bad + b"\nid=b\nid=c\nusername=ben\nid=d\n"
    reason = f"{NOT_UTF8}, where a user or group is named"
    expected = [("not-utf8", reason, b"id=b"), ("not-utf8", reason, b"id=c")]
    assert ([one.url for one in records(body)], rejects(body)) == (["a", "d"], expected)


@pytest.mark.parametrize("token", [b"password=secret", b"password=secret\xff", b"password"])
def test_a_password_is_never_kept(token: bytes) -> None:
    assert read(token + b"\nid=a\n")[:-1] == []


def test_a_carriage_return_at_the_end_of_lines_is_repaired() -> None:
    assert statuses(b"id=a\r\nauthz-status=DENY\r\n") == [("a", ["DENY"])]


def test_a_delimiter_that_overlaps_a_value_is_repaired() -> None:
    found = read(b"username=a***group=b***id=c", header=b"GSA Adaptor Data Version 1 [**]")
    record = found[-1]
    assert ([one.code for one in found[:-1]], [one.value for one in record.extras]) == (
        ["overlap", "overlap"],
        ["a*", "b*"],
    )


def test_an_authorizers_stream_is_not_cut() -> None:
    spans = list(authorizer.cut(io.BytesIO(HEADER), source="said", span_bytes=1))
    assert spans == [Span(source="said")]


def test_the_ids_of_a_user_share_what_is_known_of_the_user() -> None:
    first, second = records(b"username=u\ngroup=a\ngroup=b\nid=1\nid=2\n")
    assert first.extras is second.extras


def test_an_id_is_answered_anew_without_the_status_before() -> None:
    assert statuses(b"id=a\nauthz-status=PERMIT\nid=b\nid=a\n") == [("a", []), ("b", [])]


def test_a_user_with_too_many_groups_costs_its_ids() -> None:
    groups = b"".join(b"group=%d\n" % number for number in range(MAX_GROUPS + 1))
    found = rejects(b"username=u\n" + groups + b"id=a\nusername=v\nid=b\n")
    reason = "more than 10000 groups of a user; expected fewer"
    assert found == [("too-many-groups", reason, b"id=a")]


def test_a_user_with_as_many_groups_as_may_be_is_read() -> None:
    groups = b"".join(b"group=%d\n" % number for number in range(MAX_GROUPS))
    (record,) = records(b"username=u\n" + groups + b"id=a\n")
    assert len(record.extras) == 1 + MAX_GROUPS


@pytest.mark.slow
def test_groups_between_the_ids_of_a_user_are_refused_when_they_are_too_many() -> None:
    body = b"".join(b"group=%d\nid=%d\n" % (number, number) for number in range(5000))
    assert refusal(body).endswith(
        ": more than 10000000 groups of users; expected all groups of a user before its ids: "
        "split the stream by users"
    )
