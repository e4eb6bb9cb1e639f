"""Posted forms, and the encodings of their bodies."""

import gzip
import itertools
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise
from urllib.parse import quote_plus, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.pipelines.serve.http import forms
from feedferry.pipelines.serve.http.forms import PIECE_BYTES, decompress, limit_size
from feedferry.pipelines.serve.http.server import RefusedError

KNOWN = ("datasource", "feedtype")
URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=<<"
OF_X = "multipart/form-data; boundary=x"
FEED = b"<gsafeed>\r\n--<\r\n</gsafeed>\r\n"
HEAD = b'--<<\r\nContent-Disposition: form-data; name="%s"\r\nContent-Type: text/%s\r\n\r\n'
PARTS = b"".join(
    (
        *(
            HEAD % (b"datasource", b"plain"),
            b"sample\r\n",
            HEAD % (b"feedtype", b"plain"),
            b"full\r\n",
        ),
        *(HEAD % (b"data", b"xml"), FEED, b"\r\n--<<--\r\n"),
    )
)
PAIRS = b"datasource=sample&feedtype=full&data=" + quote_plus(FEED).encode()
LONG_FEED = b"<gsafeed>" + b"many a word " * 1000 + b"</gsafeed>"
PIECES = (b"%", b"%4", b"%41", b"%e2%82%ac", b"+", b"=", b"a", b"\r", b"\n", b"_", b"%zz")
ESCAPES = st.lists(st.sampled_from(PIECES)).map(b"".join)
READ = ({"datasource": "sample", "feedtype": "full", "data": ""}, FEED)


def read(blocks: Iterable[bytes], content_type: str) -> tuple[dict[str, str], bytes]:
    """Read a form; return its fields and its feed."""
    feed = bytearray()
    fields = forms.read_form(blocks, content_type, known=KNOWN, write=feed.extend)
    return fields, bytes(feed)


def refusal_of(blocks: Iterable[bytes], content_type: str) -> str:
    with pytest.raises(RefusedError) as caught:
        read(blocks, content_type)
    assert caught.value.status == 400
    return str(caught.value)


def part(header: str, content: bytes) -> bytes:
    return b"--x\r\n" + header.encode("latin-1") + b"\r\n\r\n" + content + b"\r\n"


def named(name: str, content: bytes) -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"', content)


DATA_HEAD = 'Content-Disposition: form-data; name="data"'
LONG_NAME = b"<gsafeed>" + b"a" * 2000
INCOMPLETE = "multipart/form-data: {}; expected complete parts"


def cut(content: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(content), *(place for place in places if place < len(content))})
    return [content[begin:end] for begin, end in pairwise(bounds)]


@pytest.mark.parametrize(
    "content_type",
    [
        *(MULTIPART, 'multipart/form-data; boundary="<<"', "multipart/form-data;boundary=<<"),
        *("Multipart/Form-Data; charset=UTF-8; BOUNDARY=<< ; x=y", "multipart/form-data"),
        *("multipart/form-data; boundary = <<", r'multipart/form-data; boundary="<\<"'),
        *("", "text/xml", "multipart/mixed"),
    ],
)
def test_a_multipart_form_has_its_boundary_in_the_header_or_in_the_first_line(
    content_type: str,
) -> None:
    assert read([PARTS], content_type) == READ


@pytest.mark.parametrize(
    "content_type",
    [URLENCODED, "multipart/form-data", "", "text/plain", "multipart/form-data; boundary="],
)
def test_a_body_that_does_not_begin_with_a_boundary_is_urlencoded(content_type: str) -> None:
    assert read([PAIRS], content_type) == READ


