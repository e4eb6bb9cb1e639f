"""Read records without a parser if their markup was seen before: most records of a feed are alike.

Cut the content and the names of principals out of an element, and split the rest at its double
quotes: every second piece is the value of an attribute, and the other pieces are its *markup*.
Markup is parsed once, with a number in place of each value. If each number comes out as the value
of a known attribute, the places of the values are known: the result is a `MarkupTemplate`. Then
every element with this markup is well-formed, as long as its values have no markup, no control
character and no reference but the five of XML. Any other element goes to the parser.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pybase64
from lxml import etree
from msgspec.structs import replace

from schemas.acl import Acl
from schemas.content import clean_base64
from schemas.errors import RecordError
from schemas.record import Encoding, Meta, Record
from schemas.span import ElementContext
from transforms.formats.acl_metadata import BLANKS
from transforms.formats.base import ReadOptions
from transforms.formats.gsa.acl import Extras, read_acl
from transforms.formats.gsa.rows import CONTENT, ENCODING, METADATA
from transforms.formats.record_batch import ColumnKind, Values, escaped, unescaped
from transforms.formats.xml.element_runs import (
    ElementRuns,
    MarkupPieces,
    MarkupTemplate,
    RunShape,
    ShapeKey,
    are_texts,
)
from transforms.formats.xml.elements import parse_markup

_END = "</record>"
_END_ACL = "</acl>"
_END_PRINCIPAL = "</principal>"
_NO_ACL = "<acl/>"
_NO_NAMES: list[str] = []
_CHILDREN: dict[str, list[list[str]]] = {
    "acl": [[]],
    "metadata": [[], *([row.name] for row in METADATA.rows)],
    "content": [[], *([row.name] for row in CONTENT.rows)],
}
"""The children of a record in a template, and the attributes that each may have."""

FREE_ATTRIBUTES = {
    "url": ColumnKind.URL,
    "displayurl": ColumnKind.TEXT,
    "last-modified": ColumnKind.DATE,
}
"""The attributes of a record that differ from record to record, and the kinds of their columns."""

_NOT_TEXT = "\1"
"""Is in place of base64 that is no text; it is a value that no attribute has."""

_CONTENT_KINDS = {Encoding.BASE64: ColumnKind.BASE64, Encoding.ZLIB_BASE64: ColumnKind.ZLIB}

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


BuildRecord = Callable[[RecordParts, int, int], Record]
"""Builds a record of its parts, its line and its offset, in the current context."""


class _MetaPlaces(NamedTuple):
    """The indexes of the attributes of a metadata element."""

    name: int
    content: int
    encoding: int | None = None


class RecordTemplate(MarkupTemplate):
    """The meaning of the values of elements with the same markup, by their index.

    The values of the record's attributes come first, in the order of `names`. `free` are the
    indexes of values that differ from record to record. `constant` are those of all others, which
    records of one shape share: choices, numbers, types, and the names of metadata.
    """

    def __init__(self, record: etree._Element) -> None:
        children = {str(child.tag): child for child in record}
        self.names = tuple(map(str, record.keys()))
        self.of_metadata = _numbers_in(children.get("metadata"))
        self.of_content = _numbers_in(children.get("content"))
        metas = [*children.get("metadata", ())]
        self.of_metas = [
            _MetaPlaces(**{str(name): int(at) for name, at in meta.items()}) for meta in metas
        ]
        self.has_acl, self.contents = "acl" in children, int("content" in children)
        is_free = [name in FREE_ATTRIBUTES for name in self.names]
        self.free = [at for at, free in enumerate(is_free) if free]
        self.free += [meta.content for meta in self.of_metas]
        self.constant = [at for at, free in enumerate(is_free) if not free]
        self.constant += [meta.name for meta in self.of_metas]
        self.constant += [meta.encoding for meta in self.of_metas if meta.encoding is not None]
        self.constant += [at for _, at in self.of_metadata + self.of_content]


class FeedRuns(ElementRuns[RecordTemplate]):
    """Makes batches of runs of records; `enter` begins a context, in which `build` builds them."""

    def __init__(
        self,
        options: ReadOptions,
        *,
        enter: Callable[[ElementContext, int], object],
        in_context: Callable[[], BuildRecord],
    ) -> None:
        super().__init__(options, record="record", contents=["content"])
        self._enter, self._in_context = enter, in_context

    def enter(self, context: ElementContext, line: int, *, is_new: bool) -> None:
        self._enter(context, line)
        if is_new:
            self._build = self._in_context()

    def split(self, head: str) -> MarkupPieces:
        acl, names = "", _NO_NAMES
        if "<acl" in head:
            head, acl, names = _cut_acl(head)
        pieces = head.split('"')
        return MarkupPieces('"'.join(pieces[::2]) + _END, acl, pieces[1::2], names)

    def split_run(self, text: str) -> tuple[str, list[Sequence[str]]] | None:
        count, width = text.count(_END), text.count('"', 0, text.find(_END))
        if not width or width % 2 or text.count('"') != width * count:
            return None
        pieces = text.split('"')
        markup = _common_markup(pieces, width, count)
        if markup is None:
            return None
        values = pieces[1::2]
        return markup, [values[at :: width // 2] for at in range(width // 2)]

    def learn(self, markup: str) -> RecordTemplate | None:
        return _learn(markup.lstrip(BLANKS))

    def shape(self, template: RecordTemplate, key: ShapeKey) -> RunShape:
        return _RecordShape(template, key, self._build)


class _RecordShape(RunShape):
    """The shape of records with the same kind of ACL; `part` is its markup without names."""

    def __init__(self, template: RecordTemplate, key: ShapeKey, build: BuildRecord) -> None:
        names, count = template.names, len(template.names)
        self._names = [names[at] for at in template.free if at < count]
        kinds = [FREE_ATTRIBUTES[name] for name in self._names]
        kinds += [ColumnKind.TEXT] * len(template.of_metas)
        self._build = build
        stated = dict(zip(template.constant, unescaped(key.constants), strict=True))
        self._attributes = {names[at]: text for at, text in stated.items() if at < count}
        self._meta_names = [stated[meta.name] for meta in template.of_metas]
        self._in_base64 = [
            at for at, meta in enumerate(template.of_metas) if meta.encoding is not None
        ]
        for at in self._in_base64:
            [self._meta_names[at]] = _decoded([self._meta_names[at]])
        encodings = [stated[at] for *_, at in template.of_metas if at is not None]
        self._of_metadata = [(name, stated[at]) for name, at in template.of_metadata]
        self._of_content = [(name, stated[at]) for name, at in template.of_content]
        self._acl = _read_acl(key.part) if key.part else None
        self._principals = self._acl.principals if self._acl else ()
        kinds += [ColumnKind.NAME] * len(self._principals)
        if template.contents:
            encoding = dict(self._of_content).get("encoding", "")
            of_text = ColumnKind.CDATA if key.are_cdata[0] else ColumnKind.CONTENT
            kinds.append(_CONTENT_KINDS.get(ENCODING.decode(encoding), of_text))
        self._is_readable = (
            are_texts(key.constants)
            and template.has_acl is (self._acl is not None)
            and _NOT_TEXT not in self._meta_names
            and all(ENCODING.decode(encoding) is Encoding.BASE64 for encoding in encodings)
        )
        super().__init__(self._make, kinds)

    @property
    def is_readable(self) -> bool:
        return self._is_readable

    def escaped(self, columns: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        columns = [*columns]
        for at in self._in_base64:
            number = len(self._names) + at
            columns[number] = escaped(_decoded(columns[number]))
        return columns

    def _make(self, values: Values) -> Record:
        """Return the record of attributes, metadata, principals, content, line and offset."""
        *texts, line, offset = values
        names, acl = self._names, self._acl
        metas_end = len(names) + len(self._meta_names)
        names_end = metas_end + len(self._principals)
        if acl is not None and self._principals:
            pairs = zip(self._principals, texts[metas_end:names_end], strict=True)
            acl = replace(
                acl, principals=tuple(replace(principal, name=name) for principal, name in pairs)
            )
        parts = RecordParts(
            attributes={**self._attributes, **dict(zip(names, texts, strict=False))},
            acl=acl,
            metadata=list(map(Meta, self._meta_names, texts[len(names) : metas_end])),
            of_metadata=self._of_metadata,
            of_content=self._of_content,
            payload=texts[names_end] if len(texts) > names_end else None,
        )
        return self._build(parts, line, offset)


def _cut_acl(head: str) -> tuple[str, str, list[str]]:
    """Take the ACL out of an element; return the rest, its markup, and the names of principals."""
    begin, end = head.find("<acl"), head.find(_END_ACL)
    *entries, rest = head[begin : end + len(_END_ACL)].split(_END_PRINCIPAL)
    pairs = [entry.rpartition(">") for entry in entries]
    names = [name for *_, name in pairs]
    if end < begin or '"' in "".join(names):
        return head, "", []  # its markup has no template
    markup = "".join([f"{tag}>{_END_PRINCIPAL}" for tag, *_ in pairs]) + rest
    return head[:begin] + _NO_ACL + head[end + len(_END_ACL) :], markup, names


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


def _read_acl(markup: str) -> Acl | None:
    """Return the ACL of a markup whose principals have no names; None if it needs the parser."""
    extras: Extras = []
    try:
        acl = read_acl(parse_markup(markup.encode()), extras)
    except RecordError:
        return None
    has_names = any(principal.name for principal in acl.principals)
    return None if extras or has_names else acl


def _learn(markup: str) -> RecordTemplate | None:
    """Parse markup with the numbers `0`, `1`, … as values, and see where they come out."""
    pieces = markup.split('"')
    numbered = "".join(f'{piece}"{number}"' for number, piece in enumerate(pieces[:-1]))
    try:
        record = parse_markup((numbered + pieces[-1]).encode())
    except RecordError:
        return None
    elements = list(record.iter(etree.Element))
    children = {str(child.tag): child for child in record}
    metas = [*children.get("metadata", ())]
    is_known = (
        record.tag == "record"
        and children.keys() <= _CHILDREN.keys()
        and len(elements) == 1 + len(children) + len(metas)
        and all(child.keys() in _CHILDREN[tag] for tag, child in children.items())
        and all(meta.tag == "meta" and _is_known_meta(meta) for meta in metas)
        and not any(map(_has_text, elements))
    )
    values = [value for element in elements for value in element.values()]
    if not is_known or values != [str(number) for number in range(len(pieces) - 1)]:
        return None  # among others: single quotes, or double quotes in a text
    return RecordTemplate(record)


def _is_known_meta(meta: etree._Element) -> bool:
    names = meta.keys()
    return names == ["name", "content"] or sorted(names) == ["content", "encoding", "name"]


def _decoded(column: Sequence[str]) -> list[str]:
    """Return the texts of base64; `_NOT_TEXT` in place of what needs the parser."""
    texts = []
    for value in column:
        try:
            texts.append(pybase64.b64decode(clean_base64(value.encode())).decode())
        except (RecordError, UnicodeDecodeError):
            texts.append(_NOT_TEXT)
    return texts


def _numbers_in(element: etree._Element | None) -> tuple[tuple[str, int], ...]:
    """Return the names of the attributes, with the numbers that are their values."""
    return () if element is None else tuple((name, int(at)) for name, at in element.items())


def _has_text(element: etree._Element) -> bool:
    return bool((element.text or "").strip(BLANKS) or (element.tail or "").strip(BLANKS))
