"""Read and write lister streams: the ids of a repository, and when each last changed.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands".

**Keeps:** every command of a lister. lenient mode also keeps the commands of a retriever, which
an example of the documentation has. Unknown commands are extras.

**Drops:** fractions of a second; flags that are false, because a missing flag is false.

Records that have the usual shape are read at once, in whole blocks or in parts of them. Any other
record is read command by command, and so is a stream with a delimiter of more than one byte.
"""

import io
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import IO

import msgspec
from msgspec.structs import replace

from feedferry.schemas.moments import SECOND, Moments
from feedferry.schemas.record import Provenance, Record
from feedferry.schemas.reject import record_error
from feedferry.schemas.span import Span, TokenState
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.formats.command_stream.stream_documents import DocumentReader
from feedferry.transforms.formats.command_stream.syntax import CommandReader, read_header
from feedferry.transforms.formats.command_stream.vocabulary import LISTED_FLAGS
from feedferry.transforms.formats.fast_path.columns.cells import escaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column, ColumnKind, Values
from feedferry.transforms.formats.fast_path.columns.neutrality import are_neutral
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns, grouped
from feedferry.transforms.formats.text.byte_scans import find_all

_FLAGS = (*LISTED_FLAGS, "delete")
_MODIFIED = "last-modified="
_ID = "id="
_numbers = msgspec.json.Decoder(list[int])


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
    blocks = BlockReader(reader, span, options) if commands.has_plain_tokens else None
    while True:
        if blocks:
            yield from blocks.results()
        command = commands.next()
        if command is None:
            break
        yield from reader.take(command)
    yield from reader.finish(commands.offset)


