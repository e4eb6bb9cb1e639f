"""Reads and writes lister streams: the ids of a repository, and when each last changed.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands".

**Keeps:** every command that a lister may give; `Mode.LENIENT` also those of a retriever, which the
documentation's own example has. Unknown commands as Extras.

**Drops:** of a moment its fraction of a second; flags that are false, as not to be said means that.
"""

from collections.abc import Iterable, Iterator
from typing import IO

from schemas.defect import record_error
from schemas.record import Record
from schemas.span import Span
from transforms.formats.base import Found, ReadOptions, WriteOptions, write_all
from transforms.formats.command_stream.document import LISTER
from transforms.formats.command_stream.lister_fast_reader import Express
from transforms.formats.command_stream.lister_split import cut_listing, delimiter_of, in_list
from transforms.formats.command_stream.reader import DocumentReader, Kind
from transforms.formats.command_stream.writer import ListerEncoder

_KIND = Kind(name="lister", commands=LISTER, is_listed=True)
_ID = b"id="


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Found]:
    """Yield a record for each id, in stream order; constant memory, whatever the listing's size.

    Raises UnavailableError where the listing is not whole because the repository was not there.
    """
    return _Listing(stream, span, options).results()


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans of at least `span_bytes`, but for the last, that begin with an id."""
    yield from cut_listing(stream, source=source, span_bytes=span_bytes)


def write(
    records: Iterable[Record], stream: IO[bytes], *, options: WriteOptions = WriteOptions()
) -> None:
    """Write one listing."""
    write_all(encoder(options), records, stream)


def encoder(options: WriteOptions = WriteOptions()) -> ListerEncoder:
    """Return the encoder; records that say nothing but their id become id-lists."""
    return ListerEncoder(options)


class _Listing:
    """A listing, by stretches of the usual shape where there are some, else by commands."""

    def __init__(self, stream: IO[bytes], span: Span, options: ReadOptions) -> None:
        self._reader = DocumentReader(stream, _KIND, span=span, options=options)
        self._tokens = self._reader.tokens
        self._span = span
        self._slow_until = 0

    def results(self) -> Iterator[Found]:
        yield from self._open()
        tokens, reader = self._tokens, self._reader
        is_quick = tokens.is_single and not tokens.crlf
        express = Express(tokens.delimiter, reader.url_of, self._span)
        while True:
            if is_quick and tokens.offset >= self._slow_until:
                for records in self._stretches(express):
                    yield from records
            command = reader.commands.next()
            if command is None:
                break
            yield from reader.take(command)
        yield from reader.finish(tokens.offset)

    def _open(self) -> Iterator[Found]:
        """Read the header, or be told by the cutter what it said."""
        context = self._span.context
        if not context:
            yield from self._reader.open()
            return
        self._reader.commands.in_list = in_list(context)
        self._tokens.separate(delimiter_of(context))

    def _stretches(self, express: Express) -> Iterator[Iterable[Found]]:
        """Yield the records of each stretch that is of the usual shape, and what is before it."""
        while stretch := self._stretch():
            offset = self._tokens.offset
            records = self._quick(express, stretch, offset)
            if records is None or len(stretch) > self._tokens.limit:
                self._slow_until = offset + len(stretch)
                return
            yield self._reader.finish(offset)
            yield records
            self._tokens.skip(len(stretch))

    def _quick(self, express: Express, stretch: bytes, offset: int) -> list[Record] | None:
        """Return all records of a stretch, None where it has to be read command by command."""
        in_list = self._reader.commands.in_list
        try:
            records = (express.ids if in_list else express.documents)(stretch, offset)
            return None if records is None else list(records)
        except Exception as exc:
            record_error(exc)
            return None

    def _stretch(self) -> bytes:
        """Whole records that are in memory, but for the last: more may be said of that."""
        tokens, separator = self._tokens, self._tokens.delimiter
        if self._reader.commands.in_list:
            return self._ids()
        if tokens.peek(len(_ID)) != _ID:
            return b""
        stretch = tokens.ahead(separator + _ID)
        return stretch and stretch + separator

    def _ids(self) -> bytes:
        """The ids that are in memory, up to the end of the list, but for its last."""
        tokens, separator = self._tokens, self._tokens.delimiter
        if tokens.peek(1) == separator:
            return b""
        stretch = tokens.ahead(separator, before=separator * 2)
        return stretch[: stretch.rfind(separator) + 1]
