"""The record of a unit whose markup was seen before: nearly all records of a feed look alike.

What stands between the double quotes of a unit are the values of its attributes; the rest is its
*shape*. A shape is parsed once, with marks for values. If each mark turns out to be the value of an
attribute that is known here, every unit of that shape is well-formed whatever its values are, as
long as no value holds markup, a control character or a reference other than the five that XML
defines; and the places of its values are known. Any other unit is left to the parser.
"""

import re
from collections.abc import Iterable
from itertools import repeat
from typing import NamedTuple

import msgspec
from lxml import etree

from schemas.acl import Acl, Principal
from schemas.errors import RecordError
from schemas.record import Meta
from transforms.formats.gsa.acl import BLANKS, Extras, read_acl
from transforms.formats.xml.elements import parse_markup
from transforms.formats.xml.raw_element import RawElement
from transforms.formats.xml.serializer import holds_bytes, may_be_attribute

_SHAPES = 256
"""How many shapes are learned; a feed without repetition must not cost memory."""

_ACLS = 4096
_MISSES = 8
_REST = 256
_END_TAG = b"</record>"
_BEGIN = re.compile(b"<record")
_TEXT_BYTES = 1 << 16
_OTHER_REFERENCE = re.compile("&(?!(?:lt|gt|quot|apos|amp);)")
_CDATA = b"<![CDATA["
_PRINCIPAL = re.compile(rb"\s*(<principal\b[^<>]*>[^<>]*</principal>)")
_REFERENCES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


class Parts(NamedTuple):
    """A record in pieces: all that the parser would have told of it."""

    attributes: dict[str, str]
    acl: Acl | None
    metadata: list[Meta]
    overwrite_acls: str | None
    encoding: str | None
    payload: bytes | None


class MarkupTemplate(NamedTuple):
    """Where the values of a shape belong, by their index.

    Those of the record come first, in the order of `names`. The metadata are `metas` pairs of name
    and content, end to end from `first_meta` on.
    """

    names: tuple[str, ...]
    first_meta: int
    metas: int
    overwrite: int | None
    encoding: int | None


class TemplateCache:
    """Takes units of one stream apart; remembers its shapes and ACLs, of which there are few."""

    def __init__(self) -> None:
        self._shapes: dict[str, MarkupTemplate | None] = {}
        self._acls: dict[bytes, Acl | None] = {}

    def take(self, unit: RawElement) -> Parts | None:
        """Return the parts of a unit, or None where the parser is needed."""
        if unit.name != "record" or not (unit.plain or unit.cdata):
            return None
        text, payload = (
            _cut_cdata(unit.text, *unit.cdata) if unit.cdata else _cut_payload(unit.text)
        )
        if text is None:
            return None
        acl = None
        if (begin := text.find(b"<acl")) >= 0:
            end = text.find(b"</acl>") + len(b"</acl>")
            acl = self._acl(text[begin:end])
            if acl is None:
                return None
            text = b"%b<acl/>%b" % (text[:begin], text[end:])
        return self._parts(text, acl, payload) if len(text) <= _TEXT_BYTES else None

    def _parts(self, text: bytes, acl: Acl | None, payload: bytes | None) -> Parts | None:
        try:
            pieces = text.decode().split('"')
        except UnicodeDecodeError:
            return None
        shape = self.shape('"'.join(pieces[::2]))
        values = _unescaped(pieces[1::2]) if shape else None
        if shape is None or values is None:
            return None
        first = shape.first_meta
        end = first + 2 * shape.metas
        encoding = None if shape.encoding is None else values[shape.encoding]
        if encoding is None and payload and not _is_text(payload):
            return None
        return Parts(
            dict(zip(shape.names, values, strict=False)),
            acl,
            list(map(Meta, values[first:end:2], values[first + 1 : end : 2])),
            None if shape.overwrite is None else values[shape.overwrite],
            encoding,
            payload,
        )

    def shape(self, markup: str) -> MarkupTemplate | None:
        """Return what is known, or learned now, of a shape."""
        if markup in self._shapes:
            return self._shapes[markup]
        if len(self._shapes) >= _SHAPES:
            return None
        self._shapes[markup] = shape = _learn(markup)
        return shape

    def _acl(self, markup: bytes) -> Acl | None:
        """The ACL of its markup; of its tag and each principal, what was seen before is known."""
        tag = markup[: markup.find(b">") + 1]
        if tag not in self._acls:
            self._remember(tag, tag + b"</acl>")
        principals: list[Principal] = []
        acl, at = self._acls[tag], len(tag)
        while (match := _PRINCIPAL.match(markup, at)) is not None:
            principal = match[1]
            if principal not in self._acls:
                self._remember(principal, b"<acl>%b</acl>" % principal)
            one = self._acls[principal]
            if one is None:
                return None
            principals += one.principals
            at = match.end()
        if acl is None or markup[at:].lstrip() != b"</acl>":
            return None
        return msgspec.structs.replace(acl, principals=tuple(principals))

    def _remember(self, markup: bytes, acl: bytes) -> None:
        if len(self._acls) >= _ACLS:
            self._acls.clear()
        self._acls[markup] = _read_acl(acl)