@pytest.mark.parametrize(
    ("body", "fields", "feed"),
    [
        (
            b"data=%3Ca%2F%3E&feedtype=full%0D%0A&datasource=+s\r\n",
            {"data": "", "feedtype": "full", "datasource": "s"},
            b"<a/>",
        ),
        (b"data=+%3Ca%2F%3E%0A", {"data": ""}, b" <a/>\n"),
        (b"submit=%3ESubmit%3C&datasource=s&submit=again&=&x", {"datasource": "s"}, b""),
        (
            named("datasource", b"s")
            + part('CONTENT-DISPOSITION: form-data; name="data"; filename="../a.xml"', b"<a/>")
            + b"--x--\r\n",
            {"datasource": "s", "data": ""},
            b"<a/>",
        ),
        (part(f'{DATA_HEAD}; filename="größe.xml"', b"%3C+") + b"--x--\r\n", {"data": ""}, b"%3C+"),
    ],
    ids=["order-and-white-space", "data-as-it-is", "unknown-fields", "filename", "latin-1"],
)
def test_fields_are_read(body: bytes, fields: dict[str, str], feed: bytes) -> None:
    kind = OF_X if body.startswith(b"--") else URLENCODED
    assert read([body], kind) == (fields, feed)


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"data=a&data=", URLENCODED, "data: given twice; expected it once"),
        (
            b"datasource=" + b"a" * 4097,
            URLENCODED,
            "datasource: more than 4096 bytes; expected less",
        ),
        (b"datasource=%FF", URLENCODED, "datasource: b'\\xff'; expected UTF-8"),
        (b"&" * 20, URLENCODED, "more than 20 fields; expected those of a feed"),
        (LONG_NAME, "text/xml", f"{LONG_NAME[:80]!r}; expected name=value"),
        (b"--x", "", "b'--x'; expected a boundary, followed by a line end"),
        (named("x", b"") * 21, OF_X, INCOMPLETE.format("Maximum segment count exceeded")),
        (
            PARTS.removesuffix(b"--\r\n"),
            MULTIPART,
            INCOMPLETE.format("Unexpected end of multipart stream (parser closed)"),
        ),
        (
            part("Content-Type: text/xml", b"<a/>"),
            OF_X,
            INCOMPLETE.format("Missing Content-Disposition segment header"),
        ),
        (
            part(f"{DATA_HEAD}\r\nContent-Transfer-Encoding: Base64", b"PGEvPg=="),
            OF_X,
            "Content-Transfer-Encoding: base64; expected the content without it",
        ),
    ],
)
def test_a_body_that_is_no_form_is_refused(body: bytes, content_type: str, words: str) -> None:
    assert refusal_of([body], content_type) == words


