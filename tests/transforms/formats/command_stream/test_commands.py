"""Headers, tokens and commands, byte by byte: those of the deployed parser, and repairs."""

import io
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.errors import FormatError, RecordError, UnavailableError
from feedferry.schemas.notice import Notice
from feedferry.schemas.span import Span
from feedferry.transforms.formats import StreamOptions, sniff
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.command_stream.syntax import (
    Command,
    CommandReader,
    decode,
    integer,
    read_header,
)
from feedferry.transforms.formats.command_stream.tokens import BLOCK_BYTES
from support.streams import opened as opened_stream
from support.streams import slow

STRICT = ReadOptions(own=(StreamOptions(strict=True),))
LENIENT = ReadOptions()
MODES = pytest.mark.parametrize("options", [STRICT, LENIENT], ids=["strict", "lenient"])
START = b"GSA Adaptor Data Version 1 "
HEADER = START + b"[\n]"
PLACE = Span(source="ids.txt", ordinal=3, offset=100)
DELIMITERS = ("aa", "ab", "aba", "aab", "aaa", "abab", "aabaa", "baab")


def opened(
    data: bytes, options: ReadOptions = LENIENT, span: Span = PLACE
) -> tuple[CommandReader, list[Notice]]:
    reader = CommandReader(opened_stream(data), span, options)
    return reader, list(read_header(reader))


def delimiter_of(data: bytes, options: ReadOptions) -> bytes:
    return opened(data, options)[0].delimiter


def reader_of(
    stream: IO[bytes], delimiter: bytes, options: ReadOptions = LENIENT, span: Span = Span()
) -> CommandReader:
    """A reader of a stream without a header."""
    reader = CommandReader(stream, span, options)
    reader.separate(delimiter)
    return reader


def separated(
    stream: IO[bytes], delimiter: bytes, options: ReadOptions = LENIENT
) -> list[tuple[int, bytes]]:
    """The tokens of a stream without header, each with its offset."""
    reader = reader_of(stream, delimiter, options)
    result = []
    offset = reader.offset
    while (token := reader.next_token()) is not None:
        result.append((offset, token))
        offset = reader.offset
    return result


def texts(data: bytes, delimiter: bytes, options: ReadOptions = LENIENT) -> list[bytes]:
    return [token for _, token in separated(io.BytesIO(data), delimiter, options)]


def commands(data: bytes, delimiter: bytes = b"\n", options: ReadOptions = STRICT) -> list[Command]:
    return list(reader_of(io.BytesIO(data), delimiter, options, Span(source="ids", offset=10)))


def stated(data: bytes) -> list[tuple[str, str | None]]:
    return [(command.name, command.argument) for command in commands(data)]


def refusal(data: bytes, options: ReadOptions = STRICT) -> str:
    with pytest.raises(FormatError) as caught:
        opened(data, options)
    return str(caught.value)


def deployed(data: bytes, delimiter: bytes) -> list[bytes]:
    """The tokens of the deployed parser, which reads single bytes and never goes back."""
    result, token, matched = [], b"", 0
    for byte in data:
        if byte == delimiter[matched]:
            matched += 1
        else:
            token += delimiter[:matched] + bytes([byte])
            matched = 0
        if matched == len(delimiter):
            result.append(token)
            token, matched = b"", 0
    last = token + delimiter[:matched]
    return [*result, last] if last else result


# Text and numbers


@pytest.mark.parametrize(
    ("token", "text"),
    [
        *((b"a=b", "a=b"), (b"\xc0\x80\xc0\x8a", "\0\n"), (b"caf\xc3\xa9\xc0\x8a", "caf\u00e9\n")),
        *((b"\xf0\x9f\x98\x80", "\U0001f600"), (b"\xef\xbb\xbf", "\ufeff")),
    ],
)
def test_text_is_utf8_with_two_forms_of_two_bytes(token: bytes, text: str) -> None:
    assert decode(token) == text


@pytest.mark.parametrize(
    ("token", "finding"),
    [
        *((b"a\xc0\x81b", b"\xc0\x81b"), (b"\xc0\xc0\x80", b"\xc0\x00"), (b"a\xc0", b"\xc0")),
        *((b"\xff", b"\xff"), (b"\xc1\x80", b"\xc1\x80"), (b"\xe2\x82", b"\xe2\x82")),
        (b"\xed\xa0\xbd\xed\xb8\x80", b"\xed\xa0\xbd\xed"),
        (b"\xf4\x90\x80\x80", b"\xf4\x90\x80\x80"),
    ],
)
def test_other_bytes_are_refused(token: bytes, finding: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        decode(token)
    expected = f"the bytes {finding!r} in a token; expected UTF-8, with C0 80 and C0 8A besides"
    assert (caught.value.code, caught.value.reason) == ("not-utf8", expected)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("+5", 5), ("-5", -5), ("0005", 5), ("-0", 0)),
        *(("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63))),
        *((text, None) for text in ("9223372036854775808", "-9223372036854775809", "1" * 5000)),
        *((text, None) for text in ("", "+", "-", "--1", "+-1", " 5", "5 ", "5\n", "1.5", "1e3")),
        *((text, None) for text in ("0x1", "1_0", "five", "\u00b2", "\u0665")),
    ],
)
def test_a_number_is_one_that_java_parses(text: str, number: int | None) -> None:
    assert integer(text, bits=64) == number


