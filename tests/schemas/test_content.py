"""Content in and out of its encodings."""

import zlib

import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.content import MAX_CONTENT_BYTES, check, clean_base64, decode, to_base64
from schemas.errors import RecordError
from schemas.record import Content, Encoding
from support.strategies import contents

MEBIBYTE = 1 << 20
BOMB = Content(pybase64.b64encode(zlib.compress(bytes(64 * MEBIBYTE), 9)), Encoding.ZLIB_BASE64)


def zlib_base64(data: bytes) -> Content:
    return Content(pybase64.b64encode(data), Encoding.ZLIB_BASE64)


def complaint(content: Content, max_bytes: int = MAX_CONTENT_BYTES) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        decode(content, max_bytes=max_bytes)
    return caught.value.code, caught.value.reason


# clean_base64


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b"Zm9vIGJhcgo", b"foo bar\n"),  # the guide's own, without its padding
        (b"Zm9vIGJhcgo=", b"foo bar\n"),
        (b"Zm9vIGJhcgo==", b"foo bar\n"),
        (b"Zm9v\r\nIGJh\r\ncgo=\r\n", b"foo bar\n"),
        (b"  Zm9v\tIGJhcgo", b"foo bar\n"),
        (b"Zm9vIGJhcgo =", b"foo bar\n"),
        (b"Zg", b"f"),
        (b"Zm8", b"fo"),
        (b"Zm9v", b"foo"),
        (b"Zm9v====", b"foo"),
        (b"", b""),
        (b"\n", b""),
    ],
)
def test_base64_as_it_comes_is_made_whole(text: bytes, data: bytes) -> None:
    assert pybase64.b64decode(clean_base64(text), validate=True) == data


def test_a_compressed_example_of_the_guide_with_wrong_padding_is_made_whole() -> None:
    text = clean_base64(b"eDQwDYoOyVEYo01NUUPAJqkCgg=")
    assert text == b"eDQwDYoOyVEYo01NUUPAJqkCgg=="


def test_a_compressed_example_of_the_guide_is_no_zlib_stream_all_the_same() -> None:
    code, _ = complaint(Content(b"eDQwDYoOyVEYo01NUUPAJqkCgg==", Encoding.ZLIB_BASE64))
    assert code == "bad-zlib"


def test_base64_that_is_whole_is_not_copied() -> None:
    text = pybase64.b64encode(b"a document")
    assert clean_base64(text) is text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"Z", "1 bytes that are no base64; expected base64"),
        (b"Zm9vI", "5 bytes that are no base64; expected base64"),
        (b"Zm9*", "4 bytes that are no base64; expected base64"),
        (b"Zm=9v", "5 bytes that are no base64; expected base64"),
        (b"Zm9v\xc3\xbc", "6 bytes that are no base64; expected base64"),
        (b"Zm9v\x00===", "8 bytes that are no base64; expected base64"),
        (b"a-b_", "4 bytes that are no base64; expected base64"),
    ],
)
def test_what_is_no_base64_is_a_record_error(text: bytes, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        clean_base64(text)
    assert (caught.value.code, caught.value.reason) == ("bad-base64", reason)


@given(st.binary(max_size=32), st.integers(0, 3))
def test_base64_may_lose_its_padding_and_gain_line_ends(data: bytes, padding: int) -> None:
    text = pybase64.b64encode(data)
    worn = b"\r\n".join((text[:3], text[3:].rstrip(b"="), b"=" * padding))
    assert clean_base64(worn) == text


@given(st.binary(max_size=32))
def test_any_bytes_are_made_whole_or_are_a_record_error(text: bytes) -> None:
    try:
        clean = clean_base64(text)
    except RecordError:
        clean = b""
    assert len(clean) % 4 == 0


# decode


@pytest.mark.parametrize(
    "content",
    [
        Content(b"foo bar\n"),
        Content(b"Zm9vIGJhcgo=", Encoding.BASE64),
        Content(b"eJxLy89XSEos4gIADRQCpA==", Encoding.ZLIB_BASE64),
    ],
    ids=["none", "base64", "zlib"],
)
def test_the_documents_own_bytes_come_out_of_each_encoding(content: Content) -> None:
    assert decode(content) == b"foo bar\n"


@pytest.mark.parametrize(
    "content",
    [
        Content(b"12345"),
        Content(pybase64.b64encode(b"12345"), Encoding.BASE64),
        zlib_base64(zlib.compress(b"12345")),
    ],
    ids=["none", "base64", "zlib"],
)
def test_a_document_may_be_as_large_as_the_limit(content: Content) -> None:
    assert decode(content, max_bytes=5) == b"12345"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (Content(b"12345"), "5 bytes"),
        (Content(pybase64.b64encode(b"12345"), Encoding.BASE64), "5 bytes"),
        (zlib_base64(zlib.compress(b"12345")), "a zlib stream that inflates to more"),
    ],
    ids=["none", "base64", "zlib"],
)
def test_a_document_over_the_limit_is_a_record_error(content: Content, found: str) -> None:
    assert complaint(content, max_bytes=4) == (
        "content-too-large",
        f"{found}; expected at most 4 bytes; raise --max-content-bytes to read it",
    )


