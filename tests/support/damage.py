"""Feeds that hypothesis makes, the faults it puts into one of their records, and what is left.

A feed is made of parts: a gap (tags of groups, comments, white space) and the record after it.
Faults stay inside a record, so that all other records are known to be whole.
"""

import base64
import re
import zlib
from collections.abc import Iterable

import msgspec
from hypothesis import strategies as st

from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats.xml.serializer import attributes, element

PROLOG = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b'<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
    b"<gsafeed>\n<header><datasource>made</datasource><feedtype>incremental</feedtype></header>\n"
)
EPILOG = b"\n</group>\n</gsafeed>\n"
FAKE_URL = "http://fake.example.com/"
TRAPS = (
    f'<record url="{FAKE_URL}" mimetype="text/plain"/>',
    f'</content></record><record url="{FAKE_URL}" mimetype="text/plain"><content>fake</content>',
    "</record>",
    "<record ",
    "<records>",
    "<p>no trap</p>",
)
"""Text that a reader which does not know CDATA or comments takes for markup."""

_DELIMITERS = re.compile(rb"<!--|-->|<!\[CDATA\[|\]\]>")
_CROSSES = re.compile("</record>.*<record url", re.DOTALL)
"""A section in a record with this text is set aside: it may have lost its end mark."""

_OPEN_CDATA = re.compile(rb"<!\[CDATA\[(?!.*\]\]>)", re.DOTALL)


class Part(msgspec.Struct, frozen=True):
    """One record, and the text between it and the record before."""

    gap: bytes
    record: bytes
    url: str


class MadeFeed(msgspec.Struct, frozen=True):
    """A well-formed gsafeed."""

    parts: tuple[Part, ...]

    @property
    def markup(self) -> bytes:
        return b"".join((PROLOG, *(part.gap + part.record for part in self.parts), EPILOG))

    @property
    def urls(self) -> list[str]:
        return [part.url for part in self.parts]


class Fault(msgspec.Struct, frozen=True):
    """What one match of `place` turns into; a place of no width is an insertion."""

    place: re.Pattern[bytes]
    becomes: bytes


FAULTS = {
    "ampersand": Fault(re.compile(rb""), b"& "),
    "space-between-attributes": Fault(re.compile(rb"(?<=[\"d]) (?=[a-z-]+=)"), b""),
    "control-character": Fault(re.compile(rb""), b"\x07"),
    "end-tag": Fault(re.compile(rb"</[a-z]+>"), b""),
    "wrong-end-tag": Fault(re.compile(rb"(?<=</)[a-z]+(?=>)"), b"wrong"),
    "base64-character": Fault(re.compile(rb"(?<=\w)(?=[\w+/]+=*</content>)"), b"*"),
    "flipped-byte": Fault(re.compile(rb"[\w+/](?=[\w+/]+=*</content>)"), b"A"),
    "record-end": Fault(re.compile(rb"</record>"), b""),
    "tag-start": Fault(re.compile(rb"<(?=acl|meta|content|principal)"), b""),
    "quote": Fault(re.compile(rb'"'), b""),
    "less-than": Fault(re.compile(rb"<"), b""),
    "greater-than": Fault(re.compile(rb">"), b""),
    "less-than-in-text": Fault(re.compile(rb""), b"<"),
    "cdata-end": Fault(re.compile(rb"\]\]>"), b""),
}


class Damaged(msgspec.Struct, frozen=True):
    """A feed, and its bytes with a fault in the record at `index`.

    `trapped` means that no delimiter of CDATA or of a comment was touched.
    """

    feed: MadeFeed
    fault: str
    index: int
    record: bytes
    torn: bool = False

    @property
    def markup(self) -> bytes:
        if self.torn:
            return self._before + self.record
        after = (part.gap + part.record for part in self.feed.parts[self.index + 1 :])
        return b"".join((self._before, self.record, *after, EPILOG))

    @property
    def start(self) -> int:
        return len(self._before)

    @property
    def end(self) -> int:
        return self.start + len(self.record)

    @property
    def other_urls(self) -> list[str]:
        return [url for url in self.feed.urls if url != self.feed.parts[self.index].url]

    @property
    def trapped(self) -> bool:
        whole = self.feed.parts[self.index].record
        return _DELIMITERS.findall(whole) == _DELIMITERS.findall(self.record)

    @property
    def _before(self) -> bytes:
        before = (part.gap + part.record for part in self.feed.parts[: self.index])
        return b"".join((PROLOG, *before, self.feed.parts[self.index].gap))


