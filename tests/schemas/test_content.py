"""Content in and out of its encodings."""

import zlib

import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.content import (
    MAX_CONTENT_BYTES,
    check,
    clean_base64,
    compress,
    decode,
    to_base64,
)
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Content, Encoding
from feedferry.testing.strategies import contents

MEBIBYTE = 1 << 20


def base64(data: bytes) -> Content:
    return Content(pybase64.b64encode(data), Encoding.BASE64)


def zlib_base64(data: bytes) -> Content:
    return Content(pybase64.b64encode(data), Encoding.ZLIB_BASE64)


BOMB = zlib_base64(zlib.compress(bytes(64 * MEBIBYTE), 9))
FIVE_BYTES = [Content(b"12345"), base64(b"12345"), zlib_base64(zlib.compress(b"12345"))]
NO_END = "a zlib stream without its end; expected a whole one"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b"Zm9vIGJhcgo", b"foo bar\n"),  # an example of the guide, without its padding
        (b"Zm9vIGJhcgo=", b"foo bar\n"),
        (b"Zm9vIGJhcgo==", b"foo bar\n"),
        (b"Zm9v\r\nIGJh\r\ncgo=\r\n", b"foo bar\n"),
        (b"  Zm9v\tIGJhcgo", b"foo bar\n"),
        (b"Zm9vIGJhcgo =", b"foo bar\n"),
        (b"Zg", b"f"),
        (b"Zm9v====", b"foo"),
        (b"", b""),
        (b"\n", b""),
    ],
)
def test_base64_gets_its_padding_and_loses_white_space(text: bytes, data: bytes) -> None:
    assert pybase64.b64decode(clean_base64(text), validate=True) == data


def test_a_compressed_example_of_the_guide_has_wrong_padding_and_is_no_zlib_stream() -> None:
    text = clean_base64(b"eDQwDYoOyVEYo01NUUPAJqkCgg=")
    assert text == b"eDQwDYoOyVEYo01NUUPAJqkCgg=="
    with pytest.raises(RecordError, match="expected a zlib stream"):
        decode(Content(text, Encoding.ZLIB_BASE64))


def test_clean_base64_is_not_copied() -> None:
    content = base64(b"a document")
    assert clean_base64(content.data) is content.data
    assert to_base64(content) is content.data


@pytest.mark.parametrize(
    "text", [b"Z", b"Zm9vI", b"Zm9*", b"Zm=9v", b"Zm9v\xc3\xbc", b"Zm9v\x00===", b"a-b_"]
)
def test_other_text_is_a_record_error(text: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        clean_base64(text)
    assert caught.value.code == "bad-base64"
    assert caught.value.reason == f"{len(text)} bytes that are no base64; expected base64"


@given(st.binary(max_size=32), st.integers(0, 3))
def test_base64_with_line_ends_and_any_padding_is_cleaned(data: bytes, padding: int) -> None:
    text = pybase64.b64encode(data)
    worn = b"\r\n".join((text[:3], text[3:].rstrip(b"="), b"=" * padding))
    assert clean_base64(worn) == text


@pytest.mark.parametrize("content", FIVE_BYTES, ids=["none", "base64", "zlib"])
def test_a_document_is_decoded_up_to_the_limit(content: Content) -> None:
    assert decode(content, max_bytes=5) == b"12345"


@pytest.mark.parametrize("function", [decode, check])
@pytest.mark.parametrize(
    ("content", "code", "reason"),
    [
        *(
            (
                content,
                "content-too-large",
                f"{size}; expected at most 4 bytes; raise --max-content-bytes to read it",
            )
            for content, size in zip(
                (*FIVE_BYTES, BOMB),
                ("5 bytes", "5 bytes", *["a zlib stream that inflates to more"] * 2),
                strict=True,
            )
        ),
        (zlib_base64(zlib.compress(b"foo\n")[:-6]), "bad-zlib", NO_END),
        (zlib_base64(b""), "bad-zlib", NO_END),
        (zlib_base64(b"foo bar\n"), "bad-zlib", None),
        (zlib_base64(b"\x1f\x8b\x08" + bytes(20)), "bad-zlib", None),
        (zlib_base64(zlib.compress(b"foo")[:-1] + b"\x00"), "bad-zlib", None),
    ],
)
def test_content_over_the_limit_or_damaged_is_a_record_error(
    function: object, content: Content, code: str, reason: str | None
) -> None:
    with pytest.raises(RecordError) as caught:
        function(content, max_bytes=4)  # type: ignore[operator]  # one of two functions
    assert caught.value.code == code
    assert caught.value.reason.endswith(reason or "; expected a zlib stream")


def test_the_default_limit_is_20_mib() -> None:
    assert MAX_CONTENT_BYTES == 20_971_520


@given(st.binary(max_size=24))
def test_any_bytes_are_inflated_or_a_record_error(data: bytes) -> None:
    try:
        inflated: bytes | None = decode(zlib_base64(data), max_bytes=MEBIBYTE)
    except RecordError:
        inflated = None
    assert inflated is None or inflated == zlib.decompressobj().decompress(data)


@given(contents())
def test_content_is_the_same_document_in_every_encoding(content: Content) -> None:
    check(content)
    assert pybase64.b64decode(to_base64(content), validate=True) == decode(content)
    assert decode(compress(content)) == decode(content)
