"""Parts of Avro datums, byte by byte."""

import pytest

from schemas.acl import Scope
from schemas.avro_parts import (
    INT,
    array,
    bounded,
    extra_part,
    not_unicode,
    optional_text,
    put_provenance,
    stated_symbols,
    symbols,
    text_part,
)
from schemas.errors import RecordError
from schemas.record import Extra, Provenance


def test_a_symbol_is_its_place() -> None:
    assert symbols(Scope) == {"USER": b"\x00", "GROUP": b"\x02"}


def test_a_symbol_that_may_be_null_has_its_branch_before_it() -> None:
    assert stated_symbols(Scope) == {"USER": b"\x02\x00", "GROUP": b"\x02\x02"}


def test_a_text_has_its_length_in_bytes_before_it() -> None:
    assert text_part("ü") == b"\x04\xc3\xbc"


@pytest.mark.parametrize(
    ("text", "part"), [(None, b"\x00"), ("", b"\x02\x00"), ("a", b"\x02\x02a")]
)
def test_a_text_that_is_not_stated_is_not_an_empty_one(text: str | None, part: bytes) -> None:
    assert optional_text(text) == part


@pytest.mark.parametrize(("texts", "part"), [((), b"\x00"), (("a", ""), b"\x04\x02a\x00\x00")])
def test_an_array_is_one_block_and_its_end(texts: tuple[str, ...], part: bytes) -> None:
    assert array(text_part, texts) == part


def test_an_extra_is_its_place_and_its_value() -> None:
    assert extra_part(Extra("a", "b")) == b"\x02a\x02b"


def test_a_provenance_is_its_six_fields() -> None:
    parts: list[bytes] = []
    put_provenance(parts, Provenance(source="f", span=1, line=2, offset=3, feedtype="full"))
    assert b"".join(parts) == b"\x02f\x02\x04\x06\x00\x02\x08full"


def test_a_number_out_of_its_bounds_is_a_record_error() -> None:
    with pytest.raises(RecordError) as caught:
        bounded("line", 2**31, INT)
    assert (caught.value.code, caught.value.reason) == (
        "out-of-range",
        "line=2147483648; expected -2147483648 to 2147483647",
    )


def test_half_a_character_is_named() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        text_part("a\udfff")
    found = not_unicode(caught.value)
    assert (found.code, found.reason) == (
        "not-unicode",
        "a lone surrogate U+DFFF; expected Unicode text",
    )
