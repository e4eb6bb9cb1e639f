"""A shape has nothing but its element."""

import io
from typing import Any

import pytest

from schemas.record import Record
from schemas.reject import Reject
from schemas.span import Span
from support.batches import SIZES
from transforms.formats import ReadOptions, by_name
from transforms.formats.record_batch import singly

ROOT, WITH_PREFIX = "<gsafeed>", '<gsafeed xmlns:q="u">'


def feed_of(root: str, records: str, *, feedtype: str = "incremental", mark: str = "") -> bytes:
    header = f"<header><datasource>d</datasource><feedtype>{feedtype}</feedtype></header>"
    return f"{mark}{root}\n{header}<group>\n{records}\n</group></gsafeed>\n".encode()


def read(data: bytes, *, batch_records: int = 1024, format_: str = "gsa-feed") -> list[Any]:
    options = ReadOptions(batch_records=batch_records)
    return [*singly(by_name(format_).read(io.BytesIO(data), span=Span(), options=options))]


def plain_records(count: int = 20) -> list[str]:
    return [f'<record url="http://e.com/{n}" mimetype="text/plain"></record>' for n in range(count)]


@pytest.mark.parametrize("root", [ROOT, WITH_PREFIX])
@pytest.mark.parametrize("text", ["text", "\ufeff", "\ufeff\n", "&#32;"])
@pytest.mark.parametrize("size", [0, *SIZES])
def test_text_between_records_that_are_alike_is_rejected(root: str, text: str, size: int) -> None:
    data = feed_of(root, text.join(plain_records(4)))
    results = read(data, batch_records=size)
    kinds = [type(result) for result in results]
    assert kinds == [Record, Reject, Record, Reject, Record, Reject, Record]
    assert {result.data.rstrip() for result in results[1::2]} == {text.strip("\n").encode()}
    assert {result.code for result in results[1::2]} == {"stray"}
