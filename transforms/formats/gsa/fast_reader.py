"""Read records without a parser if their markup was seen before: most records of a feed are alike.

Split an element at its double quotes: every second piece is the value of an attribute, and the
other pieces are its *markup*. Markup is parsed once, with a number in place of each value. If each
number comes out as the value of a known attribute, the places of the values are known: the result
is a `MarkupTemplate`. Then every element with this markup is well-formed, as long as its values
have no markup, no control character and no reference but the five of XML. Any other element goes to
the parser.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import msgspec
from lxml import etree

from schemas.acl import Acl, Principal
from schemas.errors import RecordError
from schemas.record import Meta, Record
from transforms.formats.acl_metadata import BLANKS
from transforms.formats.gsa.acl import Extras, read_acl
from transforms.formats.gsa.rows import CONTENT, METADATA
from transforms.formats.record_batch import (
    ColumnKind,
    Columns,
    RecordBatch,
    Shape,
    Values,
    are_contents,
    are_neutral,
    has_neutral_columns,
    unescaped,
)
from transforms.formats.xml.elements import parse_markup
from transforms.formats.xml.scanner import RawElement
from transforms.formats.xml.serializer import holds_bytes, may_be_attribute

_MAX_TEMPLATES = 256  # a feed without repetition must not fill the memory
_MAX_SHAPES = 256
_MAX_ACLS = 4096
_MAX_MISSES = 8
_PAUSED_RUNS = 256
_TEXT_BYTES = 1 << 16
_SMALL_BYTES = 1 << 13
"""Larger elements are read one by one: their cost is that of their content."""
_MIN_GROUPS, _RECORDS_A_GROUP = 4, 8
"""How many shapes a run may have: each costs as much as a few records."""
_END = "</record>"
_END_TAG = _END.encode()
_END_ACL = "</acl>"
_NO_ACL = "<acl/>"
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

FREE_ATTRIBUTES = {
    "url": ColumnKind.URL,
    "displayurl": ColumnKind.TEXT,
    "last-modified": ColumnKind.DATE,
}
"""The attributes of a record that differ from record to record, and the kinds of their columns."""

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
            acl = self.read_acl(text[begin:end])
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
        escaped = pieces[1::2]
        if template is None or not _are_texts(escaped):
            return None
        values = unescaped(escaped)
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

    def read_acl(self, markup: bytes) -> Acl | None:
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


BuildRecord = Callable[[RecordParts, int, int], Record]
"""Builds a record of its parts, its line and its offset, in the current context."""


class _Group(NamedTuple):
    """Records of a run that have one shape: their values, escaped, their lines and places in it."""

    shape: "_RunShape"
    columns: list[Sequence[str]]
    lines: Sequence[int]
    places: Sequence[int]


class _FoundShape(NamedTuple):
    """The records of a shape while a run is taken apart."""

    form: "_Form"
    rows: list[list[str]]
    contents: list[str]
    lines: list[int]
    places: list[int]


class Runs:
    """Makes batches of runs of small elements, by the templates of their markup.

    If a few runs in a row have an element without a template, the next ones are not tried.
    """

    _build: BuildRecord

    def __init__(self, templates: TemplateCache, *, max_content_bytes: int) -> None:
        self._templates = templates
        self._has_contents = max_content_bytes >= _SMALL_BYTES
        self._forms: dict[str, _Form | None] = {}
        self._shapes: dict[tuple[str, ...], _RunShape] = {}
        self._misses = 0
        self._paused = 0

    def enter_context(self, build: BuildRecord) -> None:
        """Begin another header or group; shapes depend on it, so they are learned again."""
        self._build = build
        self._shapes.clear()

    def take(self, run: bytes, offset: int, line: int) -> tuple[RecordBatch, bool] | None:
        """Return the records of a run, and whether they can be converted as a batch.

        Return None if an element needs the parser. Raise what `build` raises for a record.
        """
        if self._paused:
            self._paused -= 1
            return None
        groups = self._groups(run, line)
        self._misses = 0 if groups else self._misses + 1
        if self._misses == _MAX_MISSES:
            self._misses, self._paused = 0, _PAUSED_RUNS
        return _batch(groups, partial(_offsets, run, offset)) if groups else None

    def _groups(self, run: bytes, line: int) -> list[_Group] | None:
        if run.find(_END_TAG) > _SMALL_BYTES:
            return None
        try:
            text = run.decode()
        except UnicodeDecodeError:
            return None
        width, count = text.count('"', 0, text.find(_END)), text.count(_END)
        is_even = width and not width % 2 and text.count('"') == width * count
        groups = self._uniform(text.split('"'), width, count, line) if is_even else None
        return groups or self._mixed(text.split(_END)[:-1], line)

    def _uniform(self, pieces: list[str], width: int, count: int, line: int) -> list[_Group] | None:
        """Return the one group of a run, None if markup or constants differ."""
        markup = _common_markup(pieces, width, count)
        form = markup and self._form(markup)
        if not markup or not form or form.has_content:
            return None
        values = pieces[1::2]
        columns = [values[at :: width // 2] for at in range(width // 2)]
        constants = [columns[at] for at in form.constant]
        if any(column.count(column[0]) < count for column in constants):
            return None
        shape = self._shape(markup, "", form, tuple(column[0] for column in constants))
        step = "".join(pieces[2 : width + 1 : 2]).count("\n") if count > 1 else 0
        first = line + pieces[0].count("\n")
        lines = range(first, first + step * count, step) if step else [first] * count
        return [_Group(shape, [columns[at] for at in form.free], lines, range(count))]

    def _mixed(self, elements: list[str], line: int) -> list[_Group] | None:
        """Return the groups of a run, None if an element has no template."""
        groups: dict[tuple[str, ...], _FoundShape] = {}
        most = _MIN_GROUPS + len(elements) // _RECORDS_A_GROUP
        for place, element in enumerate(elements):
            text, content = _cut_text(element) if "<content" in element else (element, "")
            text, acl = _cut_acl(text) if "<acl" in text else (text, "")
            pieces = text.split('"')
            markup = '"'.join(pieces[::2]) + _END
            if (form := self._form(markup)) is None or form.has_content > self._has_contents:
                return None
            values = pieces[1::2]
            key = (markup, acl, *(values[at] for at in form.constant))
            found = groups.get(key)
            if found is None:
                if len(groups) == most:
                    return None
                found = groups[key] = _FoundShape(form, [], [], [], [])
            found.rows.append(values)
            found.contents.append(content)
            found.lines.append(line + form.leading_lines)
            found.places.append(place)
            line += form.lines + acl.count("\n") + content.count("\n")
        return [
            _Group(
                self._shape(key[0], key[1], found.form, key[2:]),
                [
                    *([row[at] for row in found.rows] for at in found.form.free),
                    *([found.contents] if found.form.has_content else []),
                ],
                found.lines,
                found.places,
            )
            for key, found in groups.items()
        ]

    def _form(self, markup: str) -> "_Form | None":
        """Return how the values of a markup become columns, None if it needs the parser."""
        if markup not in self._forms:
            if len(self._forms) >= _MAX_SHAPES:
                self._forms.clear()
            template = self._templates.template(markup.lstrip(BLANKS))
            is_fit = template and not (template.of_metadata or template.of_content)
            self._forms[markup] = _Form(template, markup) if template and is_fit else None
        return self._forms[markup]

    def _shape(
        self, markup: str, acl: str, form: "_Form", constants: tuple[str, ...]
    ) -> "_RunShape":
        key = (markup, acl, *constants)
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            read = self._templates.read_acl(acl.encode()) if acl else None
            has_acl = (read is not None) is ("<acl" in markup)
            shape = _RunShape(form, constants, read, self._build, is_readable=has_acl)
            self._shapes[key] = shape
        return shape


def _batch(
    groups: list[_Group], find_offsets: Callable[[], list[int]]
) -> tuple[RecordBatch, bool] | None:
    """Return the records of a run and whether they are neutral, None if one needs the parser."""
    are_all_neutral = True
    order = [0] * sum(len(group.places) for group in groups)
    batch = []
    for number, (shape, columns, lines, places) in enumerate(groups):
        *texts, contents = columns if shape.has_content else [*columns, ()]
        values = [*chain.from_iterable(texts)]
        is_neutral = are_neutral(values) and has_neutral_columns(shape.kinds, columns)
        if not shape.is_readable or not (is_neutral or _are_texts(values)):
            return None
        if not (is_neutral or are_contents(contents)):
            return None
        are_all_neutral &= is_neutral and shape.has_model
        if number:
            for place in places:
                order[place] = number

        def offsets(places: Sequence[int] = places) -> list[int]:
            found = find_offsets()
            return found if len(places) == len(found) else [found[place] for place in places]

        batch.append(Columns(shape, [*columns, lines, offsets], len(places)))
    return RecordBatch(batch, order), are_all_neutral


def _cut_text(element: str) -> tuple[str, str]:
    """Take the text out of the content of an element, if it has no markup."""
    begin = element.find(">", element.find("<content")) + 1
    end = element.rfind("</content")
    content = element[begin:end]
    return (
        (element, "")
        if end < begin or "<" in content
        else (element[:begin] + element[end:], content)
    )


def _cut_acl(element: str) -> tuple[str, str]:
    """Replace the ACL of an element by an empty one."""
    begin, end = element.find("<acl"), element.find(_END_ACL)
    if end < begin:
        return element, ""
    end += len(_END_ACL)
    return element[:begin] + _NO_ACL + element[end:], element[begin:end]


class _Form:
    """How the values of elements with the same markup become records.

    `free` are the indexes of values that differ from record to record. `constant` are those of all
    others, which records of one shape share: choices, numbers, types, and the names of metadata.
    """

    def __init__(self, template: MarkupTemplate, markup: str) -> None:
        names = self.names = template.names
        pairs = range(len(names), len(names) + 2 * template.metas)
        self.free = [at for at, name in enumerate(names) if name in FREE_ATTRIBUTES]
        self.free += pairs[1::2]
        self.constant = [at for at, name in enumerate(names) if name not in FREE_ATTRIBUTES]
        self.constant += pairs[::2]
        self.has_content = "<content" in markup
        self.leading_lines = markup[: -len(markup.lstrip(BLANKS))].count("\n")
        self.lines = markup.count("\n")


class _RunShape(Shape):
    """The shape of elements with the same markup, the same constants and the same ACL.

    Elements that are not readable need the parser.
    """

    def __init__(
        self,
        form: _Form,
        constants: Sequence[str],
        acl: Acl | None,
        build: BuildRecord,
        *,
        is_readable: bool,
    ) -> None:
        self.is_readable = is_readable and _are_texts(constants)
        self.has_content = form.has_content
        names, count = form.names, len(form.names)
        stated = dict(zip(form.constant, unescaped(constants), strict=True))
        self._attributes = {names[at]: text for at, text in stated.items() if at < count}
        self._meta_names = [text for at, text in stated.items() if at >= count]
        self._names = [names[at] for at in form.free if at < count]
        self._acl = acl
        self._build = build
        kinds = [FREE_ATTRIBUTES[name] for name in self._names]
        kinds += [ColumnKind.TEXT] * len(self._meta_names)
        kinds += [ColumnKind.CONTENT] * self.has_content
        super().__init__(self._make, [*kinds, ColumnKind.NUMBER, ColumnKind.NUMBER])

    def _make(self, values: Values) -> Record:
        """Return the record of attributes, metadata, content if it has one, line and offset."""
        *texts, line, offset = values
        payload = texts.pop() if self.has_content else None
        names = self._names
        parts = RecordParts(
            attributes={**self._attributes, **dict(zip(names, texts, strict=False))},
            acl=self._acl,
            metadata=list(map(Meta, self._meta_names, texts[len(names) :])),
            of_metadata=(),
            of_content=(),
            payload=payload,
        )
        return self._build(parts, line, offset)


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


def _offsets(run: bytes, offset: int) -> list[int]:
    """Return the offset of each element of a run that begins at `offset`."""
    return [offset + match.start() for match in _BEGIN.finditer(run)]


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


def _are_texts(values: Sequence[str]) -> bool:
    """Whether all can be values of attributes, with no references but the five of XML."""
    text = '"'.join(values)  # the one character that no value has
    return may_be_attribute(text) and _OTHER_REFERENCE.search(text) is None