# The header


@MODES
@pytest.mark.parametrize(
    ("header", "delimiter"),
    [
        *(
            (f"GSA Adaptor Data Version{version}[\n]".encode(), b"\n")
            for version in (
                *(" 1 ", " 2 ", " 99 ", " +1 ", " -1 ", "\t1\t", " 1\n", "12 ", "123"),
                *(" 007 ", "\0\x011\x1f", " 2147483647 "),
            )
        ),
        *(
            (START + b"[" + stated + b"]", delimiter)
            for stated, delimiter in (
                *((b"\0", b"\0"), (b"\xc0\x80", b"\0"), (b"\xc0\x8a", b"\n")),
                *((b"~\xc0\x8a", b"~\n"), (b"\r\n", b"\r\n"), (b"~" * 100, b"~" * 100)),
                (b"\t,.~!#$%^&*(){}<>|;'\"?@\\`", b"\t,.~!#$%^&*(){}<>|;'\"?@\\`"),
                ("\u10d0\u00e9".encode(), b"\xe1\x83\x90\xc3\xa9"),
            )
        ),
        (START + b"[\n", b"\n"),
    ],
)
def test_any_number_is_a_version_and_any_other_character_delimits(
    header: bytes, delimiter: bytes, options: ReadOptions
) -> None:
    assert delimiter_of(header, options) == delimiter


@pytest.mark.parametrize("version", [" 1", "1 ", "12", "1"])
def test_a_short_version_is_refused_strictly(version: str) -> None:
    header = f"GSA Adaptor Data Version{version}[\n]".encode()
    assert refusal(header).endswith(f"version {version!r}; expected a number between spaces")
    assert delimiter_of(header, LENIENT) == b"\n"


@MODES
@pytest.mark.parametrize(
    ("header", "reason"),
    [
        *(
            (
                f"GSA Adaptor Data Version{version}[\n]".encode(),
                f"version {version!r}; expected a number between spaces",
            )
            for version in ("   ", " x ", " 1.0 ", " 1 2 ", "\u00a01 ", " 2147483648 ", "")
        ),
        *(
            (
                START + f"[~{char}~]".encode(),
                f"{char!r} in the delimiter '~{char}~'; expected neither a"
                " letter, a digit nor one of : / - _ space = + [ ]",
            )
            for char in "AZaz09:/-_ =+["
        ),
        *(
            (START + end, "an empty delimiter; expected one or more characters")
            for end in (b"[]", b"[]]", b"[", b"")
        ),
        (START + b"[" + b"~" * 5000 + b"]", "a delimiter of 5000 characters; expected at most 100"),
        (
            START + b"[\xff]",
            "the bytes b'\\xff' in a token; expected UTF-8, with C0 80 and C0 8A besides",
        ),
        *(
            (data, f"{finding}; expected 'GSA Adaptor Data Version' to begin with")
            for data, finding in (
                (b"", "''"),
                (b"GSA Adaptor", "'GSA Adaptor'"),
                (b"gsa adaptor data version 1 [\n]", "'gsa adaptor data version 1 '"),
                (b"\xff\xfe[", r"'\\xff\\xfe'"),
                (b"id=1\n" * 100, repr("id=1\n" * 8)),
            )
        ),
    ],
)
def test_another_header_is_refused(header: bytes, reason: str, options: ReadOptions) -> None:
    assert refusal(header, options) == f"ids.txt: header: {reason}"


def test_a_header_is_refused_before_all_of_a_big_file_is_read() -> None:
    stream = io.BytesIO(b"x" * (3 * BLOCK_BYTES))
    with pytest.raises(FormatError):
        list(read_header(CommandReader(stream, PLACE, STRICT)))
    assert stream.tell() == BLOCK_BYTES


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b" ", b"\n", b"-e ", b"\xef\xbb\xbf -e "])
def test_bytes_of_editors_and_shells_before_a_header_are_skipped_in_lenient_mode(
    before: bytes,
) -> None:
    detail = f"{before!r} before the header; skipped"
    notice = Notice(code="before-header", detail=detail, source="ids.txt")
    assert opened(before + HEADER, LENIENT, Span(source="ids.txt"))[1] == [notice]
    assert "; expected 'GSA Adaptor Data Version' to begin with" in refusal(before + HEADER)


