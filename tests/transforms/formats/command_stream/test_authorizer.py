"""Answers and questions of authorizers: each rule, strictly and with repairs."""

import pytest

from feedferry.schemas.record import Action, Extra, Provenance, Record
from feedferry.transforms.formats.command_stream import authorizer
from feedferry.transforms.formats.command_stream.authorizer import MAX_GROUPS
from support.command_streams import MODES, NOT_UTF8, StreamUnderTest

stream = StreamUnderTest(authorizer.read)


def values(body: bytes, is_strict: bool = False) -> list[tuple[str, list[str]]]:
    """The URL of each record, with the values of its extras."""
    records = stream.records(body, is_strict)
    return [(record.url, [extra.value for extra in record.extras]) for record in records]


@MODES
def test_an_answer_is_an_update_of_its_id(is_strict: bool) -> None:
    assert stream.read(b"", is_strict) == []
    assert stream.read(b"id=a\nauthz-status=PERMIT\n", is_strict) == [
        Record(
            url="a",
            action=Action.UPDATE,
            extras=(Extra("stream/authz-status", "PERMIT"),),
            provenance=Provenance(source="a.txt", offset=31),
        )
    ]


@MODES
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        *(
            (body, [("a", [])])
            for body in (
                *(b"id=a", b"id=a\nauthz-status=permit", b"id=a\nauthz-status="),
                b"id=a\nauthz-status=DENY\nid=a",
            )
        ),
        (b"id=a\nauthz-status=DENY\nauthz-status=MAYBE", [("a", ["DENY"])]),
        (b"id=a\nauthz-status=DENY\nauthz-status=INDETERMINATE", [("a", ["INDETERMINATE"])]),
        (
            b"id=a\nauthz-status=DENY\nid=b\nid=a\nauthz-status=PERMIT",
            [("a", ["PERMIT"]), ("b", [])],
        ),
        (b"id=a\nauthz-status=PERMIT\nid=b\nid=a\n", [("a", []), ("b", [])]),
        (b"id-list\na\nb\n\nauthz-status=DENY", [("a", []), ("b", ["DENY"])]),
        (b"what\nid=a\nwhat=x\nauthz-status=DENY", [("a", ["DENY"])]),
        (b"id=a\nid-list=\nauthz-status=DENY", [("a", ["DENY"])]),
    ],
)
def test_commands_that_the_deployed_parser_accepts(
    is_strict: bool, body: bytes, expected: list[tuple[str, list[str]]]
) -> None:
    assert values(body, is_strict) == expected


NO_ID = "id without an argument; expected id=…"
NO_STATUS = "authz-status without an argument; expected authz-status=…"


@pytest.mark.parametrize(
    ("body", "offset", "reason"),
    [
        (b"id", 31, NO_ID),
        (b"id\nid=a", 31, NO_ID),
        (b"authz-status=DENY", 31, "authz-status; expected id or id-list before it"),
        (b"id=a\nauthz-status", 36, NO_STATUS),
        (b"id=a\nlock", 36, "lock; expected id or authz-status"),
        (b"id=a\ncontent\n", 36, "content; expected id or authz-status"),
        (b"id=\xff", 31, NOT_UTF8),
        (b"what=\xff", 31, NOT_UTF8),
    ],
)
def test_commands_that_the_deployed_parser_throws_at(body: bytes, offset: int, reason: str) -> None:
    assert stream.refusal(body) == f"a.txt (byte {offset}): {reason}"


@pytest.mark.parametrize(
    ("bad", "code", "reason"),
    [
        (b"lock=x", "bad-command", "lock; expected id or authz-status"),
        (b"authz-status", "no-argument", NO_STATUS),
        (b"authz-status=\xff", "not-utf8", NOT_UTF8),
        (b"id", "no-argument", NO_ID),
        (b"id=\xff", "not-utf8", NOT_UTF8),
    ],
)
def test_a_command_that_cannot_be_read_is_rejected_alone(
    bad: bytes, code: str, reason: str
) -> None:
    body = b"id=a\nauthz-status=DENY\n" + bad + b"\nid=b\nauthz-status=PERMIT\n"
    assert values(body) == [("a", ["DENY"]), ("b", ["PERMIT"])]
    assert stream.rejects(body) == [(code, reason, bad)]


@pytest.mark.parametrize("bad", [b"id=\xff", b"id", b"id-list\n\xff\n"])
def test_the_answer_for_an_id_that_cannot_be_read_is_for_no_other_id(bad: bytes) -> None:
    body = b"id=a\nauthz-status=DENY\n" + bad + b"\nauthz-status=PERMIT\n"
    expected = [("authz-status", "authz-status of an id that was set aside; not taken")]
    assert (values(body), stream.notices(body)) == ([("a", ["DENY"])], expected)


@MODES
def test_two_users_may_ask_for_one_document(is_strict: bool) -> None:
    body = b"username=ann\ngroup=g\nid=a\nid=b\nuser=ben\nid=a\n"
    assert values(body, is_strict) == [("a", ["ann", "g"]), ("b", ["ann", "g"]), ("a", ["ben"])]
    first, second, _ = stream.records(body, is_strict)
    assert first.extras is second.extras  # the ids of a user share the user


@pytest.mark.parametrize("bad", [b"username=\xff", b"user=\xff", b"group=\xff"])
def test_the_ids_of_a_user_that_cannot_be_read_are_rejected(bad: bytes) -> None:
    body = b"username=ann\nid=a\n" + bad + b"\nid=b\nid=c\nusername=ben\nid=d\n"
    reason = f"{NOT_UTF8}, where a user or group is named"
    expected = [("not-utf8", reason, b"id=b"), ("not-utf8", reason, b"id=c")]
    assert [url for url, _ in values(body)] == ["a", "d"]
    assert stream.rejects(body) == expected


@pytest.mark.parametrize("token", [b"password=secret", b"password=secret\xff", b"password"])
def test_a_password_is_never_kept(token: bytes) -> None:
    assert stream.read(token + b"\nid=a\n")[:-1] == []


def test_a_user_with_too_many_groups_costs_its_ids() -> None:
    groups = b"".join(b"group=%d\n" % number for number in range(MAX_GROUPS))
    (record,) = stream.records(b"username=u\n" + groups + b"id=a\n")
    assert len(record.extras) == 1 + MAX_GROUPS
    body = b"username=u\n" + groups + b"group=x\nid=a\nusername=v\nid=b\n"
    reason = "more than 10000 groups of a user; expected fewer"
    assert stream.rejects(body) == [("too-many-groups", reason, b"id=a")]


def test_a_group_after_an_id_of_its_user_costs_the_ids_that_follow() -> None:
    body = b"username=u\ngroup=g\nid=a\ngroup=h\nid=b\nusername=v\ngroup=h\nid=c\n"
    reason = "a group after an id of its user; expected all groups of a user before its ids"
    assert values(body) == [("a", ["u", "g"]), ("c", ["v", "h"])]
    assert stream.rejects(body) == [("late-group", reason, b"id=b")]
