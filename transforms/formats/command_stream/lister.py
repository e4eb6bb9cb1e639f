"""Read and write lister streams: the ids of a repository, and when each last changed.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands".

**Keeps:** every command of a lister. `Mode.LENIENT` also keeps the commands of a retriever, which
an example of the documentation has. Unknown commands are extras.

**Drops:** fractions of a second; flags that are false, because a missing flag is false.
"""

from collections.abc import Iterable, Iterator
from typing import IO

from schemas.record import Record
from schemas.reject import record_error
from schemas.span import Span, TokenState
from transforms.formats.base import ReadOptions, ReadResult
from transforms.formats.command_stream.document import LISTER
from transforms.formats.command_stream.lister_fast_reader import FastListingParser
from transforms.formats.command_stream.reader import DocumentReader, StreamKind

_KIND = StreamKind(name="lister", commands=LISTER, is_listed=True)
_ID = b"id="


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield a record for each id, in stream order, in constant memory.

    Raises UnavailableError if the stream says that the repository is unavailable.
    """
    return _ListingReader(stream, span, options).results()


class _ListingReader:
    """Reads whole blocks if their records have the usual shape, else command by command."""

    def __init__(self, stream: IO[bytes], span: Span, options: ReadOptions) -> None:
        self._reader = DocumentReader(stream, _KIND, span=span, options=options)
        self._tokens = self._reader.tokens
        self._span = span
        self._slow_until = 0

    def results(self) -> Iterator[ReadResult]:
        yield from self._open()
        tokens, reader = self._tokens, self._reader
        is_fast = tokens.is_single and not tokens.crlf
        parser = FastListingParser(tokens.delimiter, reader.url_of, self._span)
        while True:
            if is_fast and tokens.offset >= self._slow_until:
                for records in self._blocks(parser):
                    yield from records
            command = reader.commands.next()
            if command is None:
                break
            yield from reader.take(command)
        yield from reader.finish(tokens.offset)

    def _open(self) -> Iterator[ReadResult]:
        """Read the header, or take the delimiter from the position of the span."""
        position = self._span.position
        if isinstance(position, TokenState):
            self._reader.commands.in_list = position.is_in_list
            self._tokens.separate(position.delimiter)
        else:
            yield from self._reader.open()

    def _blocks(self, parser: FastListingParser) -> Iterator[Iterable[ReadResult]]:
        """Yield the records of each block that has the usual shape, and the record before it."""
        while block := self._block():
            offset = self._tokens.offset
            records = self._parse(parser, block, offset)
            if records is None or len(block) > self._tokens.limit:
                self._slow_until = offset + len(block)
                return
            yield self._reader.finish(offset)
            yield records
            self._tokens.skip(len(block))

    def _parse(self, parser: FastListingParser, block: bytes, offset: int) -> list[Record] | None:
        """Return all records of a block, None if it must be read command by command."""
        parse = parser.ids if self._reader.commands.in_list else parser.documents
        try:
            records = parse(block, offset)
            return None if records is None else list(records)
        except Exception as exc:
            record_error(exc)
            return None

    def _block(self) -> bytes:
        """Return the records in memory, except the last one, which more commands may follow."""
        tokens, separator = self._tokens, self._tokens.delimiter
        if self._reader.commands.in_list:
            if tokens.peek(1) == separator:
                return b""
            block = tokens.peek_before(separator, limit=separator * 2)
            return block[: block.rfind(separator) + 1]
        if tokens.peek(len(_ID)) != _ID:
            return b""
        block = tokens.peek_before(separator + _ID)
        return block and block + separator