# Line ends


@pytest.mark.parametrize(
    ("body", "options", "crlf"),
    [
        *((body, LENIENT, True) for body in (b"\r\nid=1\r\n", b"\nid=1\r\n", b"id=1\r\nid=2\n")),
        *((body, LENIENT, True) for body in (b"\n\n\r\n", b"\r\n")),
        *((body, LENIENT, False) for body in (b"\nid=1\nid=2\r\n", b"", b"id=1\r", b"\nid=a\rb\n")),
        (b"\r\nid=1\r\n", STRICT, False),
    ],
)
def test_in_lenient_mode_lines_end_as_the_first_one_does(
    body: bytes, options: ReadOptions, crlf: bool
) -> None:
    reader, notices = opened(HEADER + body, options)
    detail = "CR LF at the end of lines, LF in the header; a CR is taken off each"
    notice = Notice(code="crlf", detail=detail, source="ids.txt", span=3, offset=130)
    assert (reader.crlf, notices) == (crlf, [notice] if crlf else [])


# Tokens; `!` marks a repaired command


@pytest.mark.parametrize(
    ("data", "delimiter", "strict", "lenient"),
    [
        (b"id=1\r\r\nid=2\r\n", b"\r\n", [b"id=1\r\r\nid=2"], [b"id=1\r!", b"id=2"]),
        (b"id=a***id=b**", b"**", [b"id=a", b"*id=b"], [b"id=a*!", b"id=b"]),
        (b"b#~#~#id=c", b"#~#", [b"b", b"~#id=c"], [b"b#~!", b"id=c"]),
        (b"id=a****id=b", b"**", [b"id=a", b"id=b"], [b"id=a", b"id=b"]),
        (
            b"username=a***group=b",
            b"**",
            [b"username=a", b"*group=b"],
            [b"username=a*!", b"group=b"],
        ),
        (b"id=a***", b"**", [b"id=a", b"*"], [b"id=a*!"]),
        (b"id=a***what", b"**", [b"id=a", b"*what"], [b"id=a", b"*what"]),
    ],
)
def test_a_delimiter_that_overlaps_its_token_is_repaired_in_lenient_mode(
    data: bytes, delimiter: bytes, strict: list[bytes], lenient: list[bytes]
) -> None:
    tokens = commands(data, delimiter, LENIENT)
    assert [command.token for command in commands(data, delimiter)] == strict
    assert [item.token + b"!" * item.is_repaired for item in tokens] == lenient


@MODES
@pytest.mark.parametrize("body", [b"***", b"*", b"*id=b", b"****id=b"])
def test_all_bytes_after_the_content_command_are_content(body: bytes, options: ReadOptions) -> None:
    reader = reader_of(io.BytesIO(b"content**" + body), b"**", options)
    assert (reader.next_token(), b"".join(reader.remainder())) == (b"content", body)


@pytest.mark.parametrize("delimiter", DELIMITERS)
@given(data=st.text("ab", max_size=30), block_bytes=st.integers(1, 40))
def test_strictly_any_delimiter_is_found_where_the_deployed_parser_finds_it(
    delimiter: str, data: str, block_bytes: int
) -> None:
    tokens = separated(slow(data.encode(), block_bytes), delimiter.encode(), STRICT)
    assert [token for _, token in tokens] == deployed(data.encode(), delimiter.encode())


@MODES
@given(
    parts=st.lists(
        st.sampled_from(["id=", "lock", "**", "*", "#~", "\r", "a", "\n", "content"]), max_size=20
    ),
    delimiter=st.sampled_from([b"**", b"***", b"*", b"\n", b"\r\n", b"#~#", b"*\n*" * 20]),
    block_bytes=st.integers(1, 9),
)
def test_small_blocks_are_read_as_one(
    options: ReadOptions, parts: list[str], delimiter: bytes, block_bytes: int
) -> None:
    data = "".join(parts).encode() + delimiter + delimiter[:3] + b"id=x"
    tokens = separated(slow(data, block_bytes), delimiter, options)
    assert tokens == separated(io.BytesIO(data), delimiter, options)


@given(data=st.binary(max_size=40), block_bytes=st.integers(1, 9))
def test_a_token_begins_at_its_offset(data: bytes, block_bytes: int) -> None:
    tokens = separated(slow(data, block_bytes), b"\n", STRICT)
    assert [(at, data[at:][: len(token)]) for at, token in tokens] == tokens


# Limits


