"""The codecs of Avro container files."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
import zstandard
from fastavro.read import BLOCK_READERS

from schemas.errors import RecordError
from transforms.formats.canonical.avro_codecs import check_codec, unpack

DATUMS = b"datum " * 1000
MEBIBYTE = 1 << 20


def deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def pack_nothing(data: bytes) -> bytes:
    return data


PACK: dict[str, Callable[[bytes], bytes]] = {
    "null": pack_nothing,
    "deflate": deflate,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": zstandard.ZstdCompressor().compress,
}


def read_backwards(stream: io.BytesIO) -> io.BytesIO:
    block: Any = fastavro.schemaless_reader(stream, "bytes", None)
    return io.BytesIO(block[::-1])


def read_in_vain(_stream: io.BytesIO) -> io.BytesIO:
    raise RuntimeError("corrupt input")


def read_without_library(_stream: io.BytesIO) -> io.BytesIO:
    raise ValueError("snappy codec is supported but you need to install cramjam")


def complaint(codec: str, block: bytes, max_bytes: int = MEBIBYTE) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        unpack(codec, block, max_bytes=max_bytes)
    return caught.value.code, caught.value.reason


@pytest.mark.parametrize("codec", PACK)
def test_a_block_is_unpacked(codec: str) -> None:
    assert unpack(codec, PACK[codec](DATUMS), max_bytes=len(DATUMS)) == DATUMS


@pytest.mark.parametrize("codec", PACK)
def test_a_bomb_is_refused(codec: str) -> None:
    assert complaint(codec, PACK[codec](bytes(8 * MEBIBYTE))) == (
        "block-too-large",
        f"a {codec} block that unpacks to more; expected at most 1048576 bytes",
    )


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_a_torn_block_is_a_record_error(codec: str) -> None:
    block = PACK[codec](DATUMS)[:-4]
    assert complaint(codec, block) == (
        "bad-block",
        f"{len(block)} bytes that are none (its end is missing); expected a {codec} block",
    )


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard"])
def test_a_block_of_something_else_is_a_record_error(codec: str) -> None:
    assert complaint(codec, b"\xff" * 40)[0] == "bad-block"


def test_a_torn_zstandard_block_gives_what_it_still_holds() -> None:
    block = zstandard.ZstdCompressor().compress(bytes(MEBIBYTE))[:-4]
    assert len(unpack("zstandard", block, max_bytes=MEBIBYTE)) < MEBIBYTE


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_a_codec_with_a_library_of_its_own_is_left_to_fastavro(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BLOCK_READERS, codec, read_backwards)
    assert unpack(codec, b"\x03\x00\x00\x00abc", max_bytes=MEBIBYTE) == b"cba\x00\x00\x00\x03"


def test_what_such_a_library_raises_is_a_record_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BLOCK_READERS, "snappy", read_in_vain)
    assert complaint("snappy", b"\x03abc") == (
        "bad-block",
        "4 bytes that are none (corrupt input); expected a snappy block",
    )


@pytest.mark.parametrize(
    ("codec", "block"),
    [("snappy", b"\xff\xff\xff\xff\x0f"), ("lz4", b"\xff\xff\xff\xff")],
)
def test_a_bomb_that_states_its_size_is_refused_unopened(codec: str, block: bytes) -> None:
    assert complaint(codec, block) == (
        "block-too-large",
        f"a {codec} block that unpacks to more; expected at most 1048576 bytes",
    )


@pytest.mark.parametrize("codec", PACK)
def test_a_codec_that_is_here_passes_the_check(codec: str) -> None:
    check_codec(codec)


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(LookupError) as caught:
        check_codec("rot13")
    assert caught.value.args[0] == (
        "codec 'rot13'; expected one of bzip2, deflate, lz4, null, snappy, xz, zstandard"
    )


def test_a_codec_with_its_library_passes_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BLOCK_READERS, "snappy", read_backwards)
    check_codec("snappy")


def test_a_codec_without_its_library_says_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BLOCK_READERS, "snappy", read_without_library)
    with pytest.raises(LookupError) as caught:
        check_codec("snappy")
    assert caught.value.args[0] == (
        "codec 'snappy'; snappy codec is supported but you need to install cramjam"
    )
