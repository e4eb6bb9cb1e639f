"""Tokens as commands, with id-lists."""

import io

import pytest

from schemas.errors import UnavailableError
from schemas.span import Span
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.commands import (
    Command,
    CommandReader,
    UnknownCommandCodes,
    truncate_name,
)
from transforms.formats.command_stream.tokenizer import Tokenizer

STRICT = ReadOptions(mode=Mode.STRICT)


def commands(data: bytes, delimiter: bytes = b"\n", options: ReadOptions = STRICT) -> list[Command]:
    tokens = Tokenizer(io.BytesIO(data), Span(source="ids", offset=10), options)
    tokens.separate(delimiter)
    return list(CommandReader(tokens))


def stated(data: bytes) -> list[tuple[str, str | None]]:
    return [(command.name, command.argument) for command in commands(data)]


def test_a_command_has_a_name_an_argument_and_an_offset() -> None:
    assert commands(b"\n\nid=a\nlock") == [
        Command("id", "a", b"id=a", 12),
        Command("lock", None, b"lock", 17),
    ]


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        *((b"id=a=b", ("id", "a=b")), (b"id=", ("id", "")), (b"id", ("id", None))),
        *((b"=a", ("", "a")), (b" id=1", (" id", "1")), (b"ID=1", ("ID", "1"))),
        *((b"\r", ("\r", None)), (b"id=1\r", ("id", "1\r")), (b"id-list=", ("id-list", ""))),
        (b"id=\xc0\x80\xc0\x8a", ("id", "\0\n")),
        (b"repository-unavailable2=x", ("repository-unavailable2", "x")),
    ],
)
def test_a_token_is_split_once_and_not_trimmed(token: bytes, expected: tuple[str, str]) -> None:
    assert stated(token) == [expected]


@pytest.mark.parametrize(
    "token", [b"id=x", b"lock", b"id-list", b"repository-unavailable=x", b"=", b"\r"]
)
def test_in_a_list_every_token_is_an_id(token: bytes) -> None:
    ids = [("id", "a"), ("id", token.decode()), ("id", "b")]
    assert stated(b"id-list\na\n" + token + b"\nb\n\nlock") == [*ids, ("lock", None)]


@pytest.mark.parametrize(
    ("data", "ids"),
    [
        *((b"id-list\na\n\nid=b", ["a", "b"]), (b"id-list\na\n\n\n\nid=b", ["a", "b"])),
        *(
            (b"id-list\n\nid=q", ["q"]),
            (b"id-list", []),
            (b"id-list\n", []),
            (b"id-list\na", ["a"]),
        ),
        (b"id-list\na\n\nid-list\nb\n\nid=c", ["a", "b", "c"]),
    ],
)
def test_an_empty_token_or_the_end_ends_a_list(data: bytes, ids: list[str]) -> None:
    assert [argument for _, argument in stated(data)] == ids


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"repository-unavailable=down=up", "'down=up'"),
        (b"repository-unavailable=", "'no reason given'"),
        (b"repository-unavailable", "'no reason given'"),
        (b"repository-unavailable=\xff", "'\ufffd'"),
        (b"repository-unavailable=" + b"x" * 300, f"'{'x' * 200}'"),
    ],
)
def test_an_unavailable_repository_ends_the_stream(token: bytes, reason: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        commands(b"id=a\n" + token)
    assert str(caught.value) == f"ids (byte 15): repository-unavailable: {reason}"


@pytest.mark.parametrize(
    ("data", "name"), [(b"id=\xff", "id"), (b"lock\xff", "lock\ufffd"), (b"id-list\n\xff", "id")]
)
def test_a_token_that_cannot_be_decoded_has_an_error(data: bytes, name: str) -> None:
    (command,) = commands(data)
    assert (command.name, command.argument, str(command.error)) == (
        name,
        None,
        "the bytes b'\\xff' in a token; expected UTF-8, with C0 80 and C0 8A besides",
    )


def test_a_token_whose_end_is_repaired_says_so() -> None:
    found = commands(b"id=a***id=b**", b"**", ReadOptions())
    assert [(one.argument, one.is_repaired) for one in found] == [("a*", True), ("b", False)]


def test_unknown_commands_have_a_code_for_each_of_a_hundred_short_names() -> None:
    codes = UnknownCommandCodes()
    found = [codes.code(f"x{number}") for number in (*range(101), 99)]
    assert (found[0], *found[-3:]) == (
        "unknown-command x0",
        "unknown-command x99",
        "unknown-command",
        "unknown-command x99",
    )
    assert truncate_name("x" * 100) == "x" * 40