@pytest.mark.parametrize(
    ("head", "content_type"),
    [(PARTS.partition(FEED)[0], MULTIPART), (b"datasource=s&data=", URLENCODED)],
)
def test_a_large_feed_is_never_held(head: bytes, content_type: str) -> None:
    block = b"PGI%2B+" * 10_000
    blocks = itertools.chain([head], itertools.repeat(block, 500), [b"\r\n--<<--\r\n"])
    sizes: list[int] = []
    tracemalloc.start()
    forms.read_form(blocks, content_type, known=KNOWN, write=lambda some: sizes.append(len(some)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(sizes) > 20_000_000
    assert peak < 1_000_000


@given(
    st.sampled_from([(PARTS, MULTIPART), (PARTS, ""), (PAIRS, URLENCODED), (PAIRS, "")]),
    st.lists(st.integers(0, len(PARTS))),
)
def test_a_form_is_the_same_wherever_it_is_cut(form: tuple[bytes, str], places: list[int]) -> None:
    body, content_type = form
    assert read(cut(body, places), content_type) == READ


@given(st.binary(max_size=300), st.lists(st.integers(0, 400)))
def test_any_data_comes_through_pairs(content: bytes, places: list[int]) -> None:
    body = b"datasource=s&data=" + quote_plus(content).encode() + b"&feedtype=full"
    fields = {"datasource": "s", "data": "", "feedtype": "full"}
    assert read(cut(body, places), URLENCODED) == (fields, content)


@given(
    st.lists(st.sampled_from([b"\r", b"\n", b"-", b"<", b"--<", b"a"])).map(b"".join),
    st.lists(st.integers(0, 200)),
)
def test_any_data_without_the_boundary_comes_through_parts(
    content: bytes, places: list[int]
) -> None:
    inside = b"\r\n" + content + b"\r\n"
    content = content if b"\r\n--<<" not in inside else b""
    body = PARTS.replace(FEED, content)
    assert read(cut(body, places), MULTIPART) == (READ[0], content)


@given(
    st.lists(
        st.sampled_from([b"--<<", b"--", b"\r\n", b"\n", b"Content-Disposition: form-data;"])
        | st.sampled_from([b' name="data"', b"a=", b"%4", b"&", b"datasource", b"\xff", b": "])
    ).map(b"".join)
    | st.binary(),
    st.sampled_from([MULTIPART, URLENCODED, "", 'multipart/form-data; boundary="\\"', "a;b=;;"]),
    st.lists(st.integers(0, 100)),
)
def test_any_bytes_are_decoded_or_refused(
    garbage: bytes, content_type: str, places: list[int]
) -> None:
    try:
        fields, _ = read(cut(garbage, places), content_type)
    except RefusedError as exc:
        fields = {"refused": str(exc)}
    assert fields.keys() <= {"datasource", "feedtype", "data", "refused"}


def body_refusal(blocks: Iterable[bytes]) -> tuple[int, str]:
    with pytest.raises(RefusedError) as caught:
        list(blocks)
    return caught.value.status, str(caught.value)


def decoded(blocks: list[bytes]) -> bytes:
    return read([b"data=", *blocks], URLENCODED)[1]


@pytest.mark.parametrize(
    ("encoding", "body", "status", "words"),
    [
        ("gzip", gzip.compress(LONG_FEED)[:-9], 400, "an incomplete compressed body; expected all"),
        ("gzip", b"", 400, "an incomplete compressed body; expected all of it"),
        ("gzip", b"<gsafeed/>", 400, "a compressed body: Error -3 while decompressing data"),
        ("gzip", gzip.compress(b"a") * 2, 400, "bytes after a compressed body; expected its end"),
        ("gzip", gzip.compress(bytes(4 << 20)), 413, "a body of 1048576 bytes or more; expected"),
        ("", bytes(1 << 20), 413, "a body of 1048576 bytes or more; expected less than 1048576"),
        ("br", b"", 415, "Content-Encoding: 'br'; expected gzip or none"),
        ("gzip, gzip", b"", 415, "Content-Encoding: 'gzip, gzip'; expected gzip or none"),
    ],
    ids=["torn", "empty", "not-gzip", "two-streams", "bomb", "limit", "unknown", "twice"],
)
def test_a_body_that_cannot_be_decoded_is_refused(
    encoding: str, body: bytes, status: int, words: str
) -> None:
    def blocks() -> Iterable[bytes]:
        yield from limit_size(decompress(filter(None, [body]), encoding), limit=1 << 20)

    refusal = body_refusal(blocks())
    assert (refusal[0], refusal[1][: len(words)]) == (status, words)


def test_pieces_have_a_bounded_size() -> None:
    bomb = gzip.compress(bytes(4 << 20))
    sizes = [len(piece) for piece in decompress([bomb], "gzip")]
    assert (max(sizes), sum(sizes)) == (PIECE_BYTES, 4 << 20)


@given(ESCAPES, st.lists(st.integers(0, 40)))
def test_a_cut_changes_nothing(text: bytes, places: list[int]) -> None:
    assert decoded(cut(text, places)) == unquote_to_bytes(text.replace(b"+", b" "))


@given(
    st.binary(max_size=2000),
    st.lists(st.integers(0, 200)),
    st.sampled_from(["gzip", "x-gzip", "GZip", "", " Identity "]),
)
def test_a_body_is_decoded_wherever_it_is_cut(
    content: bytes, places: list[int], encoding: str
) -> None:
    body = gzip.compress(content) if "zip" in encoding.lower() else content
    assert b"".join(decompress(cut(body, places), encoding)) == content