@MODES
@pytest.mark.parametrize("delimiter", [b"\n", b"\r\n"])
@pytest.mark.parametrize("block_bytes", [1, 7, 100])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_token_over_the_limit_is_an_error_at_its_offset(
    delimiter: bytes, block_bytes: int, is_last: bool, options: ReadOptions
) -> None:
    limited = ReadOptions(
        own=(StreamOptions(strict=options.of(StreamOptions).strict, max_token_bytes=8),)
    )
    data = b"12345678" + delimiter + b"123456789" + (b"" if is_last else delimiter)
    with pytest.raises(FormatError) as caught:
        separated(slow(data, block_bytes), delimiter, limited)
    assert str(caught.value) == (
        f" (byte {8 + len(delimiter)}): a token of more than 8 bytes; "
        f"expected the delimiter {delimiter!r} before; raise --max-token-bytes"
    )


# Commands


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
        *((b"id-list\n\nid=q", ["q"]), (b"id-list", []), (b"id-list\n", [])),
        (b"id-list\na", ["a"]),
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


@MODES
def test_an_unknown_command_has_a_code_for_each_of_a_hundred_short_names(
    options: ReadOptions,
) -> None:
    reader = reader_of(io.BytesIO(), b"\n", options)
    numbers = (*range(101), 99)
    codes = [reader.unknown_command(f"x{number}", "kept", 0).code for number in numbers]
    code = "unknown-command"
    assert (codes[0], *codes[-3:]) == (f"{code} x0", f"{code} x99", code, f"{code} x99")
    long = reader.unknown_command("x" * 100, "kept", 0)
    assert long.detail == f"{'x' * 40!r}, an unknown command; kept"


# The remainder, and captures


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 100])
def test_the_remainder_is_the_unread_part(block_bytes: int) -> None:
    reader = reader_of(slow(b"content\n\nid=1\n\0\n", block_bytes), b"\n")
    reader.next_token()
    remainder = b"".join(reader.remainder())
    assert (remainder, reader.offset, reader.next_token()) == (b"\nid=1\n\0\n", 16, None)


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 100])
def test_a_capture_is_kept_across_blocks(block_bytes: int) -> None:
    reader = reader_of(slow(b"a\nb\ncontent\nde\nf", block_bytes), b"\n")
    reader.next_token()
    reader.capture(2)
    before = [reader.next_token(), reader.next_token(), *reader.remainder()]
    assert (len(before) > 2, reader.captured(15)) == (True, b"b\ncontent\nde\n")
    reader.end_capture()
    assert reader.captured(15) == b""


# Recognition by the first bytes

BODIES = {
    "lister-stream": (
        *(b"", b"id=a", b"id=a\nid=b\nlock\n", b"id=a\nlast-modified=5\n"),
        *(b"id=a\nresult-link=x\n", b"id-list\ncontent\nacl\nauthz-status=PERMIT\n"),
        b"id=a\ndelete\nmeta-name=b\n",
        *(b"id=a\nid=b\nmeta-name=b\n", b"what\nid=a\nwhat=content\n"),
        b"id=a\ncrawl-immediately\nmeta-name=Department\n",
    ),
    "retriever-stream": (
        *(b"id=a\ncontent\nid=b\nid=c\nauthz-status=x", b"id=a\nup-to-date", b"id=a\nnot-found"),
        *(b"id=a\nlast-modified=5\nmime-type=text/plain\n", b"id=a\nlock=true\nacl\n"),
        *(b"id-list\na\n\ncontent\n", b"id=a\r\ncontent\r\n", b"id=a\nmeta-name=b"),
    ),
    "authorizer-stream": (
        *(b"id=a\nauthz-status=PERMIT\n", b"id=a\nid=b\nauthz-status=DENY", b"group=a\nid=a\n"),
        *(b"user=a\npassword=b\nid=a\n", b"username=a\nid=a\n"),
        b"id-list\na\nb\n\nauthz-status=PERMIT",
    ),
}


@pytest.mark.parametrize(
    ("body", "name"), [(body, name) for name, bodies in BODIES.items() for body in bodies]
)
def test_a_command_of_only_one_stream_decides(body: bytes, name: str) -> None:
    assert sniff(HEADER + b"\n" + body) == name


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"-e ", b"\n "])
def test_bytes_of_editors_and_shells_before_the_header_are_skipped(before: bytes) -> None:
    assert sniff(before + HEADER + b"\nid=a") == "lister-stream"


@pytest.mark.parametrize("delimiter", [b"\0", b"\xc0\x80", b"**", b"\xc3\xa9"])
def test_any_delimiter_is_accepted(delimiter: bytes) -> None:
    mark = delimiter.replace(b"\xc0\x80", b"\0")
    head = b"GSA Adaptor Data Version 1 [" + delimiter + b"]" + mark + b"id=a" + mark + b"content"
    assert sniff(head) == "retriever-stream"


@pytest.mark.parametrize("head", [*(b"", START + b"[]", START), *(b"x" + HEADER, b" " * 1_000_000)])
def test_a_stream_without_a_header_is_not_a_command_stream(head: bytes) -> None:
    assert sniff(head) is None
