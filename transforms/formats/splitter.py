"""Where the records of a feed stand, so that some of them can be sent as a feed of their own.

A piece of a feed is a range of its bytes, as they stand, between a head and a tail: the start tags
that its first record stands in, and the end tags that its last one lacks. A piece that holds the
border between two groups, or between two feeds in one stream, holds it as it stands.

**Keeps:** the byte order mark, XML declaration and DOCTYPE; the header; the group, whose attributes
decide over its records. What is no record belongs to the record before it, and to the first what
stands before that, so that nothing gets lost between two pieces.

**Drops:** comments before the first record of a group.

A stream in another encoding than UTF-8 has records, but no pieces.
"""

import codecs
import html
import re
from array import array
from bisect import bisect_left, bisect_right
from typing import IO, NamedTuple

from schemas.errors import FormatError
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats.gsa import feed
from transforms.formats.gsa import groups as gsa_groups
from transforms.formats.gsa.feed_context import feed_context
from transforms.formats.thunderstone import dataload
from transforms.formats.xml.element_names import ElementNames
from transforms.formats.xml.raw_element import Context, RawElement, find_url
from transforms.formats.xml.scanner import RecordScanner

_VOCABULARIES = {
    "gsa-feed": feed._VOCABULARY,
    "gsa-groups": gsa_groups._VOCABULARY,
    "thunderstone": dataload._VOCABULARY,
}
FORMATS = tuple(_VOCABULARIES)
"""The formats that appliances are fed with."""

_UNIT_BYTES = 1 << 30
_NAMED_BYTES = 1 << 20
"""How far into a record its name is looked for."""

_GROUP = re.compile(rb"<principal\b[^<>]*>\s*([^<>]*[^<>\s])")
_UPDATE_INDEX = re.compile(rb"<Type>\s*UI\s*</Type>")
_UPDATE_BYTES = 1024


class FeedPart(NamedTuple):
    """Some records as a document: `length` bytes of the stream from `offset` on, between two."""

    head: bytes
    offset: int
    length: int
    tail: bytes


class RecordOffsets:
    """Where each record of a stream stands: 16 bytes for each of them, and 40 for each group.

    `documents` counts the feeds that follow one another in the stream; `datasource` and `feedtype`
    are those in the header of the first gsafeed. `is_torn` tells that the last feed does not end.
    `updates` counts the Items that only ask for new search indexes. `first_url` and `last_url` are
    those of records, or names of groups.
    """

    def __init__(self, scan: "_Scan") -> None:
        self._scan = scan
        self._arounds = tuple(scan.arounds)
        around = feed_context(Context(header=scan.header))
        self.datasource = around.datasource
        self.feedtype = around.feedtype
        self.documents = scan.documents
        self.is_torn = scan.is_torn
        self.is_utf8 = scan.is_utf8
        self.updates = scan.updates
        self.first_url = scan.first_url
        self.last_url = scan.last_url

    def __len__(self) -> int:
        return len(self._scan.begins)

    def piece(self, first: int, count: int) -> FeedPart:
        """Return records `first` to `first + count`, at least one, as a document.

        Raises FormatError if the stream is not UTF-8.
        """
        self._require_utf8()
        scan, after = self._scan, first + count
        run, last = self._run_of(first), self._run_of(after - 1)
        before = behind = self._arounds[scan.befores[run]]
        is_end = after == len(scan.begins) or after == self._first_of(last + 1)
        if is_end:
            stop, behind = scan.ends[last], self._arounds[scan.behinds[last]]
        else:
            stop, behind = scan.begins[after], self._arounds[scan.befores[last]]
        opened = _opened(before.context, leaves=run != last or before != behind)
        tail = _closed(before.context, behind.context, len(opened), self._scan.root)
        offset = scan.begins[first]
        return FeedPart(_head(before, opened, self._scan.root), offset, stop - offset, tail)

    def line(self, record: int) -> int:
        """Return the line in which a record begins, from 1."""
        return self._scan.lines[record]

    def middle(self, first: int, count: int) -> int:
        """Return the record with which the second half, in bytes, of at least two begins.

        Where there are several feeds, it is the first record of one.
        """
        scan, last = self._scan, first + count - 1
        piece = self.piece(first, count)
        middle = piece.offset + piece.length // 2
        borders = scan.document_firsts
        low, high = bisect_right(borders, first), bisect_right(borders, last)
        if low < high:
            return min(borders[low:high], key=lambda record: abs(scan.begins[record] - middle))
        found = bisect_left(scan.begins, middle, first + 1, last)
        if found > first + 1 and middle - scan.begins[found - 1] <= scan.begins[found] - middle:
            return found - 1
        return found

    def _run_of(self, record: int) -> int:
        return bisect_right(self._scan.firsts, record) - 1

    def _first_of(self, run: int) -> int | None:
        return self._scan.firsts[run] if run < len(self._scan.firsts) else None

    def _require_utf8(self) -> None:
        if not self.is_utf8:
            raise FormatError(
                f"{self._scan.source}:1: another encoding than UTF-8; expected UTF-8, for a feed "
                "that is to be sent in parts: convert it first"
            )