@st.composite
def feeds(draw: st.DrawFn) -> MadeFeed:
    """Make a feed of one to seven records of all kinds, in groups with and without an action."""
    count = draw(st.integers(min_value=1, max_value=7))
    return MadeFeed(tuple(draw(_parts(number)) for number in range(count)))


@st.composite
def damaged(draw: st.DrawFn) -> Damaged:
    """Make a feed and one fault at a random place of one of its records."""
    feed = draw(feeds())
    index = draw(st.integers(min_value=0, max_value=len(feed.parts) - 1))
    record = feed.parts[index].record
    name = draw(st.sampled_from([name for name in FAULTS if FAULTS[name].place.search(record)]))
    places = [match.span() for match in FAULTS[name].place.finditer(record)]
    start, end = draw(st.sampled_from(places))
    broken = record[:start] + FAULTS[name].becomes + record[end:]
    return Damaged(_without_swallowed(feed, index, broken), name, index, broken)


@st.composite
def torn(draw: st.DrawFn) -> Damaged:
    """Make a feed that ends inside its last record."""
    feed = draw(feeds())
    record = feed.parts[-1].record
    length = draw(st.integers(min_value=1, max_value=len(record) - 1))
    return Damaged(feed, "torn", len(feed.parts) - 1, record[:length], torn=True)


def unplaced(record: Record) -> Record:
    """Return the record without its line and byte, which a fault before it moves."""
    provenance = msgspec.structs.replace(record.provenance, line=0, offset=0, span=0)
    return msgspec.structs.replace(record, provenance=provenance)


def others(results: Iterable[Record | Reject], case: Damaged) -> list[Record]:
    """Return the records that the fault is not in."""
    urls = case.other_urls
    return [
        unplaced(result) for result in results if isinstance(result, Record) and result.url in urls
    ]


def unaccounted(results: Iterable[Record | Reject], case: Damaged) -> bytes:
    """Return what of the damaged record is in no reject, and before any record read from it."""
    left = bytearray(case.markup)
    for result in results:
        start, end = _extent(result, case)
        left[start:end] = b" " * (end - start)
    return bytes(left[case.start : case.end]).strip()


def fakes(results: Iterable[Record | Reject]) -> list[Record]:
    """Return the records that are only text inside of others."""
    return [result for result in results if isinstance(result, Record) and result.url == FAKE_URL]


def misplaced(results: Iterable[Record | Reject], markup: bytes) -> list[Reject]:
    """Return the rejects whose bytes are not those of their place."""
    rejects = [result for result in results if isinstance(result, Reject)]
    return [
        result
        for result in rejects
        if result.data != markup[result.offset : result.offset + result.length]
    ]


def made_public(results: Iterable[Record | Reject], case: Damaged) -> list[Record]:
    """Return the damaged record if it was read without the acl that it had."""
    if b"<acl" not in case.feed.parts[case.index].record:
        return []
    url = case.feed.parts[case.index].url
    read = [result for result in results if isinstance(result, Record)]
    return [result for result in read if result.url == url and result.acl is None]


def _extent(result: Record | Reject, case: Damaged) -> tuple[int, int]:
    if isinstance(result, Reject):
        end = min(result.offset + result.length, len(case.markup))
        return min(result.offset, end), end
    if case.start <= result.provenance.offset < case.end:
        return result.provenance.offset, case.end
    return 0, 0


def _without_swallowed(feed: MadeFeed, index: int, broken: bytes) -> MadeFeed:
    """Leave out the later records with CDATA if the fault left a section open.

    XML would take everything up to the next `]]>` into that section: the feed would be
    well-formed, and no reader could know better.
    """
    if not _OPEN_CDATA.search(broken):
        return feed
    later = (part for part in feed.parts[index + 1 :] if b"]]>" not in part.record)
    return MadeFeed((*feed.parts[: index + 1], *later))


