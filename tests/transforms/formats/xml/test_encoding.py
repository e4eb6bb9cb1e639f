"""Which encoding a document is in, and the way from its bytes to UTF-8 and back."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.transforms.formats.xml.scanning.encoding import Transcoded, detect
from support.streams import slow

CODECS = (
    *("iso-8859-1", "cp1252", "shift_jis", "euc-jp", "utf-16-le", "utf-16-be"),
    *("utf-32-le", "utf-32-be", "koi8-r", "big5", "gb18030"),
)
EVERY_CODEC = pytest.mark.parametrize("codec", CODECS)
JAPANESE = "<p>日本語ソ表</p>"  # in Shift_JIS a second byte of these is a backslash
LATIN = "<p>Zürich, é</p>"


def declared(name: str) -> bytes:
    return f'<?xml version="1.0" encoding="{name}"?><gsafeed/>'.encode()


def utf8_of(raw: bytes, codec: str, *, block_bytes: int = 1 << 20) -> bytes:
    """All that is read of `raw`, in blocks of at most this size."""
    stream = Transcoded(slow(raw, block_bytes), codec, b"")
    return b"".join(iter(lambda: stream.read(1 << 20), b""))


def original(raw: bytes, codec: str) -> bytes:
    return Transcoded(io.BytesIO(raw), codec, b"").original(utf8_of(raw, codec))


# detect


@pytest.mark.parametrize(
    ("head", "codec", "mark"),
    [
        (b"", "utf-8", 0),
        (b"<gsafeed/>", "utf-8", 0),
        (b"\xef\xbb\xbf<gsafeed/>", "utf-8", 3),
        (b"\xff\xfe<\0g\0", "utf-16-le", 2),
        (b"\xfe\xff\0<\0g", "utf-16-be", 2),
        (b"\xff\xfe\0\0<\0\0\0", "utf-32-le", 4),
        (b"\0\0\xfe\xff\0\0\0<", "utf-32-be", 4),
        (b"<\0?\0", "utf-16-le", 0),
        (b"\0<\0?", "utf-16-be", 0),
        (b"<\0\0\0?\0\0\0", "utf-32-le", 0),
        (b"\0\0\0<\0\0\0?", "utf-32-be", 0),
        (b"\xef\xbb\xbf" + declared("ISO-8859-1"), "utf-8", 3),
        (b"\n " + declared("ISO-8859-1"), "iso8859-1", 0),
        (b"<?xml version='1.0'\n encoding = 'ISO-8859-1' ?>", "iso8859-1", 0),
        (b"<?xml version='1.0'?><a encoding='ISO-8859-1'/>", "utf-8", 0),
        (b"<!-- --><?xml version='1.0' encoding='ISO-8859-1'?>", "utf-8", 0),
    ],
)
def test_a_document_tells_its_encoding(head: bytes, codec: str, mark: int) -> None:
    assert detect(head, source="feed.xml") == (codec, mark)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("UTF-8", "utf-8"),
        ("utf8", "utf-8"),
        ("UTF8", "utf-8"),
        ("US-ASCII", "utf-8"),
        ("UTF-8-SIG", "utf-8"),
        ("UTF-16", "utf-8"),
        ("utf-32-le", "utf-8"),
        ("Latin1", "iso8859-1"),
        ("windows-1252", "cp1252"),
        ("Shift_JIS", "shift_jis"),
        ("EUC-JP", "euc_jp"),
    ],
)
def test_a_declared_encoding_is_known_by_any_of_its_names(name: str, codec: str) -> None:
    assert detect(declared(name), source="feed.xml") == (codec, 0)


# Transcoded


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (LATIN, "iso-8859-1"),
        (LATIN, "cp1252"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc-jp"),
        (JAPANESE, "iso2022_jp"),
        (JAPANESE + "😀", "utf-16-le"),
        (JAPANESE + "😀", "utf-32-be"),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 3, 1000])
def test_a_text_in_another_encoding_is_read_as_utf_8(
    text: str, codec: str, block_bytes: int
) -> None:
    assert utf8_of(text.encode(codec), codec, block_bytes=block_bytes) == text.encode()


@EVERY_CODEC
@settings(max_examples=40)
@given(raw=st.binary(max_size=40), block_bytes=st.integers(1, 50))
def test_blocks_make_no_difference(codec: str, raw: bytes, block_bytes: int) -> None:
    assert utf8_of(raw, codec, block_bytes=block_bytes) == utf8_of(raw, codec)


@pytest.mark.parametrize(
    "codec", ["iso-8859-1", "cp1252", "koi8-r", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]
)
@settings(max_examples=60)
@given(raw=st.binary(max_size=40))
def test_the_original_bytes_can_be_had_back_whatever_they_were(codec: str, raw: bytes) -> None:
    assert original(raw, codec) == raw


@pytest.mark.parametrize("codec", ["shift_jis", "euc-jp", "big5", "gb18030"])
@settings(max_examples=60)
@given(
    text=st.text(alphabet="<a>日本語ソ表 \n"), wrong=st.sampled_from((b"", b"\xff", b"\xff\xff"))
)
def test_the_original_bytes_of_characters_can_be_had_back(
    codec: str, text: str, wrong: bytes
) -> None:
    raw = (
        "<p>".encode(codec)
        + wrong
        + "".join(char for char in text if is_held(char, codec)).encode(codec)
    )
    assert original(raw, codec) == raw


def is_held(char: str, codec: str) -> bool:
    return char.encode(codec, "ignore") != b""


@pytest.mark.parametrize(
    ("raw", "codec", "utf8"),
    [
        (b"a\x81b", "cp1252", "a\udc81b"),
        (b"a\0\0\xd8b\0", "utf-16-le", "a\udc00\udcd8b"),
        (b"\0a\0", "utf-16-be", "a\udc00"),
        (b"a\x83", "shift_jis", "a\udc83"),
    ],
)
def test_a_byte_that_is_none_in_its_encoding_is_kept_as_a_surrogate(
    raw: bytes, codec: str, utf8: str
) -> None:
    assert utf8_of(raw, codec) == utf8.encode("utf-8", "surrogatepass")