class ColumnBatch(NamedTuple):
    """A run of units of one shape, taken apart by columns: one value of each unit in each.

    `offsets` and `lines` count from the beginning of the run.
    """

    names: tuple[str, ...]
    rows: Iterable[tuple[str, ...]]
    metadata: Iterable[tuple[Meta, ...]]
    offsets: list[int]
    lines: Iterable[int]


class UniformBatch:
    """Takes runs of units without content apart, which costs a third of doing it one by one.

    Feeds whose units are not alike are left alone after a few tries, and tried again later.
    """

    def __init__(self, express: TemplateCache) -> None:
        self._express = express
        self._misses = 0
        self._rest = 0

    def take(self, run: bytes) -> ColumnBatch | None:
        """Return the columns of a run, None where its units are not of one simple shape."""
        if self._rest:
            self._rest -= 1
            return None
        columns = self._columns(run)
        self._misses = 0 if columns else self._misses + 1
        if self._misses == _MISSES:
            self._misses, self._rest = 0, _REST
        return columns

    def _columns(self, run: bytes) -> ColumnBatch | None:
        first = run.find(_END_TAG)
        if run.find(b"<content", 0, first) >= 0:
            return None
        width, count = run.count(b'"', 0, first), run.count(_END_TAG)
        if not width or width % 2 or run.count(b'"') != width * count:
            return None
        try:
            pieces = run.decode().split('"')
        except UnicodeDecodeError:
            return None
        markup = _common_markup(pieces, width, count)
        shape = self._express.shape(markup) if markup else None
        if shape is None or shape.overwrite is not None or shape.encoding is not None:
            return None
        values = _unescaped(pieces[1::2])
        if values is None or len(shape.names) + 2 * shape.metas != width // 2:
            return None
        return _columns(shape, values, pieces, run)


def _common_markup(pieces: list[str], width: int, count: int) -> str | None:
    """The markup of one unit, if it is that of all."""
    first, last, joints = pieces[0].lstrip(BLANKS), pieces[-1], pieces[width:-1:width]
    if joints:
        joint = joints[0]
        if joints.count(joint) != count - 1 or not joint.startswith(last):
            return None
        if joint[len(last) :].lstrip(BLANKS) != first:
            return None
    for column in range(2, width, 2):
        markup = pieces[column::width]
        if markup.count(markup[0]) != count:
            return None
    return '"'.join([first, *pieces[2:width:2], last])


def _columns(
    shape: MarkupTemplate, values: list[str], pieces: list[str], run: bytes
) -> ColumnBatch:
    width = len(pieces) // 2 // (len(pieces) // 2 // (len(shape.names) + 2 * shape.metas))
    columns = [values[column::width] for column in range(width)]
    attributes, pairs = columns[: len(shape.names)], columns[len(shape.names) :]
    metas = [map(Meta, *pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)]
    count = len(columns[0])
    step = "".join(pieces[2 : 2 * width + 1 : 2]).count("\n") if count > 1 else 0
    first = pieces[0].count("\n")
    return ColumnBatch(
        names=shape.names,
        rows=zip(*attributes, strict=True),
        metadata=zip(*metas, strict=True) if metas else repeat((), count),
        offsets=[match.start() for match in _BEGIN.finditer(run)],
        lines=range(first, first + step * count, step) if step else repeat(first, count),
    )


def _read_acl(markup: bytes) -> Acl | None:
    extras: Extras = []
    try:
        element = parse_markup(markup)
        acl = read_acl(element, dict(element.items()), extras, "record/acl", alone=False)
    except RecordError:
        return None
    return None if extras or element.tag != "acl" else acl


