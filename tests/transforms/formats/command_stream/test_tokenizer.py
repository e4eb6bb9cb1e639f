"""Headers and tokens, byte by byte: what the deployed parser takes, and what is mended."""

import io
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import FormatError, RecordError
from schemas.notice import Notice
from schemas.span import Span
from support.slow_streams import slow
from support.streams import opened as opened_stream
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream import tokenizer
from transforms.formats.command_stream.syntax import decode, integer
from transforms.formats.command_stream.tokenizer import (
    KEPT_BYTES,
    Tokenizer,
    read_header,
)

STRICT = ReadOptions(mode=Mode.STRICT)
LENIENT = ReadOptions()
MODES = pytest.mark.parametrize("options", [STRICT, LENIENT], ids=["strict", "lenient"])
HEADER = b"GSA Adaptor Data Version 1 [\n]"
PLACE = Span(source="ids.txt", ordinal=3, offset=100)
DELIMITERS = ("aa", "ab", "aba", "aab", "aaa", "abab", "aabaa", "baab")


def opened(data: bytes, options: ReadOptions = LENIENT, span: Span = PLACE) -> Tokenizer:
    tokens = Tokenizer(opened_stream(data), span, options)
    list(read_header(tokens))
    return tokens


def separated(
    stream: IO[bytes], delimiter: bytes, options: ReadOptions = LENIENT
) -> list[tuple[int, bytes]]:
    """The tokens of a stream without header, each with its offset."""
    tokens = Tokenizer(stream, Span(), options)
    tokens.separate(delimiter)
    found = []
    offset = tokens.offset
    while (token := tokens.next()) is not None:
        found.append((offset, token))
        offset = tokens.offset
    return found


def texts(data: bytes, delimiter: bytes, options: ReadOptions = LENIENT) -> list[bytes]:
    return [token for _, token in separated(io.BytesIO(data), delimiter, options)]


def refusal(data: bytes, options: ReadOptions = STRICT) -> str:
    with pytest.raises(FormatError) as caught:
        opened(data, options)
    return str(caught.value)


def deployed(data: bytes, delimiter: bytes) -> list[bytes]:
    """What the deployed parser makes of bytes, one at a time, and never goes back."""
    found, token, matched = [], b"", 0
    for one in data:
        if one == delimiter[matched]:
            matched += 1
        else:
            token += delimiter[:matched] + bytes([one])
            matched = 0
        if matched == len(delimiter):
            found.append(token)
            token, matched = b"", 0
    last = token + delimiter[:matched]
    return [*found, last] if last else found


def mended(data: bytes, delimiter: bytes) -> list[tuple[bytes, bool]]:
    tokens = Tokenizer(io.BytesIO(data), Span(), LENIENT)
    tokens.separate(delimiter)
    found = []
    while (token := tokens.next()) is not None:
        found.append((token, tokens.is_repaired))
    return found


def line_ends(data: bytes, options: ReadOptions) -> tuple[bool, list[Notice]]:
    tokens = Tokenizer(opened_stream(data), PLACE, options)
    notices = list(read_header(tokens))
    return tokens.crlf, notices


# Text


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"a=b", "a=b"),
        (b"\xc0\x80\xc0\x8a", "\0\n"),
        (b"caf\xc3\xa9\xc0\x8a", "caf\u00e9\n"),
        (b"\xf0\x9f\x98\x80", "\U0001f600"),
        (b"\xef\xbb\xbf", "\ufeff"),
    ],
)
def test_text_is_utf8_with_two_forms_of_two_bytes(token: bytes, text: str) -> None:
    assert decode(token) == text


