"""Guess where the spans of a large archive begin: after a sync marker, or after the end of a line.

A survey is of the places from one multiple of the grid to the next, so that large blocks and lines
are surveyed once. A content of Avro may hold sync markers, too, so a guess may be wrong:
`transforms.convert.convert_on` has the rule.
"""

from collections.abc import Iterable, Iterator
from typing import IO

from feedferry.schemas.span import ContainerHeader, Span, SpanEnd
from feedferry.transforms.formats.base import OpenAt, Survey
from feedferry.transforms.formats.canonical.avro import MAX_HEADER_BYTES, SYNC_BYTES, open_container
from feedferry.transforms.formats.text.byte_scans import count_lines, find

_BLOCK_BYTES = 256 << 10
_LINE_END = b"\n"


class LineBorders:
    """The borders of JSON lines."""

    def survey(self, open_at: OpenAt, span: Span) -> Survey:
        """Find the first line of a part, and count the line ends before all lines of the part."""
        first = max(span.offset - len(_LINE_END), 0)
        begin, lines = None if span.offset else 0, 0
        with open_at(first) as stream:
            for at, block in _blocks(stream, first, span.offset + span.grid - len(_LINE_END)):
                if begin is None and (place := find(block, _LINE_END)) >= 0:
                    begin = at + place + len(_LINE_END)
                lines += count_lines(block, 0, len(block))
                first = at + len(block)
            is_end = begin == first and not stream.read(1)
        return Survey(begin=None if is_end else begin, lines=lines)

    def guess(self, surveys: Iterable[Survey]) -> Iterator[SpanEnd]:
        """Yield the first line of each part that has one."""
        line = 1
        for number, survey in enumerate(surveys):
            if number and survey.begin is not None:
                yield SpanEnd(survey.begin, line + 1)
            line += survey.lines


class BlockBorders:
    """The borders of an Avro container, whose header is the frame of the first survey."""

    def survey(self, open_at: OpenAt, span: Span) -> Survey:
        """Find the first sync marker that a block of a part may follow."""
        with open_at(0) as stream:
            container = open_container(stream.read(MAX_HEADER_BYTES), source=span.source)
        if not span.offset:
            return Survey(begin=0, frames=(container.header,))
        first = max(span.offset - SYNC_BYTES, len(container.header))  # the first block is no border
        with open_at(first) as stream:
            data = b""
            for at, block in _blocks(stream, first, span.offset + span.grid):
                data = data[-SYNC_BYTES:] + block
                if (place := find(data, container.sync, 0, len(data) - 1)) >= 0:
                    return Survey(begin=at + len(block) - len(data) + place + SYNC_BYTES)
        return Survey(begin=None)

    def guess(self, surveys: Iterable[Survey]) -> Iterator[SpanEnd]:
        """Yield the block of each part in which there seems to be one."""
        following = iter(surveys)
        for header in next(following).frames:
            for survey in following:
                if survey.begin is not None:
                    yield SpanEnd(survey.begin, 1, ContainerHeader(len(header)))


def _blocks(stream: IO[bytes], at: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the offsets and blocks of a stream that begins at an offset, up to another one."""
    while at < end and (block := stream.read(min(end - at, _BLOCK_BYTES))):
        yield at, block
        at += len(block)
