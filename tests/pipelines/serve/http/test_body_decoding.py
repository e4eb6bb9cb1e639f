import gzip
from collections.abc import Iterable, Iterator
from itertools import pairwise
from urllib.parse import quote_plus, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.serve.http.body_decoding import (
    PIECE_BYTES,
    PercentDecoder,
    decompress,
    limit_size,
    peek,
)
from pipelines.serve.http.exchange import RefusedError

FEED = b"<gsafeed>" + b"many a word " * 1000 + b"</gsafeed>"
ESCAPES = st.lists(
    st.sampled_from(
        [b"%", b"%4", b"%41", b"%e2%82%ac", b"+", b"=", b"a", b"\r", b"\n", b"_", b"%zz"]
    )
).map(b"".join)


def refusal_of(blocks: Iterable[bytes]) -> tuple[int, str]:
    with pytest.raises(RefusedError) as caught:
        list(blocks)
    return caught.value.status, str(caught.value)


def cut(content: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(content), *(place for place in places if place < len(content))})
    return [content[begin:end] for begin, end in pairwise(bounds)]


def decoded(blocks: list[bytes]) -> bytes:
    decoder = PercentDecoder()
    pieces = [decoder.decode(block, is_last=False) for block in blocks]
    return b"".join([*pieces, decoder.decode(b"", is_last=True)])


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_body_without_encoding_is_not_changed(encoding: str) -> None:
    assert list(decompress([b"ab", b"c"], encoding)) == [b"ab", b"c"]


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZip"])
def test_gzip_is_decompressed(encoding: str) -> None:
    assert b"".join(decompress([gzip.compress(FEED)], encoding)) == FEED


def test_gzip_in_single_bytes_is_decompressed() -> None:
    blocks = [bytes([byte]) for byte in gzip.compress(FEED)]
    assert b"".join(decompress(blocks, "gzip")) == FEED


def test_many_streams_of_gzip_take_no_time() -> None:
    assert list(decompress([gzip.compress(b"") * 50_000], "gzip")) == []


def test_several_streams_of_gzip_are_one() -> None:
    both = gzip.compress(b"<a>") + gzip.compress(b"</a>")
    assert b"".join(decompress([both], "gzip")) == b"<a></a>"


def test_pieces_have_a_bounded_size() -> None:
    bomb = gzip.compress(bytes(4 << 20))
    sizes = [len(piece) for piece in decompress([bomb], "gzip")]
    assert (max(sizes), sum(sizes)) == (PIECE_BYTES, 4 << 20)


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_goes_off() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    assert refusal_of(limit_size(decompress([bomb], "gzip"), limit=1 << 20)) == (
        413,
        "a body of 1048576 bytes or more; expected less than 1048576",
    )


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "gzip;q=1"])
def test_an_encoding_that_is_not_known_is_refused(encoding: str) -> None:
    with pytest.raises(RefusedError) as caught:
        decompress([b""], encoding)
    words = f"Content-Encoding: {encoding!r}; expected gzip or none"
    assert (caught.value.status, str(caught.value)) == (415, words)


def test_a_stream_that_is_torn_is_refused() -> None:
    torn = gzip.compress(FEED)[:-9]
    assert refusal_of(decompress([torn], "gzip")) == (
        400,
        "an incomplete compressed body; expected all of it",
    )


def test_an_empty_body_is_no_stream() -> None:
    assert refusal_of(decompress([], "gzip")) == (
        400,
        "an incomplete compressed body; expected all of it",
    )


def test_body_that_is_not_gzip_is_refused() -> None:
    assert refusal_of(decompress([b"<gsafeed/>"], "gzip")) == (
        400,
        "a compressed body: Error -3 while decompressing data: incorrect header check; "
        "expected a complete one",
    )


def test_a_body_at_the_limit_is_refused() -> None:
    assert refusal_of(limit_size([b"abc", b"def"], limit=6)) == (
        413,
        "a body of 6 bytes or more; expected less than 6",
    )


def test_a_peek_keeps_all() -> None:
    head, blocks = peek(iter([b"a", b"bc", b"def"]), 2)
    assert (head, list(blocks)) == (b"abc", [b"abc", b"def"])


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (b"", b""),
        (b"a+b", b"a b"),
        (b"%3C%3Fxml+version%3D%221.0%22%3F%3E", b'<?xml version="1.0"?>'),
        (b"%2B%2b", b"++"),
        (b"%e2%82%AC", b"\xe2\x82\xac"),
        (b"a=b==", b"a=b=="),
        (b"%3D%3d", b"=="),
        (b"100%", b"100%"),
        (b"%4", b"%4"),
        (b"%zz%41", b"%zzA"),
        (b"%%41", b"%A"),
        (b"%\r\nab", b"%\r\nab"),
        (b"%0D%0A", b"\r\n"),
        (b"a_b\r\nc \n", b"a_b\r\nc \n"),
        (b"%00%FF", b"\x00\xff"),
    ],
)
def test_escapes_are_decoded(text: bytes, meant: bytes) -> None:
    assert decoded([text]) == meant


@given(st.binary(), st.lists(st.integers(0, 100)))
def test_quoted_bytes_are_restored_for_any_blocks(content: bytes, places: list[int]) -> None:
    assert decoded(cut(quote_plus(content).encode(), places)) == content


@given(ESCAPES, st.lists(st.integers(0, 40)))
def test_a_cut_changes_nothing(text: bytes, places: list[int]) -> None:
    assert decoded(cut(text, places)) == unquote_to_bytes(text.replace(b"+", b" "))


@given(st.binary(), st.lists(st.integers(0, 200)))
def test_any_bytes_are_decoded_or_refused(garbage: bytes, places: list[int]) -> None:
    def pieces() -> Iterator[bytes]:
        try:
            yield from decompress(cut(garbage, places), "gzip")
        except RefusedError:
            return

    assert all(pieces())


@given(st.binary(max_size=2000), st.lists(st.integers(0, 200)))
def test_a_stream_is_decompressed_wherever_it_is_cut(content: bytes, places: list[int]) -> None:
    blocks = cut(gzip.compress(content), places)
    assert b"".join(decompress(blocks, "gzip")) == content
