"""One span read, whatever its source is: the one door between spans and what is found in them."""

from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path
from typing import IO, cast

from schemas.known import See
from schemas.record import Record
from schemas.span import Span
from transforms.formats import READERS
from transforms.formats._options import Found, ReadOptions
from transforms.sources.command import documents
from transforms.sources.database.mapping import DATABASE, Mapping
from transforms.sources.files import SpanStream, open_span
from transforms.sources.listing import LISTING
from transforms.sources.programs import Programs
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
from transforms.sources.tree.rules import Tree

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

    def found(self) -> Generator[Found, None, None]:
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
            with open_span(span) as stream:
                self._stream = stream
                with closing(self._read(span, stream)) as found:
                    yield from found
            self._bytes, self._stream = self.bytes_read, None

    def _read(self, span: Span, stream: IO[bytes]) -> Generator[Found, None, None]:
        found = READERS[span.format](stream, span=span, options=self._options)
        if isinstance(self._source, Programs):
            with closing(documents(found, self._source, options=self._options)) as found:
                yield from found
        else:
            yield from found

    def _asked(self, span: Span) -> Generator[Found, None, None]:
        return self._rows(span) if span.format == DATABASE else self._files(span)

    def _rows(self, span: Span) -> Generator[Found, None, None]:
        from transforms.sources.database.read import read_rows

        mapping = cast(Mapping, self._source)
        if self._state is None:
            return read_rows(span, mapping=mapping, options=self._options)
        return self._known_rows(span, mapping, Path(self._state))

    def _known_rows(self, span: Span, mapping: Mapping, path: Path) -> Generator[Found, None, None]:
        from transforms.sources.database.read import read_rows
        from transforms.sources.state import open_state

        with open_state(path) as state:
            yield from read_rows(
                span, mapping=mapping, options=self._options, see=self._see, known=state.find
            )

    def _files(self, span: Span) -> Generator[Found, None, None]:
        from transforms.sources.tree.read import read_tree

        tree = self._source if isinstance(self._source, Tree) else Tree(root="")
        with open_span(span) as stream:
            yield from read_tree(stream, span=span, tree=tree, options=self._options, see=self._see)


def _parts(span: Span) -> Iterable[Span]:
    """What is read one behind the other; of a whole spool, all that was ever delivered."""
    if span.format != SPOOL:
        return span.members or (span,)
    deliveries = read_deliveries(Path(span.path))
    spool = Spool(source=span.source, root=span.path, history=History.ALL)
    return spans_of(select(deliveries, spool), source=span.source, root=span.path)