def stretches(stream: IO[bytes], format: str, *, source: str = "") -> RecordOffsets:
    """Return where the records of a stream stand, in one pass; one record is in memory at a time.

    Raises FormatError where there is no feed, or none of FORMATS.
    """
    if format not in _VOCABULARIES:
        raise FormatError(f"{source}: {format!r}; expected one of {', '.join(FORMATS)}")
    scan = _Scan(stream, _VOCABULARIES[format], source)
    scan.run()
    return RecordOffsets(scan)


def name_in(text: bytes) -> str | None:
    """Return the url of a record or the group of a membership, as it is written in its markup."""
    text = text[:_NAMED_BYTES]
    if (url := find_url(text)) is not None:
        return url
    group = _GROUP.search(text) if b"<membership" in text else None
    return group[1].decode("utf-8", "replace") if group else None


class _Around(NamedTuple):
    """What stands before a root, and the start tags from there on."""

    prolog: bytes
    context: Context


class _Start(NamedTuple):
    """Where a record begins, or what is none before all of them, and what stands around it."""

    offset: int
    line: int
    context: Context


class _Scan(RecordScanner):
    """Notes where records begin, and where runs of them in one context begin and end."""

    def __init__(self, stream: IO[bytes], vocabulary: ElementNames, source: str) -> None:
        span = Span(source=source)
        super().__init__(stream, vocabulary, span, max_unit_bytes=_UNIT_BYTES)
        self.source = source
        self.root = vocabulary.root.encode()
        self.begins, self.lines = array("Q"), array("Q")
        self.firsts, self.ends = array("Q"), array("Q")
        self.befores, self.behinds = array("L"), array("L")
        self.document_firsts = array("Q")
        self.arounds: dict[_Around, int] = {}
        self.header = b""
        self.documents = self.updates = 0
        self.is_torn = False
        self.first_url = self.last_url = ""
        self._prolog = codecs.BOM_UTF8 if self.is_utf8 and self.place[0] else b""
        self._leading: _Start | None = None
        self._entered = self.context  # in which the last reject began; it may open a group
        self._within: Context | None = None
        self._end, self._behind = 0, _Around(b"", self.context)
        self._document = 0

    def run(self) -> None:
        """Look at the whole stream."""
        last = None
        for one in self:
            if isinstance(one, RawElement):
                self._note(one)
                last = one
            elif isinstance(one, Reject):
                self._note_between(one)
        if last is not None:
            self.last_url = _unescaped(last)
            self._end_run()
        self._data, self._pos = b"", 0  # the last record may be large

    def _note(self, unit: RawElement) -> None:
        if unit.context is self._within:
            self.begins.append(unit.offset)
            self.lines.append(unit.line)
        else:
            self._begin_run(unit)
        self._end = unit.offset + len(unit.text)
        if unit.name == "Item" and len(unit.text) < _UPDATE_BYTES:
            self.updates += bool(_UPDATE_INDEX.search(unit.text))

    def _begin_run(self, unit: RawElement) -> None:
        start = self._leading or _Start(unit.offset, unit.line, unit.context)
        if self.begins:
            self._end_run()
        else:
            self.first_url = _unescaped(unit)
        if self._document != self.documents:
            self.document_firsts.append(len(self.begins))
        self.firsts.append(len(self.begins))
        self.befores.append(self._number(_Around(self._prolog, start.context)))
        self.begins.append(start.offset)
        self.lines.append(start.line)
        self._within, self._leading, self._document = start.context, None, self.documents
        self._behind = _Around(self._prolog, unit.context)

    def _note_between(self, reject: Reject) -> None:
        self.is_torn = self.is_torn or reject.code == "torn-end"
        if self.begins:
            self._end = reject.offset + reject.length
            self._behind = _Around(self._prolog, self.context)
        elif self._leading is None:
            self._leading = _Start(reject.offset, reject.line, self._entered)

    def _end_run(self) -> None:
        self.ends.append(self._end)
        self.behinds.append(self._number(self._behind))

    def _number(self, around: _Around) -> int:
        return self.arounds.setdefault(around, len(self.arounds))

    def _step(self, kind: str, token: re.Match[bytes]) -> RawElement | Reject | None:
        begun, is_before = self._consumed, not self.context.root
        self._entered = self.context
        found = super()._step(kind, token)
        if kind in ("instruction", "doctype") and is_before and found is None:
            length = self._consumed - begun
            self._prolog += self._data[self._pos - length : self._pos] + b"\n"
        elif kind == "end":
            self._prolog = b""
        self.documents += kind == "root"
        self.header = self.header or self.context.header
        return found

    def _stray(self) -> Reject:
        self._entered = self.context
        return super()._stray()


def _opened(context: Context, *, leaves: bool) -> tuple[bytes, ...]:
    """The start tags of groups; a group in a group is taken alone while nobody leaves it."""
    if not context.group:
        return ()
    inner = context.group + b"\n"
    return (b"<group>\n", inner) if context.depth > 1 and leaves else (inner,)


def _head(around: _Around, opened: tuple[bytes, ...], root: bytes) -> bytes:
    context = around.context
    stated = (context.root or b"<%b>" % root, context.header)
    return b"".join((around.prolog, *(tag + b"\n" for tag in stated if tag), *opened))


def _closed(before: Context, behind: Context, opened: int, root: bytes) -> bytes:
    groups = b"</group>\n" * (behind.depth - before.depth + opened)
    is_open = behind.root or not before.root
    return groups + (b"</%b>\n" % root if is_open else b"")


def _unescaped(unit: RawElement) -> str:
    return html.unescape(name_in(unit.text) or "")