@pytest.mark.parametrize(
    ("token", "found"),
    [
        (b"a\xc0\x81b", rb"b'\xc0\x81b'"),
        (b"\xc0\xc0\x80", rb"b'\xc0\x00'"),
        (b"a\xc0", rb"b'\xc0'"),
        (b"\xed\xa0\xbd\xed\xb8\x80", rb"b'\xed\xa0\xbd\xed'"),
        (b"\xff", rb"b'\xff'"),
        (b"\xc1\x80", rb"b'\xc1\x80'"),
        (b"\xe2\x82", rb"b'\xe2\x82'"),
        (b"\xf4\x90\x80\x80", rb"b'\xf4\x90\x80\x80'"),
    ],
)
def test_what_is_no_such_text_is_refused(token: bytes, found: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        decode(token)

    shown = f"the bytes {found.decode()} in a token"
    expected = f"{shown}; expected UTF-8, with C0 80 and C0 8A besides"
    assert (caught.value.code, caught.value.reason) == ("not-utf8", expected)


# Numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("+5", 5),
        ("-5", -5),
        ("0005", 5),
        ("-0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("\u0665", 5),
        ("\u0660" * 30 + "7", 7),
        ("0" * 5000 + "1", 1),
    ],
)
def test_a_number_is_what_java_takes_for_one(text: str, number: int) -> None:
    assert integer(text, bits=64) == number


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", "-", "--1", "+-1", " 5", "5 ", "5\n", "1.5", "1e3", "0x1", "1_0", "five"),
        *("9223372036854775808", "-9223372036854775809", "1" * 5000, "\u00b2", "\U0001d7ce"),
    ],
)
def test_what_java_takes_for_no_number_is_none(text: str) -> None:
    assert integer(text, bits=64) is None


def test_a_number_has_a_width() -> None:
    assert (integer("2147483647", bits=32), integer("2147483648", bits=32)) == (2147483647, None)


# The header


@MODES
@pytest.mark.parametrize(
    "stated",
    [" 1 ", " 2 ", " 99 ", " +1 ", " -1 ", "\t1\t", " 1\n", "12 ", "123", " 007 ", "\0\x011\x1f"],
)
def test_any_number_is_a_version(stated: str, options: ReadOptions) -> None:
    data = f"GSA Adaptor Data Version{stated}[\n]\nid=1".encode()
    assert opened(data, options).delimiter == b"\n"


@MODES
@pytest.mark.parametrize("stated", ["   ", " x ", " 1.0 ", " 1 2 ", "\u00a01 ", " 2147483648 "])
def test_a_version_that_is_no_number_is_refused(stated: str, options: ReadOptions) -> None:
    data = f"GSA Adaptor Data Version{stated}[\n]\nid=1".encode()
    assert refusal(data, options) == (
        f"ids.txt: header: version {stated!r}; expected a number between spaces"
    )


@pytest.mark.parametrize("stated", [" 1", "1 ", "12", "", "1"])
def test_a_version_of_less_than_three_characters_is_refused_strictly(stated: str) -> None:
    data = f"GSA Adaptor Data Version{stated}[\n]".encode()
    assert refusal(data) == (
        f"ids.txt: header: version {stated!r}; expected a number between spaces"
    )


@pytest.mark.parametrize("stated", [" 1", "1 ", "12", "1"])
def test_a_version_of_less_than_three_characters_is_repaired(stated: str) -> None:
    data = f"GSA Adaptor Data Version{stated}[\n]".encode()
    assert opened(data).delimiter == b"\n"


@MODES
@pytest.mark.parametrize(
    ("stated", "delimiter"),
    [
        (b"\0", b"\0"),
        (b"\xc0\x80", b"\0"),
        (b"\xc0\x8a", b"\n"),
        (b"~\xc0\x8a", b"~\n"),
        (b"\r\n", b"\r\n"),
        (b"\t,.~!#$%^&*(){}<>|;'\"?@\\`", b"\t,.~!#$%^&*(){}<>|;'\"?@\\`"),
        ("\u10d0\u00e9".encode(), b"\xe1\x83\x90\xc3\xa9"),
    ],
)
def test_all_but_forbidden_characters_delimit(
    stated: bytes, delimiter: bytes, options: ReadOptions
) -> None:
    assert opened(b"GSA Adaptor Data Version 1 [" + stated + b"]", options).delimiter == delimiter


@MODES
def test_a_delimiter_of_a_hundred_characters_is_read(options: ReadOptions) -> None:
    stated = b"~" * 100
    assert opened(b"GSA Adaptor Data Version 1 [" + stated + b"]", options).delimiter == stated


@MODES
def test_a_longer_one_is_refused(options: ReadOptions) -> None:
    assert refusal(b"GSA Adaptor Data Version 1 [" + b"~" * 5000 + b"]", options) == (
        "ids.txt: header: a delimiter of 5000 characters; expected at most 100"
    )