def _learn(markup: str) -> MarkupTemplate | None:
    """Parse a shape with its marks `0`, `1`, … for values, and see where they come out."""
    pieces = markup.split('"')
    marked = "".join(f'{piece}"{number}"' for number, piece in enumerate(pieces[:-1])) + pieces[-1]
    try:
        record = parse_markup(marked.encode())
    except RecordError:
        return None
    found = _Found()
    if record.tag != "record" or (record.text or "").strip(BLANKS):
        return None
    if not all(found.see(child) for child in record):
        return None
    names = tuple(record.keys())
    marks = [*record.values(), *found.marks]
    if marks != [str(number) for number in range(len(pieces) - 1)]:
        return None  # single quotes, or double ones in a text
    return MarkupTemplate(
        names=names,
        first_meta=len(names) + (found.overwrite is not None),
        metas=found.metas,
        overwrite=found.overwrite,
        encoding=found.encoding,
    )


class _Found:
    """What the children of a marked record hold; `see` refuses what a template cannot hold."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.metas = 0
        self.overwrite: int | None = None
        self.encoding: int | None = None
        self._seen: set[str] = set()

    def see(self, child: etree._Element) -> bool:
        tag = str(child.tag)
        first = tag not in self._seen
        self._seen.add(tag)
        if not first or (child.text or "").strip(BLANKS) or (child.tail or "").strip(BLANKS):
            return False
        if tag == "metadata":
            return "content" not in self._seen and self._see_metadata(child)
        if tag == "content":
            return not len(child) and self._see_content(child)
        return tag == "acl" and not len(child) and not child.keys()

    @staticmethod
    def _mark(element: etree._Element) -> int | None:
        """The number of the mark that is the value of the only attribute, if it is one."""
        value = element.values()[0]
        return int(value) if value.isascii() and value.isdecimal() else None

    def _see_metadata(self, element: etree._Element) -> bool:
        if element.keys():
            if element.keys() != ["overwrite-acls"]:
                return False
            self.overwrite = self._mark(element)
            self.marks += element.values()
        for meta in element:
            if meta.tag != "meta" or meta.keys() != ["name", "content"] or len(meta):
                return False
            if (meta.text or "").strip(BLANKS) or (meta.tail or "").strip(BLANKS):
                return False
            self.marks += meta.values()
            self.metas += 1
        return True

    def _see_content(self, element: etree._Element) -> bool:
        if element.keys() == ["encoding"]:
            self.encoding = self._mark(element)
            self.marks += element.values()
            return True
        return not element.keys()


def _cut_cdata(text: bytes, begin: int, end: int) -> tuple[bytes | None, bytes | None]:
    """Take the CDATA section out of a unit, if it is all that its content holds; else None."""
    opened, closed = begin - len(_CDATA), end + 3
    content = text.rfind(b"<content", 0, opened)
    if text.find(b">", content) + 1 != opened or not text.startswith(b"</content", closed):
        return None, None
    return text[:opened] + text[closed:], text[begin:end]


def _cut_payload(text: bytes) -> tuple[bytes | None, bytes | None]:
    """Take the text out of the content of a unit, if it has one; None where it has references."""
    content = text.find(b"<content")
    if content < 0:
        return text, None
    begin, end = text.find(b">", content) + 1, text.rfind(b"</content")
    payload = text[begin:end]
    if end < begin or b"&" in payload or b"<" in payload or b"]" in payload:
        return None, None
    return text[:begin] + text[end:], payload


def _is_text(payload: bytes) -> bool:
    """Whether the parser would hand on a text as it is: no line ends of other systems, all XML."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return b"\r" not in payload and holds_bytes(payload)


def _unescaped(values: list[str]) -> list[str] | None:
    """The values without references, or None if one is not fit to be an attribute's value."""
    text = '"'.join(values)  # the one character that no value holds
    if not may_be_attribute(text):
        return None
    if "&" not in text:
        return values
    if _OTHER_REFERENCE.search(text):
        return None
    if text.count("&") == text.count("&amp;"):
        return text.replace("&amp;", "&").split('"')
    return [_unescape(value) if "&" in value else value for value in values]


def _unescape(value: str) -> str:
    for reference, char in _REFERENCES:
        value = value.replace(reference, char)
    return value