class BlockReader:
    """Reads whole blocks of a stream with a delimiter of one byte, if their records are usual."""

    def __init__(self, reader: DocumentReader, span: Span, options: ReadOptions) -> None:
        self._reader = reader
        self._commands = reader.commands
        self._separator = self._commands.delimiter.decode("latin-1")
        self._mark = self._commands.delimiter
        self._between_ids = _between_ids(self._separator)
        self._usual = _usual(self._separator)
        self._span = span
        self._options = options
        self._shape = cache(self._new_shape)
        self._slow_until = 0

    def results(self) -> Iterator[ReadResult]:
        """Yield the records of blocks: usual ones at once, and others command by command."""
        commands = self._commands
        while commands.offset >= self._slow_until and (block := self._block()):
            if len(block) > commands.limit:
                self._slow_until = commands.offset + len(block)
                return
            records = self._parsed(block, commands.offset)
            parts = [(block, records)] if records is not None else self._parts(block)
            for part, records in parts:
                end = commands.offset + len(part)
                if records is None:
                    yield from self._command_by_command(part)
                else:
                    yield from self._reader.finish(commands.offset)
                    yield from records
                    commands.skip(len(part))
                if commands.in_list or commands.offset != end:
                    break

    def _parsed(self, block: bytes, offset: int) -> list[Record | RecordBatch] | None:
        try:
            return self.parse(block, offset)
        except Exception as exc:
            record_error(exc)  # raises what concerns more than a record
            return None

    def _parts(self, block: bytes) -> Iterator[tuple[bytes, list[Record | RecordBatch] | None]]:
        """Yield the parts of a block; those with unusual records have None in place of these."""
        mark, offset, end = self._mark + _ID.encode(), self._commands.offset, 0
        while end < len(block):
            match = self._usual.match(block, end)
            stop = match.end() if match else end
            is_whole = stop == len(block)
            begin = stop if is_whole else block.rfind(mark, end, stop) + 1 or end
            if begin > end:
                yield block[end:begin], self._parsed(block[end:begin], offset + end)
            end = len(block) if is_whole else block.find(mark, stop) + 1 or len(block)
            if end > begin:
                yield block[begin:end], None

    def _command_by_command(self, part: bytes) -> Iterator[ReadResult]:
        """Yield the results of a part; empty tokens at its end, which end a list, are skipped."""
        commands, end = self._commands, self._commands.offset + len(part)
        empty = len(part) - len(part.rstrip(self._mark)) - 1
        while commands.offset < end - empty and (command := commands.next()) is not None:
            yield from self._reader.take(command)
        if empty > 0 and commands.offset == end - empty:
            commands.in_list = False
            commands.skip(empty)

    def parse(self, block: bytes, offset: int) -> list[Record | RecordBatch] | None:
        """Return the records of a block, each with the delimiter after it; it begins with an id.

        Return None unless it is plain UTF-8 and, outside an id-list, all records have the usual
        shape: an id, a time, flags.
        """
        try:
            text = block.decode()
        except UnicodeDecodeError:  # also two-byte forms of NUL and LF
            return None
        dates: list[str | None]
        if self._commands.in_list:
            docids, begin = text.split(self._separator)[:-1], ""
            dates, flags = [None] * len(docids), [""] * len(docids)
        else:
            *parts, after = self._between_ids.split(text[len(_ID) :] + _ID)
            docids, dates, flags, begin = parts[0::3], parts[1::3], parts[2::3], _ID
            if after or self._separator in "".join(docids):
                return None
        mark = self._commands.delimiter + begin.encode()
        ends = find_all(block, mark)[: len(docids) - 1]  # of all records but the last one
        offsets = [offset, *map((offset + 1).__add__, ends)]
        return self._batches(docids, dates, flags, offsets)

    def _batches(
        self, docids: list[str], dates: list[str | None], flags: list[str], offsets: list[int]
    ) -> list[Record | RecordBatch]:
        """Return records in batches, or one by one if their ids are not neutral."""
        size = self._options.batch_records
        urls = escaped(self._reader.urls_of(docids))
        kind = ColumnKind.URL if "://" in urls[0] else ColumnKind.DOCID
        dated = f"{_MODIFIED}0{self._separator}"
        if flags.count(flags[0]) == len(flags) and all(dates):
            keys = [dated + flags[0]] * len(flags)
        else:
            pairs = zip(dates, flags, strict=True)
            keys = [dated + names if date else names for date, names in pairs]
        groups = []
        for commands, places, (ids, epochs, offsets_of) in grouped(keys, (urls, dates, offsets)):
            times = [_moments(epochs)] if commands.startswith(dated) else []
            shape = self._shape(commands, kind)
            groups.append((Columns(shape, (ids, *times, offsets_of), len(places)), places))
        batch = RecordBatch.of(groups)
        is_batch = size and are_neutral((kind,), (urls,))
        return [*batch.parts(size)] if is_batch else [*batch]

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

    def _new_shape(self, commands: str, kind: ColumnKind) -> Shape:
        """Let the reader of single records read the first record with these commands."""
        stream = io.BytesIO(f"{_ID}0{self._separator}{commands}".encode())
        reader = DocumentReader(stream, self._span, self._options, is_listing=True)
        reader.commands.separate(self._commands.delimiter)
        results = [*chain.from_iterable(map(reader.take, reader.commands)), *reader.finish(0)]
        [record] = (result for result in results if isinstance(result, Record))
        if len(results) > 1:
            raise ValueError(results)

        def make(values: Values) -> Record:
            url, *time, offset = values
            place = Provenance(source=self._span.source, span=self._span.ordinal, offset=offset)
            if time:
                return replace(record, url=url, modified=time[0], provenance=place)
            return replace(record, url=url, provenance=place)

        time = [] if record.modified is None else [ColumnKind.TIME]
        return Shape(make, [kind, *time, ColumnKind.NUMBER])


def _moments(epochs: Column) -> Moments:
    return Moments(_numbers.decode(f"[{','.join(epochs)}]"), microseconds=SECOND)


def _between_ids(separator: str) -> re.Pattern[str]:
    """Return a pattern for the bytes between two ids, with the time and the flags as groups."""
    return re.compile(f"{re.escape(separator)}{_commands(separator)}{_ID}", re.ASCII)


def _usual(separator: str) -> re.Pattern[bytes]:
    """Return a pattern for records of the usual shape that follow one another."""
    end = re.escape(separator)
    records = f"(?:{_ID}[^{end}]*{end}{_commands(separator)})*"
    return re.compile(records.encode("latin-1"))


def _commands(separator: str) -> str:
    """Return a pattern for the usual commands after an id: a time and flags."""
    end = re.escape(separator)
    flags = "|".join(_FLAGS)
    return f"(?:{_MODIFIED}(0|[1-9][0-9]{{0,10}}){end})?((?:(?:{flags}){end}){{0,{len(_FLAGS)}}})"


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
    """Yield the offset of each span after the first, and whether it is in an id-list.

    After a content, which listings do not have, there are no commands to the end.
    """
    separator = commands.delimiter
    content = separator + b"content"
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
            if not in_list and text.find(content, at - 1, found or last) >= 0:
                return
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