@MODES
@pytest.mark.parametrize("found", list("AZaz09:/-_ =+["))
def test_a_forbidden_character_does_not(found: str, options: ReadOptions) -> None:
    assert refusal(f"GSA Adaptor Data Version 1 [~{found}~]".encode(), options) == (
        f"ids.txt: header: {found!r} in the delimiter '~{found}~'; "
        "expected neither a letter, a digit nor one of : / - _ space = + [ ]"
    )


@MODES
@pytest.mark.parametrize("end", [b"[]", b"[]]", b"[", b""])
def test_a_header_without_a_delimiter_is_refused(end: bytes, options: ReadOptions) -> None:
    assert refusal(b"GSA Adaptor Data Version 1 " + end, options) == (
        "ids.txt: header: an empty delimiter; expected one or more characters"
    )


@MODES
def test_the_end_of_the_stream_may_stand_for_the_bracket(options: ReadOptions) -> None:
    assert opened(b"GSA Adaptor Data Version 1 [\n", options).delimiter == b"\n"


@MODES
@pytest.mark.parametrize("body", [b"id=1", b"\nid=1", b"\n\nid=1\n"])
def test_a_delimiter_behind_the_header_may_be_missing(body: bytes, options: ReadOptions) -> None:
    tokens = opened(HEADER + body, options)
    found = [token for token in iter(tokens.next, None) if token]
    assert found == [b"id=1"]


@MODES
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "''"),
        (b"GSA Adaptor", "'GSA Adaptor'"),
        (b"gsa adaptor data version 1 [\n]", "'gsa adaptor data version 1 '"),
        (b"\xff\xfe[", r"'\\xff\\xfe'"),
        (b"id=1\n" * 100, r"'id=1\nid=1\nid=1\nid=1\nid=1\nid=1\nid=1\nid=1\n'"),
    ],
)
def test_what_does_not_begin_as_a_header_is_refused(
    data: bytes, found: str, options: ReadOptions
) -> None:
    assert refusal(data, options) == (
        f"ids.txt: header: {found}; expected 'GSA Adaptor Data Version' to begin with"
    )


def test_a_header_is_refused_before_all_of_a_big_file_is_read() -> None:
    stream = io.BytesIO(b"x" * (3 * tokenizer.BLOCK_BYTES))
    with pytest.raises(FormatError):
        list(read_header(Tokenizer(stream, PLACE, STRICT)))
    assert stream.tell() == tokenizer.BLOCK_BYTES


@MODES
def test_a_delimiter_that_is_no_text_is_refused(options: ReadOptions) -> None:
    assert refusal(b"GSA Adaptor Data Version 1 [\xff]", options) == (
        "ids.txt: header: the bytes b'\\xff' in a token; "
        "expected UTF-8, with C0 80 and C0 8A besides"
    )


BEFORE = [b"\xef\xbb\xbf", b" ", b"\n", b"-e ", b"\xef\xbb\xbf -e "]


@pytest.mark.parametrize("before", BEFORE)
def test_what_editors_and_shells_put_before_a_header_is_skipped(before: bytes) -> None:
    span = Span(source="ids.txt")
    tokens = Tokenizer(io.BytesIO(before + HEADER), span, LENIENT)
    (notice,) = read_header(tokens)
    assert notice == Notice(
        code="before-header",
        detail=f"{before!r} before the header; skipped",
        source="ids.txt",
    )


@pytest.mark.parametrize("before", BEFORE)
def test_what_is_before_a_header_is_refused_strictly(before: bytes) -> None:
    assert "; expected 'GSA Adaptor Data Version' to begin with" in refusal(before + HEADER)


# Line ends


@pytest.mark.parametrize(
    "body", [b"\r\nid=1\r\n", b"\nid=1\r\n", b"id=1\r\nid=2\n", b"\n\n\r\n", b"\r\n"]
)
def test_lines_end_as_the_first_one_does(body: bytes) -> None:
    notice = Notice(
        code="crlf",
        detail="CR LF at the end of lines, LF in the header; a CR is taken off each",
        source="ids.txt",
        span=3,
        offset=130,
    )
    assert line_ends(HEADER + body, LENIENT) == (True, [notice])


@pytest.mark.parametrize("body", [b"\nid=1\nid=2\r\n", b"", b"id=1\r", b"\nid=a\rb\n"])
def test_lines_that_end_with_a_line_feed_keep_a_carriage_return(body: bytes) -> None:
    assert line_ends(HEADER + body, LENIENT) == (False, [])


