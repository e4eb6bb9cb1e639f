"""One span read, whatever its source is: the one door between spans and what is found in them."""

from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path
from typing import IO, cast

import msgspec

from schemas.errors import EncodingError, FormatError, UnreadableError
from schemas.feed import FeedHeader
from schemas.known import See
from schemas.record import Record
from schemas.reject import TORN_END, UNKNOWN_ENCODING, UNREADABLE, Reject
from schemas.span import Span
from transforms.formats import by_name
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.database.mapping import DATABASE, Mapping
from transforms.sources.files import SpanStream, open_span
from transforms.sources.listing import LISTING
from transforms.sources.programs.config import Programs
from transforms.sources.programs.documents import documents
from transforms.sources.spool import (
    SELECTION,
    SPOOL,
    History,
    Spool,
    read_deliveries,
    read_selection,
    select,
    spans_of,
    tell,
)
from transforms.sources.tree.tree import Tree

Source = Programs | Tree | Mapping | Spool
"""What tells how a source is read that is more than its bytes."""


class Reading:
    """Reads a span, and counts its bytes on the way: those of files, else those of contents."""

    def __init__(
        self,
        span: Span,
        *,
        source: Source | None = None,
        options: ReadOptions = ReadOptions(),
        see: See | None = None,
        state: str | None = None,
    ) -> None:
        self._span = span
        self._source = source
        self._options = options
        self._see = see
        self._state = state
        self._stream: SpanStream | None = None
        self._bytes = 0

    @property
    def bytes_read(self) -> int:
        """How many bytes were read so far."""
        return self._bytes + (self._stream.bytes_read if self._stream else 0)

    def found(self) -> Generator[ReadResult, None, None]:
        """Yield what is found in the span; in its members one behind the other, if it has some."""
        for span in _parts(self._span):
            if span.format == SELECTION:
                yield from tell(read_selection(Path(span.path)))
                continue
            if span.format in (LISTING, DATABASE):
                with closing(self._asked(span)) as found:
                    for one in found:
                        if isinstance(one, Record) and one.content is not None:
                            self._bytes += len(one.content.data)
                        yield one
                continue
            if span.format == UNREADABLE:
                yield _rejected(span, *msgspec.json.decode(span.context, type=tuple[str, str]))
                continue
            try:
                with open_span(span, is_partial=True) as stream:
                    self._stream = stream
                    with closing(self._readable(span, stream)) as found:
                        yield from found
            except UnreadableError as exc:
                yield from _unopened(span, exc)
            self._bytes, self._stream = self.bytes_read, None

    def _readable(self, span: Span, stream: SpanStream) -> Generator[ReadResult, None, None]:
        """Yield what is found as far as the file can be read, then a Reject of the rest."""
        try:
            has_record_ends = by_name(span.format).has_record_ends
            with closing(self._read(span, stream)) as found:
                for one in found:
                    if stream.fault is None or (has_record_ends and not _is_torn_end(one)):
                        yield one
                    del one  # a large record is not to be held while the next one is read
        except EncodingError as exc:
            yield _rejected(span, UNKNOWN_ENCODING, _reason(exc, span))
        except FormatError:
            if stream.fault is None:
                raise
        if stream.fault is not None:
            offset = span.offset + stream.bytes_read
            yield _rejected(span, stream.fault.code, stream.fault.reason, offset=offset)

    def _read(self, span: Span, stream: IO[bytes]) -> Generator[ReadResult, None, None]:
        found = by_name(span.format).read(stream, span=span, options=self._options)
        if isinstance(self._source, Programs):
            with closing(documents(found, self._source, options=self._options)) as found:
                yield from found
        else:
            yield from found

    def _asked(self, span: Span) -> Generator[ReadResult, None, None]:
        return self._rows(span) if span.format == DATABASE else self._files(span)

    def _rows(self, span: Span) -> Generator[ReadResult, None, None]:
        from transforms.sources.database.read import read_rows

        mapping = cast(Mapping, self._source)
        if self._state is None:
            return read_rows(span, mapping=mapping, options=self._options)
        return self._known_rows(span, mapping, Path(self._state))

    def _known_rows(
        self, span: Span, mapping: Mapping, path: Path
    ) -> Generator[ReadResult, None, None]:
        from transforms.sources.database.read import read_rows
        from transforms.storage.state import open_state

        with open_state(path) as state:
            yield from read_rows(
                span, mapping=mapping, options=self._options, see=self._see, known=state.find
            )

    def _files(self, span: Span) -> Generator[ReadResult, None, None]:
        from transforms.sources.tree.read import read_tree

        tree = self._source if isinstance(self._source, Tree) else Tree(root="")
        with open_span(span) as stream:
            yield from read_tree(stream, span=span, tree=tree, options=self._options, see=self._see)


def _is_torn_end(found: ReadResult) -> bool:
    """Whether it reports the end of the stream, which the reject of the fault explains."""
    return isinstance(found, Reject) and found.code == TORN_END


def _rejected(span: Span, code: str, reason: str, *, offset: int | None = None) -> Reject:
    return Reject(
        code=code,
        reason=reason,
        stage="read",
        source=span.source,
        span=span.ordinal,
        offset=span.offset if offset is None else offset,
    )


def _unopened(span: Span, exc: UnreadableError) -> Iterable[ReadResult]:
    """Return the reject of a file, and the header of the feed that it was posted as."""
    if span.feed is not None:
        yield FeedHeader(
            source=span.source,
            datasource=span.feed.datasource or None,
            feedtype=span.feed.feedtype or None,
            memberships=by_name(span.format).holds_only_memberships,
        )
    yield _rejected(span, exc.code, exc.reason)


def _reason(exc: EncodingError, span: Span) -> str:
    return str(exc).removeprefix(f"{span.source}:1: ")


def _parts(span: Span) -> Iterable[Span]:
    """What is read one behind the other; of a whole spool, all that was ever delivered."""
    if span.format != SPOOL:
        return span.members or (span,)
    deliveries = read_deliveries(Path(span.path))
    spool = Spool(source=span.source, root=span.path, history=History.ALL)
    selection = select(deliveries, spool)
    parts = spans_of(selection, source=span.source, root=span.path, rejects_missing=True)
    return (msgspec.structs.replace(part, encoding=span.encoding) for part in parts)
