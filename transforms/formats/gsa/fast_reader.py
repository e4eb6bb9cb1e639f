"""Read records without a parser if their markup was seen before: most records of a feed are alike.

Split an element at its double quotes: every second piece is the value of an attribute, and the
other pieces are its *markup*. Markup is parsed once, with a number in place of each value. If each
number comes out as the value of a known attribute, the places of the values are known: the result
is a `MarkupTemplate`. Then every element with this markup is well-formed, as long as its values
have no markup, no control character and no reference but the five of XML. Any other element goes to
the parser.
"""

import html
import re
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

import msgspec
from lxml import etree

from schemas.acl import Acl, Principal
from schemas.errors import RecordError
from schemas.record import Meta
from transforms.formats.acl_metadata import BLANKS
from transforms.formats.gsa.acl import Extras, read_acl
from transforms.formats.gsa.rows import CONTENT, METADATA
from transforms.formats.xml.elements import parse_markup
from transforms.formats.xml.scanner import RawElement
from transforms.formats.xml.serializer import holds_bytes, may_be_attribute

_MAX_TEMPLATES = 256  # a feed without repetition must not fill the memory
_MAX_ACLS = 4096
_MAX_MISSES = 8
_PAUSED_RUNS = 256
_TEXT_BYTES = 1 << 16
_END_TAG = b"</record>"
_BEGIN = re.compile(b"<record")
_OTHER_REFERENCE = re.compile("&(?!(?:lt|gt|quot|apos|amp);)")
_CDATA = b"<![CDATA["
_PRINCIPAL = re.compile(rb"\s*(<principal\b[^<>]*>[^<>]*</principal>)")
_CHILDREN: dict[str, list[list[str]]] = {
    "acl": [[]],
    "metadata": [[], *([row.name] for row in METADATA.rows)],
    "content": [[], *([row.name] for row in CONTENT.rows)],
}
"""The children of a record in a template, and the attributes that each may have."""

Pairs = Sequence[tuple[str, str]]


class RecordParts(NamedTuple):
    """A record in pieces, as the parser would return them.

    `of_metadata` and `of_content` are the attributes of these elements.
    """

    attributes: dict[str, str]
    acl: Acl | None
    metadata: list[Meta]
    of_metadata: Pairs
    of_content: Pairs
    payload: bytes | None


class MarkupTemplate(NamedTuple):
    """The meaning of the values of an element, by their index.

    The values of the record's attributes come first, in the order of `names`. The metadata are
    `metas` pairs of name and content, one after another from `first_meta` on.
    """

    names: tuple[str, ...]
    first_meta: int
    metas: int
    of_metadata: tuple[tuple[str, int], ...]
    of_content: tuple[tuple[str, int], ...]


