"""Read and write lister streams: the ids of a repository, and when each last changed.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands".

**Keeps:** every command of a lister. lenient mode also keeps the commands of a retriever, which
an example of the documentation has. Unknown commands are extras.

**Drops:** fractions of a second; flags that are false, because a missing flag is false.

Whole blocks of records that have the usual shape are read at once. A block with any other record is
read command by command, and so is a stream with a delimiter of more than one byte.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import IO, NamedTuple

import msgspec
from msgspec.structs import replace

from schemas.record import Action, Arrival, Crawl, Provenance, Record
from schemas.reject import record_error
from schemas.span import Span, TokenState
from transforms.formats.base import ReadOptions, ReadResult
from transforms.formats.command_stream.stream_documents import DocumentReader
from transforms.formats.command_stream.syntax import CommandReader, read_header

_FLAGS = ("lock", "crawl-once", "crawl-immediately")
_DELETE = "delete"
_MODIFIED_CHARS = len("last-modified=") + 1
_ID = "id="
_ID_CHARS = len(_ID) + 1
_epochs = msgspec.json.Decoder(list[datetime], strict=False)


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield a record for each id, in stream order, in constant memory.

    Raises UnavailableError if the stream says that the repository is unavailable.
    """
    reader = DocumentReader(stream, span, options, is_listing=True)
    commands = reader.commands
    if isinstance(span.position, TokenState):
        commands.in_list = span.position.is_in_list
        commands.separate(span.position.delimiter)
    else:
        yield from reader.open()
    fast_reader = FastReader(reader, span) if commands.has_plain_tokens else None
    while True:
        if fast_reader:
            for records in fast_reader.blocks():
                yield from records
        command = commands.next()
        if command is None:
            break
        yield from reader.take(command)
    yield from reader.finish(commands.offset)


class FastReader:
    """Reads whole blocks of a stream with a delimiter of one byte, if their records are usual."""

    def __init__(self, reader: DocumentReader, span: Span) -> None:
        self._reader = reader
        self._commands = reader.commands
        self._separator = self._commands.delimiter.decode("latin-1")
        self._between_ids = _between_ids(self._separator)
        self._span = span
        self._slow_until = 0

    def blocks(self) -> Iterator[Iterable[ReadResult]]:
        """Yield the records of each block, and the record before it, up to another shape."""
        commands = self._commands
        while commands.offset >= self._slow_until and (block := self._block()):
            offset = commands.offset
            try:
                records = self.parse(block, offset)
            except Exception as exc:
                record_error(exc)
                records = None
            if records is None or len(block) > commands.limit:
                self._slow_until = offset + len(block)
                return
            yield self._reader.finish(offset)
            yield records
            commands.skip(len(block))

    def parse(self, block: bytes, offset: int) -> list[Record] | None:
        """Return the records of a block, each with the delimiter after it; it begins with an id.

        Return None unless it is plain UTF-8 and, outside an id-list, all records have the usual
        shape: an id, a time, flags.
        """
        try:
            text = block.decode()
        except UnicodeDecodeError:  # also two-byte forms of NUL and LF
            return None
        if self._commands.in_list:
            return list(self._listed(text.split(self._separator)[:-1], offset))
        *parts, after = self._between_ids.split(text[len(_ID) :] + _ID)
        docids, dates, flags = parts[0::3], parts[1::3], parts[2::3]
        if after or self._separator in "".join(docids):
            return None
        lengths = docids if len(text) == len(block) else [docid.encode() for docid in docids]
        columns = zip(docids, dates, flags, map(len, lengths), _moments(dates), strict=True)
        return list(self._records(columns, set(flags), offset))

    def _block(self) -> bytes:
        """Return the records in memory, except the last one, which more commands may follow."""
        separator = self._commands.delimiter
        if self._commands.in_list:
            if self._commands.peek(1) == separator:
                return b""
            block = self._commands.peek_tokens()
            block = block[: block.find(separator * 2)]  # without the last separator, if -1
            return block[: block.rfind(separator) + 1]
        if self._commands.peek(len(_ID)) != _ID.encode():
            return b""
        block = self._commands.peek_tokens()
        return block[: block.rfind(separator + _ID.encode()) + 1]

    def _records(
        self,
        columns: Iterable[tuple[str, str | None, str, int, datetime | None]],
        flags: set[str],
        offset: int,
    ) -> Iterator[Record]:
        source, ordinal, url_of = self._span.source, self._span.ordinal, self._reader.url_of
        effects = {names: _flag_effect(names, self._separator) for names in flags}
        for docid, date, names, length, moment in columns:
            action, arrival, crawl, size = effects[names]
            yield Record(
                url=url_of(docid),
                action=action,
                arrival=arrival,
                modified=moment,
                crawl=crawl,
                provenance=Provenance(source=source, span=ordinal, offset=offset),
            )
            offset += length + size
            if date:
                offset += _MODIFIED_CHARS + len(date)

    def _listed(self, docids: list[str], offset: int) -> Iterator[Record]:
        source, ordinal, url_of = self._span.source, self._span.ordinal, self._reader.url_of
        for docid in docids:
            yield Record(
                url=url_of(docid),
                action=Action.ADD,
                arrival=Arrival.CRAWLED,
                provenance=Provenance(source=source, span=ordinal, offset=offset),
            )
            offset += 1 + len(docid.encode())


