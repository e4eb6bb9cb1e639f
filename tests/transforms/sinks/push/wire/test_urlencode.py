"""Values of forms, encoded block by block."""

import base64
from urllib.parse import parse_qsl

from hypothesis import given
from hypothesis import strategies as st

from transforms.sinks.push.wire.urlencode import encode, encoded_length


def decoded(query: bytes) -> list[tuple[str, bytes]]:
    """The fields of a form, as a server reads them."""
    pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, encoding="latin-1")
    return [(name, value.encode("latin-1")) for name, value in pairs]


def test_letters_digits_and_a_few_marks_stay_as_they_are() -> None:
    assert encode(b"AZaz09-_.~*") == b"AZaz09-_.~*"


def test_a_space_is_a_plus_and_a_plus_is_encoded() -> None:
    assert encode(b"1 + 1") == b"1+%2B+1"


def test_a_percent_sign_is_encoded_once() -> None:
    assert encode(b"100%+") == b"100%25%2B"


def test_markup_is_encoded_in_capital_hexadecimal() -> None:
    assert encode(b'<a b="c/d"/>\r\n') == b"%3Ca+b%3D%22c%2Fd%22%2F%3E%0D%0A"


def test_bytes_that_are_no_text_are_encoded() -> None:
    assert encode(b"\x00\xc3\xa9\xff") == b"%00%C3%A9%FF"


def test_nothing_is_nothing() -> None:
    assert encode(b"") == b""


def test_a_block_of_many_slices_is_encoded_to_its_end() -> None:
    block = base64.b64encode(bytes(range(256)) * 300)
    assert decoded(b"data=" + encode(block)) == [("data", block)]


@given(st.binary(max_size=200))
def test_what_was_encoded_is_read_back(block: bytes) -> None:
    assert decoded(b"data=" + encode(block)) == [("data", block)]


@given(st.binary(max_size=200))
def test_the_length_is_known_beforehand(block: bytes) -> None:
    assert encoded_length(block) == len(encode(block))


@given(st.binary(max_size=200), st.integers(0, 200))
def test_where_a_document_is_cut_makes_no_difference(block: bytes, cut: int) -> None:
    assert encode(block[:cut]) + encode(block[cut:]) == encode(block)


def test_every_byte_is_read_back() -> None:
    assert decoded(b"data=" + encode(bytes(range(256)))) == [("data", bytes(range(256)))]