class TemplateCache:
    """Takes elements apart by the templates and ACLs that were seen in the same stream."""

    def __init__(self) -> None:
        self._templates: dict[str, MarkupTemplate | None] = {}
        self._acls: dict[bytes, Acl | None] = {}

    def take(self, raw: RawElement) -> RecordParts | None:
        """Return the parts of an element, or None if it needs the parser."""
        if raw.name != "record" or not (raw.is_plain or raw.cdata):
            return None
        text, payload = _cut_cdata(raw.text, *raw.cdata) if raw.cdata else _cut_payload(raw.text)
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

    def template(self, markup: str) -> MarkupTemplate | None:
        """Return the template of a markup, learned now if it is new."""
        if markup in self._templates:
            return self._templates[markup]
        if len(self._templates) >= _MAX_TEMPLATES:
            return None
        self._templates[markup] = template = _learn(markup)
        return template

    def _parts(self, text: bytes, acl: Acl | None, payload: bytes | None) -> RecordParts | None:
        try:
            pieces = text.decode().split('"')
        except UnicodeDecodeError:
            return None
        template = self.template('"'.join(pieces[::2]))
        values = _unescaped(pieces[1::2]) if template else None
        if template is None or values is None:
            return None
        first = template.first_meta
        end = first + 2 * template.metas
        if payload and not template.of_content and not _is_text(payload):
            return None
        return RecordParts(
            attributes=dict(zip(template.names, values, strict=False)),
            acl=acl,
            metadata=list(map(Meta, values[first:end:2], values[first + 1 : end : 2])),
            of_metadata=[(name, values[at]) for name, at in template.of_metadata],
            of_content=[(name, values[at]) for name, at in template.of_content],
            payload=payload,
        )

    def _acl(self, markup: bytes) -> Acl | None:
        """Return the ACL of its markup; its start tag and each principal are cached."""
        tag = markup[: markup.find(b">") + 1]
        acl, at = self._cached_acl(tag, tag + b"</acl>"), len(tag)
        principals: list[Principal] = []
        while (match := _PRINCIPAL.match(markup, at)) is not None:
            of_principal = self._cached_acl(match[1], b"<acl>%b</acl>" % match[1])
            if of_principal is None:
                return None
            principals += of_principal.principals
            at = match.end()
        if acl is None or markup[at:].lstrip() != b"</acl>":
            return None
        return msgspec.structs.replace(acl, principals=tuple(principals))

    def _cached_acl(self, key: bytes, markup: bytes) -> Acl | None:
        if key not in self._acls:
            if len(self._acls) >= _MAX_ACLS:
                self._acls.clear()
            self._acls[key] = _read_acl(markup)
        return self._acls[key]


Rows = Iterable[tuple[dict[str, str], tuple[Meta, ...], int, int]]
"""The attributes, metadata, offset and line of elements; both count from the begin of their run."""


class UniformBatch:
    """Takes runs of elements without content apart, for a third of the cost of one by one.

    If a few runs in a row are not uniform, the next ones are not tried.
    """

    def __init__(self, templates: TemplateCache) -> None:
        self._templates = templates
        self._misses = 0
        self._paused = 0

    def take(self, run: bytes) -> Rows | None:
        """Return the elements of a run, None if they do not all have the same markup."""
        if self._paused:
            self._paused -= 1
            return None
        rows = self._rows(run)
        self._misses = 0 if rows else self._misses + 1
        if self._misses == _MAX_MISSES:
            self._misses, self._paused = 0, _PAUSED_RUNS
        return rows

    def _rows(self, run: bytes) -> Rows | None:
        first = run.find(_END_TAG)
        if run.find(b"<content", 0, first) >= 0 or run.find(b"<acl", 0, first) >= 0:
            return None
        width, count = run.count(b'"', 0, first), run.count(_END_TAG)
        if not width or width % 2 or run.count(b'"') != width * count:
            return None
        try:
            pieces = run.decode().split('"')
        except UnicodeDecodeError:
            return None
        markup = _common_markup(pieces, width, count)
        template = self._templates.template(markup) if markup else None
        if template is None or template.of_metadata or template.of_content:
            return None
        values = _unescaped(pieces[1::2])
        if values is None or len(template.names) + 2 * template.metas != width // 2:
            return None
        return _zip_columns(template, values, pieces, run)


def _common_markup(pieces: list[str], width: int, count: int) -> str | None:
    """Return the markup of the first element if all others have the same."""
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


def _zip_columns(
    template: MarkupTemplate, values: list[str], pieces: list[str], run: bytes
) -> Rows:
    """Take one value of each element at a time: a third of the cost of one element at a time."""
    names = template.names
    width = len(names) + 2 * template.metas
    columns = [values[column::width] for column in range(width)]
    pairs = columns[len(names) :]
    metas = [map(Meta, *pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)]
    count = len(columns[0])
    step = "".join(pieces[2 : 2 * width + 1 : 2]).count("\n") if count > 1 else 0
    first = pieces[0].count("\n")
    return zip(
        (dict(zip(names, row, strict=False)) for row in zip(*columns[: len(names)], strict=True)),
        zip(*metas, strict=True) if metas else repeat((), count),
        (match.start() for match in _BEGIN.finditer(run)),
        range(first, first + step * count, step) if step else repeat(first, count),
        strict=True,
    )


