"""Files of records, in any of the formats: the source of every input that is no other source."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial

from schemas.check import Check, CheckLine, fail, ok
from schemas.errors import EncodingError, FormatError, UnreadableError
from schemas.feed import FeedHeader
from schemas.reject import TORN_END, UNKNOWN_ENCODING, UNREADABLE, Reject
from schemas.span import Span, UnreadableFile
from schemas.units import counted
from transforms.formats import Format, by_name
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.base import ByteCount, Source, SourceRun, SpanRequest
from transforms.sources.files import SpanStream, open_span

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

    def split(self, run: SourceRun[None]) -> Iterator[Span]:
        """Yield the file as it is; large files are split by workers."""
        yield run.span

    def read(self, request: SpanRequest[None]) -> Generator[ReadResult, None, None]:
        return read_files(request.span.members or (request.span,), request.options, request.count)


def _check_files(spans: Sequence[Span], _seconds: float) -> Iterator[CheckLine]:
    size = sum((span.signature and span.signature.size) or 0 for span in spans)
    yield ok("input", f"{counted(len(spans), 'file')}, {size:,} bytes", size=size)
    unreadable = [span for span in spans if isinstance(span.position, UnreadableFile)]
    for span in unreadable[:1]:
        found = f"{counted(len(unreadable), 'file')} cannot be read, the first {span.source}"
        reason = span.position.reason if isinstance(span.position, UnreadableFile) else ""
        yield fail("input", f"{found}: {reason}", "let the user of the run read them")


def read_files(
    spans: Iterable[Span], options: ReadOptions, count: ByteCount
) -> Generator[ReadResult, None, None]:
    """Yield the results of files, one after the other."""
    for span in spans:
        if isinstance(span.position, UnreadableFile):
            yield _reject(span, span.position.code, span.position.reason)
        else:
            yield from read_file(span, by_name(span.format), options, count)


def read_file(
    span: Span, format_: Format, options: ReadOptions, count: ByteCount, then: Then | None = None
) -> Generator[ReadResult, None, None]:
    """Yield the results of a file as far as it can be read, then a Reject of its rest."""
    try:
        with open_span(span, is_partial=True) as stream, count.of(stream):

            def read() -> Iterator[ReadResult]:
                results = format_.read(stream, span=span, options=options)
                return results if then is None else then(results)

            with closing(_up_to_fault(read, stream, format_, span)) as readable:
                yield from readable
    except UnreadableError as exc:
        yield from _unopened(span, exc)


def _up_to_fault(
    read: Callable[[], Iterator[ReadResult]], stream: SpanStream, format_: Format, span: Span
) -> Generator[ReadResult, None, None]:
    """Yield results up to a fault of the stream, then a Reject of everything after it.

    Of a format without record ends, the last record before the fault may be a part of a record.
    """
    has_record_ends = format_.has_record_ends
    results: Iterator[ReadResult] = iter(())
    try:
        results = read()
        for result in results:
            if stream.fault is None or (has_record_ends and not _is_torn_end(result)):
                yield result
            del result  # a large record is not held while the next one is read
    except EncodingError as exc:
        reason = str(exc).removeprefix(f"{span.source}:1: ")
        yield _reject(span, UNKNOWN_ENCODING, reason)
    except FormatError:
        if stream.fault is None:
            raise
    finally:
        if isinstance(results, Generator):
            results.close()
    if stream.fault is not None:
        offset = span.offset + stream.bytes_read
        yield _reject(span, stream.fault.code, stream.fault.reason, offset=offset)


def _is_torn_end(result: ReadResult) -> bool:
    """Whether it reports the end of the stream, which the reject of the fault explains."""
    return isinstance(result, Reject) and result.code == TORN_END


def _reject(span: Span, code: str, reason: str, *, offset: int | None = None) -> Reject:
    return Reject(
        code=code,
        reason=reason,
        stage="read",
        source=span.source,
        span=span.ordinal,
        offset=span.offset if offset is None else offset,
    )


def _unopened(span: Span, exc: UnreadableError) -> Iterator[ReadResult]:
    """Yield the header of the feed that a file was posted as, and the reject of the file."""
    if span.feed is not None:
        yield FeedHeader(
            source=span.source,
            datasource=span.feed.datasource or None,
            feedtype=span.feed.feedtype or None,
            memberships=by_name(span.format).holds_only_memberships,
        )
    yield _reject(span, exc.code, exc.reason)


FEED_FILES = FeedFiles()
