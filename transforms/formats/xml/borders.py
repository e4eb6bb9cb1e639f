"""The borders of XML: where the spans of a large file begin.

A border is the begin of a main record after a line of the grid, which does not directly follow a
fault. The scanner finds the one that ends a span, and `cut` lets it find all. `ElementBorders`
guesses them from a survey of each part of a file, in a tenth of the time.

A survey counts line ends, and looks for the first record and for the last end tags of the root and
of a group. It does not know comments and CDATA sections, nor damage. So a guess may be wrong, and
costs time then: `transforms.convert.convert_on` has the rule.
"""

import io
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import IO

import msgspec

from feedferry.schemas.errors import FormatError
from feedferry.schemas.span import ElementContext, Span, SpanEnd
from feedferry.transforms.formats.base import OpenAt, ReadOptions, Survey
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.text.byte_scans import count_lines, rfind
from feedferry.transforms.formats.xml.scanning.ambiguous_sections import find_certain_end
from feedferry.transforms.formats.xml.scanning.raw_elements import RawElement, Run
from feedferry.transforms.formats.xml.scanning.record_markup import RecordMarkup, markup_of
from feedferry.transforms.formats.xml.scanning.scanner import RecordScanner
from feedferry.transforms.formats.xml.scanning.sections import CDATA

_BLOCK_BYTES = 256 << 10
_FRAME_BYTES = 64 << 10
"""Most bytes of the markup between two records that are surveyed."""

_TAG_BYTES = 64
"""The overlap of blocks: more bytes than the begin of a tag."""


def cut(
    names: ElementNames,
    stream: IO[bytes],
    *,
    source: str,
    span_bytes: int,
    options: ReadOptions = ReadOptions(),
) -> Iterator[Span]:
    """Yield the spans of a grid, each but the last with its length.

    A stream that is not UTF-8 is one span: its offsets cannot be sought.
    """
    span = Span(source=source, grid=span_bytes)
    scanner = RecordScanner(
        stream,
        names,
        span,
        max_unit_bytes=options.max_unit_bytes,
        bulk=partial(_pass_run, markup_of(names)),
        run_bytes=span_bytes,
    )
    while True:
        for _ in scanner:
            pass
        end = scanner.border
        length = None if end is None else end.offset - span.offset
        yield msgspec.structs.replace(span, length=length, grid=0)
        if end is None:
            return
        span = span.next(end)
        scanner.pass_border()


def _pass_run(
    markup: RecordMarkup, run: bytes, _offset: int, _line: int, _context: ElementContext
) -> Run | None:
    """Pass elements without reading them; None if the last end tag is part of a bad range.

    Without sections other than CDATA, groups and roots in between, each end tag of a record
    certainly ends one. The last is not passed: a border depends on whether it ends a bad range.
    """
    at = end = 0
    while True:
        barrier = markup.ends_certainty.search(run, at)
        last = rfind(run, markup.end_tag, at, barrier.start() if barrier else len(run))
        end = last if last >= 0 else end
        if not barrier or not run.startswith(CDATA.opener, barrier.start()):
            break
        close = find_certain_end(run, barrier.end(), markup)
        if close < 0:
            break
        at = close + len(CDATA.closer)
    passed = rfind(run, markup.end_tag, 0, end)
    return Run([], 0, passed + len(markup.end_tag)) if passed >= 0 else None


