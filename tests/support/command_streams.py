"""Reading of command streams in tests: the results of a body in both modes."""

from functools import partial
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from feedferry.schemas.choices import NotFound
from feedferry.schemas.errors import FormatError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import StreamOptions
from feedferry.transforms.formats.base import Reader, ReadOptions, ReadResult
from support.streams import read_both_ways

HEADER = b"GSA Adaptor Data Version 1 [\n]\n"
MODES = pytest.mark.parametrize("is_strict", [True, False])
NOT_UTF8 = "the bytes b'\\xff' in a token; expected UTF-8, with C0 80 and C0 8A besides"


class StreamUnderTest(NamedTuple):
    """A reader of command streams; each method reads a body after the header."""

    reader: Reader

    def read(
        self,
        body: bytes,
        is_strict: bool = False,
        *,
        header: bytes = HEADER,
        not_found: NotFound = NotFound.SKIP,
    ) -> list[ReadResult]:
        options = ReadOptions(own=(StreamOptions(strict=is_strict, not_found=not_found),))
        read = partial(self.reader, span=Span(source="a.txt"), options=options)
        return read_both_ways(read, header + body)

    def records(self, body: bytes, is_strict: bool = False) -> list[Record]:
        """The records without their provenance."""
        results = [result for result in self.read(body, is_strict) if isinstance(result, Record)]
        return [replace(record, provenance=Provenance()) for record in results]

    def record(self, body: bytes, is_strict: bool = False) -> Record:
        (record,) = self.records(body, is_strict)
        return record

    def notices(self, body: bytes, is_strict: bool = False) -> list[tuple[str, str]]:
        notices = [result for result in self.read(body, is_strict) if isinstance(result, Notice)]
        return [(notice.code, notice.detail) for notice in notices]

    def rejects(self, body: bytes) -> list[tuple[str, str, bytes]]:
        """The code, reason and data of each reject; each has the bytes at its place."""
        rejects = [result for result in self.read(body) if isinstance(result, Reject)]
        text = HEADER + body
        assert [text[result.offset :][: result.length] for result in rejects] == [
            result.data for result in rejects
        ]
        return [(result.code, result.reason, result.data) for result in rejects]

    def refusal(self, body: bytes, is_strict: bool = True) -> str:
        with pytest.raises(FormatError) as caught:
            self.read(body, is_strict)
        return str(caught.value)
