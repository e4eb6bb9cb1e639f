"""Read and write retriever streams: one document each, its content last.

**Spec:** GSA adaptor library, CommandStreamParser, "Retriever Commands".

**Keeps:** every command of a retriever; `param-name` pairs and unknown commands are extras. With
`NotFound.DELETE`, `not-found` is a deletion. `up-to-date` is not a record.

**Drops:** ACL commands without `acl`, as the specification says. Principals and pairs keep their
order, which the deployed parser sorts. `Mode.STRICT` keeps a repeated pair or principal once, as
the deployed parser does.
"""

from collections.abc import Iterator
from typing import IO

from schemas.errors import UnavailableError
from schemas.notice import Notice
from schemas.span import Span
from transforms.formats.base import ReadOptions, ReadResult
from transforms.formats.command_stream.document import RETRIEVER
from transforms.formats.command_stream.reader import DocumentOutcome, DocumentReader, StreamKind

_KIND = StreamKind(name="retriever", commands=RETRIEVER, is_listed=False)


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield the outcome of the document; `Mode.LENIENT` reads streams of several documents.

    An unavailable repository is a Reject, in `Mode.STRICT` an UnavailableError.
    """
    reader = DocumentReader(stream, _KIND, span=span, options=options)
    has_document = False
    for outcome in _outcomes(reader):
        has_document = has_document or not isinstance(outcome, Notice)
        yield outcome
    if not has_document:
        reason = "no document; expected an id behind the header"
        raise reader.commands.error(reason, reader.commands.offset)


def _outcomes(reader: DocumentReader) -> Iterator[DocumentOutcome]:
    yield from reader.open()
    try:
        for command in reader.commands:
            if command.name == "id" and reader.is_open and reader.is_strict:
                reason = "a second id; expected one document in a stream"
                raise reader.commands.error(reason, command.offset)
            yield from reader.take(command)
        yield from reader.finish(reader.commands.offset)
    except UnavailableError as exc:
        if reader.is_strict:
            raise
        yield reader.unavailable(exc)