class ElementBorders:
    """The borders of a format with these elements."""

    def __init__(self, names: ElementNames) -> None:
        self._names, self._main_record = names, markup_of(names).main_record
        nested = filter(None, (names.root, names.group))
        self.closers = [b"</%b" % name.encode() for name in nested]

    def survey(self, open_at: OpenAt, span: Span) -> Survey:
        """Survey a part up to the first record of the next part, whose line ends are counted.

        The frames are the markup between records that may change their context.
        """
        with open_at(span.offset) as stream:
            return _Surveyor(self, stream, span).survey()

    def guess(self, surveys: Iterable[Survey]) -> Iterator[SpanEnd]:
        """Yield the guesses from the surveys of a file, each after the survey of its part."""
        line, context = 1, None
        for survey, following in pairwise(surveys):
            for frame in survey.frames:
                context = self._context_after(frame, context)
            if following.begin is None or context is None:
                return
            line += survey.lines
            yield SpanEnd(following.begin, line, context)

    def find_record(self, data: bytes, begin: int) -> int:
        """Return where the first record begins, -1 without one."""
        record = self._main_record.search(data, begin)
        return record.start() if record else -1

    def _context_after(self, frame: bytes, context: ElementContext | None) -> ElementContext | None:
        """Return the context of a record after a frame, None if there can be none."""
        span = Span(offset=0 if context is None else 1, position=context)
        stream = io.BytesIO(frame + b"<%b/>" % self._names.records[0].encode())
        scanner = RecordScanner(stream, self._names, span, max_unit_bytes=_FRAME_BYTES)
        try:
            contexts = [item.context for item in scanner if isinstance(item, RawElement)]
        except FormatError:
            return None
        return contexts[-1] if contexts and scanner.is_utf8 else None


class _Surveyor:
    """One survey. The data begin at the offset `_at`; line ends before `_counted` are counted.

    A frame begins at the begin of the file, or at the last end tag of a root or of a group.
    """

    def __init__(self, borders: ElementBorders, stream: IO[bytes], span: Span) -> None:
        self._borders, self._stream = borders, stream
        self._at = self._counted = span.offset
        self._line = span.offset + span.grid
        self._begin = None if span.offset else 0
        self._data, self._lines = b"", 0
        self._places = [-1 if span.offset else 0, *(-1 for _ in borders.closers)]
        self._frames: dict[int, bytes] = {}

    def survey(self) -> Survey:
        is_complete = False
        while not is_complete:
            block = self._stream.read(_BLOCK_BYTES)
            self._data += block
            is_complete = self._look(is_last=not block) or not block
            self._drop()
        first, root, *group = self._places
        places = [first, root, *(place for place in group if place > root)]
        frames = tuple(self._frames[place] for place in places if place >= 0)
        return Survey(begin=self._begin, lines=self._lines, frames=frames)

    def _look(self, *, is_last: bool) -> bool:
        """Survey the data; return whether they hold the begin of the next survey."""
        data = self._data
        if self._begin is None:
            begin = self._borders.find_record(data, 0)
            if begin < 0:
                return False
            self._begin = self._counted = self._at + begin
        line = max(self._line, self._begin) - self._at
        following = self._borders.find_record(data, max(line, 0)) if line < len(data) else -1
        end = len(data) if following < 0 else following
        self._lines += count_lines(data, self._counted - self._at, end)
        self._counted = self._at + end
        self._find_frames(max(self._begin - self._at, 0), end)
        for place in self._places:
            if place >= 0 and place not in self._frames:
                self._take_frame(place, is_last=is_last)
        return following >= 0

    def _find_frames(self, begin: int, end: int) -> None:
        closers = self._borders.closers
        if rfind(self._data, closers[-1], begin, end) >= 0:  # a root ends after its last group
            for number, closer in enumerate(closers, start=1):
                place = rfind(self._data, closer, begin, end)
                self._places[number] = self._at + place if place >= 0 else self._places[number]

    def _take_frame(self, place: int, *, is_last: bool) -> None:
        """Take the bytes from a place up to the next record, if they are there."""
        begin = place - self._at
        limit = begin + _FRAME_BYTES
        record = self._borders.find_record(self._data, begin)
        if record >= 0 or is_last or limit < len(self._data):
            self._frames[place] = self._data[begin : limit if record < 0 else min(record, limit)]

    def _drop(self) -> None:
        """Drop the data but for the begin of a tag, and frames that have not ended."""
        unfinished = (place for place in self._places if place >= 0 and place not in self._frames)
        keep = min([*unfinished, self._at + max(0, len(self._data) - _TAG_BYTES)])
        self._data = self._data[keep - self._at :]
        self._at = keep
