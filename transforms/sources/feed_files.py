"""Files of records, in any of the formats: the source of every input that is no other source."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice

from msgspec.structs import replace

from feedferry.schemas.check import Check, CheckLine, fail, ok
from feedferry.schemas.errors import (
    FormatError,
    RecordError,
    SourceError,
    UnknownFormatError,
    UnreadableError,
)
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.reject import (
    KEPT_BYTES,
    TORN_END,
    UNKNOWN_ENCODING,
    UNKNOWN_FORMAT,
    UNREADABLE,
    Place,
    Reject,
    reject_bytes,
    unreadable_file,
)
from feedferry.schemas.span import ContainerHeader, Span, SpanEnd, UnreadableFile
from feedferry.schemas.units import counted
from feedferry.transforms.formats import Format, by_name, find_format
from feedferry.transforms.formats.base import MAX_MATCH_BYTES, ReadOptions, ReadResult
from feedferry.transforms.sources.base import ByteCount, Source, SourceRun, SpanRequest
from feedferry.transforms.sources.files import SpanStream, open_span, sniff_format

_READABLE_CODES = frozenset({UNKNOWN_ENCODING, UNKNOWN_FORMAT})
"""Codes of files whose bytes can be read."""

_SEARCHED_BYTES = 1 << 20

Then = Callable[[Iterator[ReadResult]], Generator[ReadResult, None, None]]
"""A further step of reading; it takes the results of a file, and is closed with them."""


class FeedFiles(Source[None]):
    """Files of records."""

    name = ""
    title = "files of records"
    noun = "files of records"
    span_formats = frozenset({UNREADABLE})
    is_inspected = True

    def checks(self, runs: Sequence[SourceRun[None]]) -> Iterator[Check]:
        yield Check("input", partial(_check_files, [run.span for run in runs]))

    def may_inherit(self, span: Span, config: None) -> bool:
        """Whether the pattern of its format is in a file; a file that cannot be searched may."""
        return any(map(_may_inherit, span.members or (span,)))

    def split(self, run: SourceRun[None]) -> Iterator[Span]:
        """Yield the file as it is; large files are split by workers."""
        yield run.span

    def read(self, request: SpanRequest[None]) -> Generator[ReadResult, None, None]:
        spans = request.span.members or (request.span,)
        return read_files(spans, request.options, request.count, explain=_other_format)


def _may_inherit(span: Span) -> bool:
    format_ = find_format(span.format)
    if format_ is None or span.encoding:
        return True
    text = b""
    try:
        with open_span(span) as stream:
            while piece := stream.read(_SEARCHED_BYTES):
                text += piece
                end = text.rfind(b">") + 1 or len(text)  # a part of a tag may look like a match
                if format_.may_relate_acls(text[:end]):
                    return True
                text = text[min(end, max(len(text) - MAX_MATCH_BYTES, 0)) :]
    except (FormatError, SourceError):  # reported when records are read
        return True
    return bool(text) and format_.may_relate_acls(text)


def _check_files(spans: Sequence[Span], _seconds: float) -> Iterator[CheckLine]:
    size = sum((span.signature and span.signature.size) or 0 for span in spans)
    yield ok("input", f"{counted(len(spans), 'file')}, {size:,} bytes", size=size)
    unreadable = [span for span in spans if isinstance(span.position, UnreadableFile)]
    for span in unreadable[:1]:
        found = f"{counted(len(unreadable), 'file')} cannot be read, the first {span.source}"
        reason = span.position.reason if isinstance(span.position, UnreadableFile) else ""
        yield fail("input", f"{found}: {reason}", "let the user of the run read them")


def _other_format(span: Span) -> str:
    """Return how to read a file of another format than the stated one, as the end of an error."""
    try:
        name = sniff_format(replace(span, offset=0))
    except (FormatError, SourceError, UnknownFormatError):
        return ""
    if name == span.format:
        return ""
    return f"; the file is {name}: expected no --from, or in a job source.type: feeds"


def read_files(
    spans: Iterable[Span],
    options: ReadOptions,
    count: ByteCount,
    *,
    explain: Callable[[Span], str] = lambda span: "",
) -> Generator[ReadResult, None, None]:
    """Yield the results of files, one after the other; a file that cannot be read is a Reject.

    Raise FormatError if it is the only file. `explain` returns what is added to this error.
    """
    for span in spans:
        if isinstance(span.position, UnreadableFile):
            yield from _reject_file(span, span.position, count)
            continue
        try:
            with closing(read_file(span, by_name(span.format), options, count)) as results:
                yield from _hold_first_reject(results)
        except FormatError as exc:
            exc.args = (f"{exc.text}{explain(span)}",)
            if span.is_only:
                raise
            yield from _reject_file(span, unreadable_file(span.source, exc), count)


def _hold_first_reject(results: Iterator[ReadResult]) -> Iterator[ReadResult]:
    """Hold the first result back if it is a Reject: it may be all that there is of a file."""
    held = list(islice(results, 1))
    if held and isinstance(held[0], Reject):
        held += islice(results, 1)
    while held:
        yield held.pop(0)  # a large record is not held while the next one is read
    yield from results


def read_file(
    span: Span, format_: Format, options: ReadOptions, count: ByteCount, then: Then | None = None
) -> Generator[ReadResult, None, None]:
    """Yield the results of a file as far as it can be read, then a Reject of its rest.

    Raise FormatError if the file is not in its format.
    """
    try:
        span = _with_header(span)
        with open_span(span, is_partial=True) as stream, count.of(stream):

            def read() -> Iterator[ReadResult]:
                results = format_.read(stream, span=span, options=options)
                return results if then is None else then(results)

            with closing(_up_to_fault(read, stream, format_, span)) as readable:
                yield from readable
    except UnreadableError as exc:
        yield from _reject_file(span, unreadable_file(span.source, exc), count)


def _with_header(span: Span) -> Span:
    """Return a span with the header of its container, which is at the begin of the file."""
    if not isinstance(span.position, ContainerHeader):
        return span
    with open_span(replace(span, offset=0)) as stream:
        header = replace(span.position, data=stream.read(span.position.length))
        return replace(span, position=header)


def _up_to_fault(
    read: Callable[[], Iterator[ReadResult]], stream: SpanStream, format_: Format, span: Span
) -> Generator[ReadResult, None, None]:
    """Yield results up to a fault of the stream, then a Reject of everything after it.

    A fault after the end of the span is left to the next span. Of a format without record ends, the
    last record before the fault may be a part of a record.
    """
    has_record_ends = format_.has_record_ends
    results: Iterator[ReadResult] = iter(())
    try:
        results = read()
        for result in results:
            if isinstance(result, SpanEnd):
                stream.end_at(result.offset - span.offset)
                yield result
                return
            if stream.fault is None:
                yield result
            elif has_record_ends and not (isinstance(result, Reject) and result.code == TORN_END):
                yield result  # the reject of the fault explains a torn end
            del result  # a large record is not held while the next one is read
    except FormatError:
        if stream.fault is None:
            raise
    finally:
        if isinstance(results, Generator):
            results.close()
    if stream.fault is not None:
        place = Place(span.offset + stream.bytes_read, 0)
        yield reject_bytes(stream.fault, span=span, place=place, data=b"")


def _reject_file(span: Span, file: UnreadableFile, count: ByteCount) -> Iterator[ReadResult]:
    """Yield the header of the feed that a file was posted as, and the reject of the file."""
    if span.feed is not None:
        yield FeedHeader(
            source=span.source,
            datasource=span.feed.datasource or None,
            feedtype=span.feed.feedtype or None,
            memberships=by_name(span.format).holds_only_memberships,
        )
    data = more = b""
    if file.code in _READABLE_CODES:
        with open_span(span, is_partial=True) as stream, count.of(stream):
            data, more = stream.read(KEPT_BYTES), stream.read(1)
    error = RecordError(file.code, file.reason)
    reject = reject_bytes(error, span=span, place=Place(span.offset, len(data)), data=data)
    yield replace(reject, truncated=bool(more))


FEED_FILES = FeedFiles()