@st.composite
def _parts(draw: st.DrawFn, number: int) -> Part:
    url = f"http://www.example.com/{number}?a=1&b={number}"
    gap = draw(st.sampled_from(_GROUPS)) if number == 0 else draw(_gaps)
    return Part(gap, draw(_records(url)).encode(), url)


@st.composite
def _records(draw: st.DrawFn, url: str) -> str:
    kind = draw(st.sampled_from(("document", "document", "document", "deletion", "acl")))
    if kind == "deletion":
        return f"<record{attributes([('url', url), ('action', 'delete')])}/>"
    if kind == "acl":
        return draw(
            _acls(attributes([("url", url)])) | st.just(f"<acl{attributes([('url', url)])}/>")
        )
    start = attributes([("url", url), *draw(_hints)])
    parts = [draw(part) for part in (_comments, _acl, _metadata, _contents)]
    return f"<record{start}>{''.join(parts)}</record>"


@st.composite
def _acls(draw: st.DrawFn, start: str = "") -> str:
    principals = [
        element("principal", name, attributes([("scope", scope), ("access", access)]))
        for scope, access, name in draw(_principals)
    ]
    return f"<acl{start}>{''.join(principals)}</acl>"


def _metadata_of(pairs: list[tuple[str, str]]) -> str:
    metas = [f"<meta{attributes([('name', name), ('content', text)])}/>" for name, text in pairs]
    return f"<metadata>{''.join(metas)}</metadata>"


def _cdata(text: str) -> str:
    return f"<content><![CDATA[{text}]]></content>"


def _base64(content: bytes) -> str:
    start = attributes([("encoding", "base64binary")])
    return element("content", base64.b64encode(content).decode(), start)


def _compressed(content: bytes) -> str:
    start = attributes([("encoding", "base64compressed")])
    return element("content", base64.b64encode(zlib.compress(content)).decode(), start)


_words = st.text(alphabet="abcd \näß語😀&<>'\"", max_size=20)
_names = st.text(alphabet="abcdefß&", min_size=1, max_size=8)
_traps = (
    st.lists(st.sampled_from(TRAPS) | _names, min_size=1, max_size=4)
    .map(" ".join)
    .filter(lambda text: not _CROSSES.search(text))
)
_binary = st.binary(min_size=6, max_size=60)

_GROUPS = (b"<group>\n", b'<group action="add">', b'<group pagerank="90" feedrank="20">')
_gaps = st.sampled_from(
    (
        b"\n",
        b"",
        b"\n<!-- <record url='http://fake.example.com/'> </record> -->\n",
        b'\n</group>\n<group pagerank="80">\n',
        b'\n</group>\n<group action="delete">\n',
        b"</group><group/><group>",
    )
)
_hints = st.sampled_from(
    (
        [("mimetype", "text/plain")],
        [("mimetype", "text/html"), ("action", "add"), ("lock", "true")],
        [("mimetype", "text/html"), ("last-modified", "Tue, 06 Nov 2007 12:45:26 GMT")],
        [("displayurl", "http://www.example.com/?show=<1>"), ("mimetype", "application/pdf")],
    )
)
_principals = st.lists(
    st.tuples(st.sampled_from(("user", "group")), st.sampled_from(("permit", "deny")), _names),
    max_size=3,
)
_comments = st.just("") | _traps.map(lambda text: f"<!-- {text} -->")
_inherits = attributes([("inherit-from", "http://www.example.com/")])
_acl = st.sampled_from(("", f"<acl{_inherits}/>")) | _acls()
_metadata = st.just("") | st.lists(st.tuples(_names, _names), max_size=3).map(_metadata_of)
_contents = st.one_of(
    st.just(""),
    _words.map(lambda text: element("content", text)),
    _traps.map(_cdata),
    _binary.map(_base64),
    _binary.map(_compressed),
)
full_feed_contents = st.one_of(
    _words.map(lambda text: element("content", text)),
    st.lists(st.sampled_from(("<p>", "a & b", "]]")) | _names).map(" ".join).map(_cdata),
    _binary.map(_base64),
)
"""The contents of documents, without text that reads as records."""