def test_strictly_a_carriage_return_is_kept() -> None:
    assert line_ends(HEADER + b"\r\nid=1\r\n", STRICT) == (False, [])


def test_a_carriage_return_is_taken_off_each_token() -> None:
    tokens = opened(HEADER + b"\r\na\r\nb\r\r\n\r\nc\r")
    assert list(iter(tokens.next, None)) == [b"", b"a", b"b\r", b"", b"c"]


# Tokenizer


@MODES
def test_tokens_stand_between_delimiters(options: ReadOptions) -> None:
    assert texts(b"a\n\nb\nc", b"\n", options) == [b"a", b"", b"b", b"c"]


@MODES
def test_nothing_stands_behind_the_last_delimiter(options: ReadOptions) -> None:
    assert texts(b"a\n", b"\n", options) == [b"a"]


@MODES
def test_the_two_byte_form_of_a_delimiter_is_none(options: ReadOptions) -> None:
    assert texts(b"a\xc0\x8ab\nc", b"\n", options) == [b"a\xc0\x8ab", b"c"]


@MODES
def test_half_a_delimiter_at_the_end_is_a_token(options: ReadOptions) -> None:
    assert texts(b"id=1~", b"~!", options) == [b"id=1~"]


@pytest.mark.parametrize(
    ("data", "delimiter", "expected"),
    [
        (b"id=1\r\r\nid=2\r\n", b"\r\n", [b"id=1\r\r\nid=2"]),
        (b"id=a***id=b**", b"**", [b"id=a", b"*id=b"]),
        (b"b#~#~#id=c", b"#~#", [b"b", b"~#id=c"]),
    ],
)
def test_strictly_the_deployed_matcher_is_followed(
    data: bytes, delimiter: bytes, expected: list[bytes]
) -> None:
    assert texts(data, delimiter, STRICT) == expected


@pytest.mark.parametrize(
    ("data", "delimiter", "expected"),
    [
        (b"id=1\r\r\nid=2\r\n", b"\r\n", [(b"id=1\r", True), (b"id=2", False)]),
        (b"id=a***id=b**", b"**", [(b"id=a*", True), (b"id=b", False)]),
        (b"b#~#~#id=c", b"#~#", [(b"b#~", True), (b"id=c", False)]),
        (b"id=a****id=b", b"**", [(b"id=a", False), (b"", False), (b"id=b", False)]),
        (b"id=a***lock**id=b", b"**", [(b"id=a*", True), (b"lock", False), (b"id=b", False)]),
        (b"username=a***group=b", b"**", [(b"username=a*", True), (b"group=b", False)]),
        (b"id=a***", b"**", [(b"id=a*", True)]),
        (b"id=a***what", b"**", [(b"id=a", False), (b"*what", False)]),
    ],
)
def test_a_delimiter_that_overlaps_its_token_is_repaired(
    data: bytes, delimiter: bytes, expected: list[tuple[bytes, bool]]
) -> None:
    assert mended(data, delimiter) == expected


@MODES
@pytest.mark.parametrize("body", [b"***", b"*", b"*id=b", b"****id=b"])
def test_what_follows_content_is_content(body: bytes, options: ReadOptions) -> None:
    tokens = Tokenizer(io.BytesIO(b"content**" + body), Span(), options)
    tokens.separate(b"**")
    assert (tokens.next(), b"".join(tokens.remainder())) == (b"content", body)


@pytest.mark.parametrize("delimiter", DELIMITERS)
@given(data=st.text("ab", max_size=30), block_bytes=st.integers(1, 40))
def test_strictly_any_delimiter_is_found_where_the_deployed_parser_finds_it(
    delimiter: str, data: str, block_bytes: int
) -> None:
    stream = slow(data.encode(), block_bytes)
    found = [token for _, token in separated(stream, delimiter.encode(), STRICT)]
    assert found == deployed(data.encode(), delimiter.encode())


@given(
    data=st.text("\r\n*#~x", max_size=40),
    delimiter=st.sampled_from([b"\r\n", b"**", b"#~#", b"***", b"\n\n"]),
    read_bytes=st.integers(1, 9),
)
def test_strictly_blocks_of_any_size_are_read_as_one(
    data: str, delimiter: bytes, read_bytes: int
) -> None:
    found = separated(slow(data.encode(), read_bytes), delimiter, STRICT)
    assert [token for _, token in found] == deployed(data.encode(), delimiter)