def _read_acl(markup: bytes) -> Acl | None:
    extras: Extras = []
    try:
        element = parse_markup(markup)
        acl = read_acl(element, extras)
    except RecordError:
        return None
    return None if extras or element.tag != "acl" else acl


def _learn(markup: str) -> MarkupTemplate | None:
    """Parse markup with the numbers `0`, `1`, … as values, and see where they come out."""
    pieces = markup.split('"')
    numbered = "".join(f'{piece}"{number}"' for number, piece in enumerate(pieces[:-1]))
    try:
        record = parse_markup((numbered + pieces[-1]).encode())
    except RecordError:
        return None
    elements = list(record.iter(etree.Element))
    children = {str(child.tag): child for child in record}
    metadata, content = children.get("metadata"), children.get("content")
    metas = [] if metadata is None else list(metadata)
    is_known = (
        record.tag == "record"
        and children.keys() <= _CHILDREN.keys()
        and len(elements) == 1 + len(children) + len(metas)
        and all(child.keys() in _CHILDREN[tag] for tag, child in children.items())
        and all(meta.tag == "meta" and meta.keys() == ["name", "content"] for meta in metas)
        and not any(map(_has_text, elements))
    )
    values = [value for element in elements for value in element.values()]
    if not is_known or values != [str(number) for number in range(len(pieces) - 1)]:
        return None  # among others: single quotes, or double quotes in a text
    return MarkupTemplate(
        names=tuple(map(str, record.keys())),
        first_meta=int(metas[0].values()[0]) if metas else 0,
        metas=len(metas),
        of_metadata=_numbers_in(metadata),
        of_content=_numbers_in(content),
    )


def _numbers_in(element: etree._Element | None) -> tuple[tuple[str, int], ...]:
    """Return the names of the attributes, with the numbers that are their values."""
    return () if element is None else tuple((name, int(at)) for name, at in element.items())


def _has_text(element: etree._Element) -> bool:
    return bool((element.text or "").strip(BLANKS) or (element.tail or "").strip(BLANKS))


def _cut_cdata(text: bytes, begin: int, end: int) -> tuple[bytes | None, bytes | None]:
    """Take the CDATA section out of an element, if its content has nothing else; else None."""
    opened, closed = begin - len(_CDATA), end + 3
    content = text.rfind(b"<content", 0, opened)
    if text.find(b">", content) + 1 != opened or not text.startswith(b"</content", closed):
        return None, None
    return text[:opened] + text[closed:], text[begin:end]


def _cut_payload(text: bytes) -> tuple[bytes | None, bytes | None]:
    """Take the text out of the content of an element; None if it has references or markup."""
    content = text.find(b"<content")
    if content < 0:
        return text, None
    begin, end = text.find(b">", content) + 1, text.rfind(b"</content")
    payload = text[begin:end]
    if end < begin or b"&" in payload or b"<" in payload or b"]" in payload:
        return None, None
    return text[:begin] + text[end:], payload


def _is_text(payload: bytes) -> bool:
    """Whether the parser would return a text unchanged: UTF-8 and XML, without carriage returns."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return b"\r" not in payload and holds_bytes(payload)


def _unescaped(values: list[str]) -> list[str] | None:
    """Return the values without references, or None if one cannot be the value of an attribute."""
    text = '"'.join(values)  # the one character that no value has
    if not may_be_attribute(text):
        return None
    if "&" not in text:
        return values
    if _OTHER_REFERENCE.search(text):
        return None
    if text.count("&") == text.count("&amp;"):
        return text.replace("&amp;", "&").split('"')
    return [html.unescape(value) if "&" in value else value for value in values]
