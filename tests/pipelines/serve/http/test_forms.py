import itertools
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.serve.http import forms
from pipelines.serve.http.exchange import RefusedError

KNOWN = ("datasource", "feedtype")
URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=<<"
OF_X = "multipart/form-data; boundary=x"
FEED = b"<gsafeed>\r\n--<\r\n</gsafeed>\r\n"
PARTS = (
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"sample\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"full\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="data"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + FEED + b"\r\n"
    b"--<<--\r\n"
)
PAIRS = b"datasource=sample&feedtype=full&data=" + quote_plus(FEED).encode()
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


def one_of_x(*parts: bytes) -> tuple[dict[str, str], bytes]:
    return read([b"".join(parts) + b"--x--\r\n"], "multipart/form-data; boundary=x")


def cut(content: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(content), *(place for place in places if place < len(content))})
    return [content[begin:end] for begin, end in pairwise(bounds)]


def test_a_multipart_form_is_read() -> None:
    assert read([PARTS], MULTIPART) == READ


def test_an_urlencoded_form_is_read() -> None:
    assert read([PAIRS], URLENCODED) == READ


@pytest.mark.parametrize(
    "content_type",
    [
        'multipart/form-data; boundary="<<"',
        "multipart/form-data;boundary=<<",
        "Multipart/Form-Data; charset=UTF-8; BOUNDARY=<< ; x=y",
        "multipart/form-data; boundary = <<",
        r'multipart/form-data; boundary="<\<"',
    ],
)
def test_a_boundary_is_found_however_it_is_written(content_type: str) -> None:
    assert read([PARTS], content_type) == READ


def test_a_boundary_that_ends_in_a_dollar_is_one() -> None:
    boundary = b"----------boundary_of_feed_data$"
    body = PARTS.replace(b"--<<", b"--" + boundary)
    assert read([body], f"multipart/form-data; boundary={boundary.decode()}") == READ


@pytest.mark.parametrize("content_type", ["multipart/form-data", "", "text/xml", "multipart/mixed"])
def test_boundary_is_read_from_the_first_line(content_type: str) -> None:
    assert read([PARTS], content_type) == READ


@pytest.mark.parametrize(
    "content_type",
    ["multipart/form-data", "", "text/plain", "multipart/form-data; boundary="],
)
def test_a_body_that_begins_otherwise_is_urlencoded(content_type: str) -> None:
    assert read([PAIRS], content_type) == READ


def test_data_may_come_first() -> None:
    body = b"data=%3Cgsafeed%2F%3E&feedtype=full&datasource=sample"
    assert read([body], URLENCODED) == (
        {"data": "", "feedtype": "full", "datasource": "sample"},
        b"<gsafeed/>",
    )


def test_parts_need_no_type_and_may_have_a_filename() -> None:
    feed = part('CONTENT-DISPOSITION: form-data; name="data"; filename="../a.xml"', b"<a/>")
    assert one_of_x(named("datasource", b"s"), feed) == ({"datasource": "s", "data": ""}, b"<a/>")


def test_a_filename_in_latin_1_is_no_trouble() -> None:
    feed = part('Content-Disposition: form-data; name="data"; filename="größe.xml"', b"<a/>")
    assert one_of_x(feed) == ({"data": ""}, b"<a/>")


def test_escapes_in_a_part_are_kept() -> None:
    assert one_of_x(named("data", b"%3Ca%2F%3E+")) == ({"data": ""}, b"%3Ca%2F%3E+")


def test_white_space_around_a_field_does_not_count() -> None:
    assert read([b"feedtype=full%0D%0A&datasource=+s\r\n"], URLENCODED) == (
        {"feedtype": "full", "datasource": "s"},
        b"",
    )


def test_white_space_around_data_stays() -> None:
    assert read([b"data=+%3Ca%2F%3E%0A"], URLENCODED) == ({"data": ""}, b" <a/>\n")


def test_unknown_fields_are_ignored() -> None:
    body = b"submit=%3ESubmit%3C&datasource=s&submit=again&=&x"
    assert read([body], URLENCODED) == ({"datasource": "s"}, b"")


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
        (
            b"<gsafeed>" + b"a" * 2000,
            "text/xml",
            f"{b'<gsafeed>' + b'a' * 71!r}; expected name=value",
        ),
        (b"--x", "", "b'--x'; expected a boundary, followed by a line end"),
        (
            named("x", b"") * 21,
            OF_X,
            "multipart/form-data: Maximum segment count exceeded; expected complete parts",
        ),
        (
            PARTS.removesuffix(b"--\r\n"),
            MULTIPART,
            "multipart/form-data: Unexpected end of multipart stream (parser closed); "
            "expected complete parts",
        ),
        (
            part("Content-Type: text/xml", b"<a/>"),
            OF_X,
            "multipart/form-data: Missing Content-Disposition segment header; "
            "expected complete parts",
        ),
        (
            part(
                'Content-Disposition: form-data; name="data"\r\nContent-Transfer-Encoding: Base64',
                b"PGEvPg==",
            ),
            OF_X,
            "Content-Transfer-Encoding: base64; expected the content without it",
        ),
    ],
)
def test_a_body_that_is_no_form_is_refused(body: bytes, content_type: str, words: str) -> None:
    assert refusal_of([body], content_type) == words


def test_a_boundary_with_a_line_end_in_it_is_no_boundary() -> None:
    kind = 'multipart/form-data; boundary="a\nb"'
    assert refusal_of([PARTS], kind).startswith("multipart/form-data: Invalid characters")


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
