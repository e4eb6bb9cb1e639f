"""A small format that only tests know.

A document is a block of `name: value` lines, and a blank line ends it::

    url: http://intranet.example.com/harbour
    title: The harbour
    text: Ships call on Mondays.

    url: http://intranet.example.com/quay
    action: delete

**Keeps:** the URL, the title, the text of a document, and deletions.

**Drops:** everything else, each field as a loss under its name.
"""

from collections.abc import Iterator
from itertools import chain
from typing import IO

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Content, Provenance, Record
from feedferry.schemas.reject import Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import Span
from feedferry.transforms.formats import Format, Holds, ReadOptions, ReadResult, WriteOptions


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield a Record for each block, and a Reject for a block that is none."""
    offset, block = span.offset, b""
    for line in chain(stream, (b"\n",)):
        block += line
        if not line.strip():
            if block.strip():
                yield _read_block(block.rstrip(b"\n"), offset, span)
            offset, block = offset + len(block), b""


def split(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans of about `span_bytes` that end with a blank line."""
    ordinal = begin = end = 0
    is_after_block = False
    for line in stream:
        if is_after_block and end - begin >= span_bytes:
            yield Span(source=source, ordinal=ordinal, offset=begin, length=end - begin)
            ordinal, begin = ordinal + 1, end
        end += len(line)
        is_after_block = not line.strip()
    yield Span(source=source, ordinal=ordinal, offset=begin)


class ToyEncoder:
    """Writes blocks; there is nothing around them."""

    extension = "toy"
    frame_bytes = 0

    def prolog(self) -> bytes:
        return b""

    def encode(self, record: Record) -> bytes:
        lines = [f"url: {record.url}"]
        if record.action is Action.DELETE:
            lines.append("action: delete")
        if record.title is not None:
            lines.append(f"title: {record.title}")
        if record.content is not None:
            lines.append(f"text: {_text_of(record.content)}")
        if any("\n" in line for line in lines):
            raise RecordError("line-break", "a line break in a value; expected values of one line")
        return "\n".join(lines).encode() + b"\n\n"

    def frame(self, records: list[bytes]) -> bytes:
        return b"".join(records)

    def epilog(self) -> bytes:
        return b""


def encoder(_options: WriteOptions) -> ToyEncoder:
    return ToyEncoder()


def matches(head: bytes) -> bool:
    return head.startswith(b"url: ")


TOY = Format(
    name="toy",
    title="blocks of name: value lines",
    matches=matches,
    read=read,
    split=split,
    encoder=encoder,
    holds=Holds(fields={"title", "content", "mimetype"}, actions={Action.ADD, Action.DELETE}),
    content_type="text/plain",
)


def _read_block(block: bytes, offset: int, span: Span) -> Record | Reject:
    provenance = Provenance(source=span.source, span=span.ordinal, offset=offset)
    try:
        return _record(block, provenance)
    except Exception as exc:
        error = record_error(exc)  # of one record; other exceptions are raised again
        return reject_bytes(error, span=span, place=Place(offset, len(block)), data=block)


def _record(block: bytes, provenance: Provenance) -> Record:
    try:
        values = dict(line.split(": ", 1) for line in block.decode().split("\n"))
        url = values["url"]
    except (ValueError, KeyError) as exc:
        reason = f"{block[:40]!r}; expected name: value lines with a url"
        raise RecordError("bad-block", reason) from exc
    content = Content(values["text"].encode()) if "text" in values else None
    return Record(
        url=url,
        action=Action.DELETE if values.get("action") == "delete" else Action.ADD,
        title=values.get("title"),
        content=content,
        mimetype="text/plain" if content else None,
        provenance=provenance,
    )


def _text_of(content: Content) -> str:
    try:
        return content.data.decode()
    except UnicodeDecodeError as exc:
        raise RecordError("not-text", f"{exc.reason}; expected a text in UTF-8") from exc