@MODES
@given(
    parts=st.lists(st.sampled_from(["id=", "lock", "**", "*", "a", "\n", "content"]), max_size=20),
    delimiter=st.sampled_from([b"**", b"***", b"*", b"\n", b"*\n*" * 20]),
    block_bytes=st.integers(1, 9),
)
def test_few_bytes_at_a_time_are_read_as_many(
    options: ReadOptions, parts: list[str], delimiter: bytes, block_bytes: int
) -> None:
    data = "".join(parts).encode() + delimiter + delimiter[:3] + b"id=x"
    found = separated(slow(data, block_bytes), delimiter, options)
    assert found == separated(io.BytesIO(data), delimiter, options)


@given(data=st.binary(max_size=40), block_bytes=st.integers(1, 9))
def test_a_token_stands_at_its_offset(data: bytes, block_bytes: int) -> None:
    found = separated(slow(data, block_bytes), b"\n", STRICT)
    assert [(at, data[at:][: len(token)]) for at, token in found] == found


def test_offsets_count_from_where_the_source_begins() -> None:
    tokens = opened(HEADER + b"\nid=1\n", span=PLACE)
    assert (tokens.offset, tokens.next(), tokens.offset) == (130, b"", 131)


# Limits


@MODES
@pytest.mark.parametrize("delimiter", [b"\n", b"\r\n"])
@pytest.mark.parametrize("block_bytes", [1, 7, 100])
def test_a_token_that_is_too_long_is_an_error_at_its_offset(
    delimiter: bytes, block_bytes: int, options: ReadOptions
) -> None:
    limited = ReadOptions(mode=options.mode, max_token_bytes=8)
    data = b"12345678" + delimiter + b"123456789" + delimiter
    with pytest.raises(FormatError) as caught:
        separated(slow(data, block_bytes), delimiter, limited)
    assert str(caught.value) == (
        f" (byte {8 + len(delimiter)}): a token of more than 8 bytes; "
        f"expected the delimiter {delimiter!r} before; raise --max-token-bytes"
    )


def test_a_token_that_is_too_long_at_the_end_is_an_error_too() -> None:
    with pytest.raises(FormatError):
        separated(io.BytesIO(b"123456789"), b"\n", ReadOptions(max_token_bytes=8))


def test_a_token_of_the_limit_is_taken() -> None:
    options = ReadOptions(max_token_bytes=8)
    assert separated(io.BytesIO(b"12345678"), b"\n", options) == [(0, b"12345678")]


def test_to_look_ahead_is_not_limited() -> None:
    tokens = opened(HEADER + b"id=1\n" * 100, ReadOptions(max_token_bytes=30))
    assert tokens.crlf is False


# The rest, and what was marked


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 100])
def test_the_rest_is_all_that_is_left(block_bytes: int) -> None:
    tokens = Tokenizer(slow(b"content\n\nid=1\n\0\n", block_bytes), Span(), LENIENT)
    tokens.separate(b"\n")
    tokens.next()
    assert (b"".join(tokens.remainder()), tokens.offset, tokens.next()) == (
        b"\nid=1\n\0\n",
        16,
        None,
    )


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 100])
def test_what_was_marked_is_kept_wherever_blocks_end(block_bytes: int) -> None:
    tokens = Tokenizer(slow(b"a\nb\ncontent\nde\nf", block_bytes), Span(), LENIENT)
    tokens.separate(b"\n")
    tokens.next()
    tokens.capture(2)
    before = [tokens.next(), tokens.next(), *tokens.remainder()]
    assert (len(before) > 2, tokens.captured(15)) == (True, b"b\ncontent\nde\n")


def test_what_was_forgotten_is_not_kept() -> None:
    tokens = Tokenizer(io.BytesIO(b"a\nb"), Span(), LENIENT)
    tokens.capture(0)
    tokens.end_capture()
    assert tokens.captured(3) == b""


def test_of_what_was_marked_a_bounded_part_is_kept() -> None:
    data = b"abc" * KEPT_BYTES
    tokens = Tokenizer(io.BytesIO(data), Span(), LENIENT)
    tokens.capture(0)
    size = sum(map(len, tokens.remainder()))
    assert (size, tokens.captured(size)) == (len(data), data[:KEPT_BYTES])