class _FlagEffect(NamedTuple):
    """The fields that a combination of flags sets; `size` is that of `id=` and the flags."""

    action: Action
    arrival: Arrival | None
    crawl: Crawl | None
    size: int


def _between_ids(separator: str) -> re.Pattern[str]:
    """Return a pattern for the bytes between two ids, with the time and the flags as groups."""
    end = re.escape(separator)
    flags = "|".join((*_FLAGS, _DELETE))
    return re.compile(
        f"{end}(?:last-modified=(0|[1-9][0-9]{{0,10}}){end})?"
        f"((?:(?:{flags}){end}){{0,{len(_FLAGS) + 1}}}){_ID}",
        re.ASCII,
    )


def _moments(dates: list[str | None]) -> Iterable[datetime | None]:
    texts = list(filter(None, dates))
    moments: list[datetime] = _epochs.decode(f"[{','.join(texts)}]")
    if len(texts) == len(dates):
        return moments
    remaining = iter(moments)
    return (next(remaining) if date else None for date in dates)


@cache
def _flag_effect(flags: str, separator: str) -> _FlagEffect:
    names = flags.split(separator)[:-1]
    hints = {name.replace("-", "_"): True for name in names if name != _DELETE}
    crawl = replace(Crawl(), **hints) if hints else None
    size = _ID_CHARS + len(flags)
    if _DELETE in names:
        return _FlagEffect(Action.DELETE, None, crawl, size)
    return _FlagEffect(Action.ADD, Arrival.CRAWLED, crawl, size)


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans of at least `span_bytes`, except the last; each begins with an id.

    Yield one span if the delimiter is longer than a byte or lines end with CR LF: the begin of a
    token cannot be found then without the tokens before it.
    """
    span = Span(source=source)
    commands = CommandReader(stream, span, ReadOptions())
    for _ in read_header(commands):
        pass
    if commands.has_plain_tokens:
        for offset, in_list in _places(commands, span_bytes):
            position = TokenState(commands.delimiter, in_list)
            yield replace(span, length=offset - span.offset)
            span = Span(source=source, ordinal=span.ordinal + 1, offset=offset, position=position)
    yield span


def _places(commands: CommandReader, span_bytes: int) -> Iterator[tuple[int, bool]]:
    """Yield the offset of each span after the first, and whether it is in an id-list."""
    separator = commands.delimiter
    list_begin = b"%bid-list%b" % (separator, separator)
    in_list = False
    target = span_bytes
    while block := commands.peek_tokens():
        text = separator + block  # each token then follows a separator
        base = commands.offset - 1
        at = 1
        while at < len(text):
            mark = separator * 2 if in_list else list_begin
            end = text.find(mark, at - 1)
            id_begin = separator if in_list else separator + b"id="
            last = len(text) if end < 0 else end
            found = text.find(id_begin, max(target - base, at) - 1, last - 1 + len(id_begin)) + 1
            if 0 < found < len(text):
                yield base + found, in_list
                target = base + found + span_bytes
                at = found
            elif end >= 0:
                at = end + len(mark)
                in_list = not in_list
            else:
                break
        commands.skip(len(block))
