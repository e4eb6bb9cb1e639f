"""Reads and writes retriever streams: one document each, its content last.

**Spec:** GSA adaptor library, CommandStreamParser, "Retriever Commands".

**Keeps:** every command that a retriever may give, `param-name` pairs and unknown commands as
Extras. A `not-found` becomes a deletion if that is asked for; an `up-to-date` is no record.

**Drops:** ACL commands without `acl`, as the specification says; the order of principals and pairs
is kept, which the deployed parser sorts. `Mode.STRICT` has a pair or a principal once, as it does.
"""

from collections.abc import Iterable, Iterator
from typing import IO

from schemas.errors import FormatError, UnavailableError
from schemas.notice import Notice
from schemas.record import Record
from schemas.span import Span
from transforms.formats.base import Found, Mode, ReadOptions, WriteOptions, write_all
from transforms.formats.command_stream.document import RETRIEVER
from transforms.formats.command_stream.reader import DocumentReader, Kind, Outcome
from transforms.formats.command_stream.writer import RetrieverEncoder

_KIND = Kind(name="retriever", commands=RETRIEVER, is_listed=False)


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Found]:
    """Yield what has become of the document; of each, where a stream read with repairs has more.

    A repository that is unavailable is a Reject, in `Mode.STRICT` an UnavailableError.
    """
    reader = DocumentReader(stream, _KIND, span=span, options=options)
    documents = 0
    for found in _results(reader, span, options):
        documents += not isinstance(found, Notice)
        yield found
    if not documents:
        where = f"{span.source} (byte {reader.tokens.offset})"
        raise FormatError(f"{where}: no document; expected an id behind the header")


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield the whole stream: it is one document."""
    yield Span(source=source)


def write(
    records: Iterable[Record], stream: IO[bytes], *, options: WriteOptions = WriteOptions()
) -> None:
    """Write the stream of one record; raises ValueError for more."""
    [record] = records
    write_all(encoder(options), [record], stream)


def encoder(options: WriteOptions = WriteOptions()) -> RetrieverEncoder:
    """Return the encoder, whose chunks take one record each."""
    return RetrieverEncoder(options)


def _results(reader: DocumentReader, span: Span, options: ReadOptions) -> Iterator[Outcome]:
    yield from reader.open()
    try:
        for command in reader.commands:
            if command.name == "id" and reader.is_open and options.mode is Mode.STRICT:
                where = f"{span.source} (byte {command.offset})"
                raise FormatError(f"{where}: a second id; expected one document in a stream")
            yield from reader.take(command)
        yield from reader.finish(reader.tokens.offset)
    except UnavailableError as exc:
        if options.mode is Mode.STRICT:
            raise
        yield reader.unavailable(exc)
