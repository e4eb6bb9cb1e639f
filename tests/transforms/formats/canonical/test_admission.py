"""The contents that both canonical formats accept."""

import zlib

import pybase64
import pytest
from hypothesis import given

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Content, Encoding, Record
from feedferry.testing.strategies import records
from feedferry.transforms.formats.canonical import admit


def record(data: bytes, encoding: Encoding) -> Record:
    return Record(url="http://www.example.com/", action=Action.ADD, content=Content(data, encoding))


@given(records())
def test_a_canonical_record_is_admitted_unchanged(item: Record) -> None:
    assert admit(item, max_content_bytes=1000) is item


def test_base64_that_was_wrapped_by_hand_is_repaired() -> None:
    original = admit(record(b"Zm9v\nIGJhcgo", Encoding.BASE64), max_content_bytes=1000)
    assert original.content == Content(b"Zm9vIGJhcgo=", Encoding.BASE64)


def test_plain_text_is_not_read_as_base64() -> None:
    original = record(b"Zm9v\nIGJhcgo", Encoding.NONE)
    assert admit(original, max_content_bytes=1000) is original


@pytest.mark.parametrize(
    ("data", "encoding", "code"),
    [
        (b"123456", Encoding.NONE, "content-too-large"),
        (b"****", Encoding.BASE64, "bad-base64"),
        (b"****", Encoding.ZLIB_BASE64, "bad-base64"),
        (b"Zm9v", Encoding.ZLIB_BASE64, "bad-zlib"),
        (pybase64.b64encode(zlib.compress(b"123456")), Encoding.ZLIB_BASE64, "content-too-large"),
    ],
)
def test_a_content_that_no_writer_could_use_is_refused(
    data: bytes, encoding: Encoding, code: str
) -> None:
    with pytest.raises(RecordError) as caught:
        admit(record(data, encoding), max_content_bytes=5)
    assert caught.value.code == code