def test_a_bomb_is_refused() -> None:
    assert complaint(BOMB, max_bytes=MEBIBYTE) == (
        "content-too-large",
        "a zlib stream that inflates to more; expected at most 1048576 bytes; "
        "raise --max-content-bytes to read it",
    )


def test_a_document_may_have_256_mib_unless_told_otherwise() -> None:
    assert MAX_CONTENT_BYTES == 20_971_520


def test_a_torn_zlib_stream_is_a_record_error() -> None:
    assert complaint(zlib_base64(zlib.compress(b"foo bar\n")[:-6])) == (
        "bad-zlib",
        "a zlib stream without its end; expected a whole one",
    )


def test_an_empty_zlib_stream_is_a_record_error() -> None:
    assert complaint(zlib_base64(b"")) == (
        "bad-zlib",
        "a zlib stream without its end; expected a whole one",
    )


@pytest.mark.parametrize(
    "damage",
    [b"foo bar\n", b"\x1f\x8b\x08" + bytes(20), zlib.compress(b"foo bar\n")[:-1] + b"\x00"],
    ids=["text", "gzip", "wrong-checksum"],
)
def test_what_is_no_zlib_stream_is_a_record_error(damage: bytes) -> None:
    code, reason = complaint(zlib_base64(damage))
    assert (code, reason.endswith("; expected a zlib stream")) == ("bad-zlib", True)


@given(st.binary(max_size=24))
def test_chance_bytes_inflate_or_are_a_record_error(data: bytes) -> None:
    content = zlib_base64(data)
    try:
        inflated: bytes | None = decode(content, max_bytes=MEBIBYTE)
    except RecordError:
        inflated = None
    assert inflated is None or inflated == zlib.decompressobj().decompress(data)


# check


@given(contents())
def test_what_can_be_decoded_passes_the_check(content: Content) -> None:
    check(content)


@pytest.mark.parametrize(
    "content",
    [
        Content(b"12345"),
        Content(pybase64.b64encode(b"12345"), Encoding.BASE64),
        zlib_base64(zlib.compress(b"12345")),
        zlib_base64(b"12345"),
    ],
    ids=["none", "base64", "zlib", "torn"],
)
def test_what_cannot_be_decoded_does_not_pass_the_check(content: Content) -> None:
    with pytest.raises(RecordError):
        check(content, max_bytes=4)


# to_base64


@given(contents())
def test_base64_of_a_content_is_base64_of_the_document(content: Content) -> None:
    assert pybase64.b64decode(to_base64(content), validate=True) == decode(content)


def test_a_content_that_came_as_base64_is_not_copied() -> None:
    content = Content(b"Zm9vIGJhcgo=", Encoding.BASE64)
    assert to_base64(content) is content.data
