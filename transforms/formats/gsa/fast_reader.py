"""Read records without a parser if their markup was seen before: most records of a feed are alike.

Cut the content and the names of principals out of an element, and split the rest at its double
quotes: every second piece is the value of an attribute, and the other pieces are its *markup*.
Markup is parsed once, with a number in place of each value. If each number comes out as the value
of a known attribute, the places of the values are known: the result is a `MarkupTemplate`. Then
every element with this markup is well-formed, as long as its values have no markup, no control
character and no reference but the five of XML. Any other element goes to the parser.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from lxml import etree
from msgspec.structs import replace

from schemas.acl import Acl
from schemas.errors import RecordError
from schemas.record import Encoding, Meta, Record
from transforms.formats.acl_metadata import BLANKS
from transforms.formats.gsa.acl import Extras, read_acl
from transforms.formats.gsa.rows import CONTENT, ENCODING, METADATA
from transforms.formats.record_batch import (
    ColumnKind,
    Columns,
    RecordBatch,
    Shape,
    Values,
    are_neutral,
    are_read,
    has_neutral_columns,
    unescaped,
)
from transforms.formats.xml.elements import parse_markup
from transforms.formats.xml.serializer import may_be_attribute

_MAX_TEMPLATES = 256  # a feed without repetition must not fill the memory
_MAX_SHAPES = 256
_MAX_MISSES = 8
_PAUSED_RUNS = 256
_FREQUENT = 8
"""How many records are read before a model is made: it costs as much as a few."""

_MIN_GROUPS, _RECORDS_A_GROUP = 4, 8
"""How many shapes a run may have."""

_END = "</record>"
_END_TAG = _END.encode()
_END_ACL = "</acl>"
_END_PRINCIPAL = "</principal>"
_NO_ACL = "<acl/>"
_NO_NAMES: list[str] = []
_BEGIN, _SELF_CLOSED = b"<record", b"/>"
_BEGINS = re.compile(_BEGIN)
_BEGIN_CONTENT, _END_CONTENT = b"<content", b"</content"
_OTHER_REFERENCE = re.compile("&(?!(?:lt|gt|quot|apos|amp);)")
_CDATA, _END_CDATA = b"<![CDATA[", b"]]>"
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


class MarkupTemplate:
    """The meaning of the values of elements with the same markup, by their index.

    The values of the record's attributes come first, in the order of `names`. The metadata are
    pairs of name and content, one after another. `free` are the indexes of values that differ from
    record to record. `constant` are those of all others, which records of one shape share: choices,
    numbers, types, and the names of metadata.
    """

    def __init__(self, record: etree._Element) -> None:
        children = {str(child.tag): child for child in record}
        self.names = tuple(map(str, record.keys()))
        self.of_metadata = _numbers_in(children.get("metadata"))
        self.of_content = _numbers_in(children.get("content"))
        metas = [*children.get("metadata", ())]
        self.of_metas = [int(meta.values()[0]) for meta in metas]
        self.has_acl, self.has_content = "acl" in children, "content" in children
        is_free = [name in FREE_ATTRIBUTES for name in self.names]
        self.free = [at for at, free in enumerate(is_free) if free]
        self.free += [at + 1 for at in self.of_metas]
        self.constant = [at for at, free in enumerate(is_free) if not free]
        self.constant += [*self.of_metas, *(at for _, at in self.of_metadata + self.of_content)]


class _Element(NamedTuple):
    """An element without its end tag and its content; it begins at `begin` or after blanks."""

    head: str
    content: bytes | None = None
    is_cdata: bool = False
    begin: int = 0


class _ShapeKey(NamedTuple):
    """What records of a shape have in common. `acl` is the markup of the ACL without names."""

    markup: str
    acl: str
    is_cdata: bool
    constants: tuple[str, ...] = ()


class _Found(NamedTuple):
    """The records with one markup while a run is taken apart."""

    template: "MarkupTemplate"
    rows: list[list[str]]
    contents: list[bytes]
    places: list[int]


class _Group(NamedTuple):
    """Records of a run that have one shape: their values, escaped, and their places in it."""

    shape: "_RunShape"
    columns: list[Sequence[str]]
    contents: list[bytes]
    places: Sequence[int]


class Runs:
    """Makes batches of runs of elements, by the templates of their markup.

    If a few runs in a row have an element without a template, the next ones are not tried.
    """

    _build: BuildRecord

    def __init__(self, *, max_content_bytes: int) -> None:
        self._max_content_bytes = max_content_bytes
        self._templates: dict[str, MarkupTemplate | None] = {}
        self._shapes: dict[_ShapeKey, _RunShape] = {}
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
        is_single = run.find(_END_TAG) in (-1, len(run) - len(_END_TAG))
        if self._paused and not is_single:
            self._paused -= 1
            return None
        groups, find_begins = self._groups(run)
        if not is_single:
            self._misses = 0 if groups else self._misses + 1
            if self._misses == _MAX_MISSES:
                self._misses, self._paused = 0, _PAUSED_RUNS
        return self._batch(groups, _Positions(run, offset, line, find_begins)) if groups else None

    def _groups(self, run: bytes) -> tuple[list[_Group] | None, Callable[[], list[int]]]:
        """Return the groups of a run, None if an element has no template, and its begins."""
        try:
            if _BEGIN_CONTENT in run:
                elements = _cut_contents(run)
                begins = [element.begin for element in elements]
                return self._mixed(elements), lambda: [run.find(_BEGIN, at) for at in begins]
            text = run.decode()
            if run.endswith(_SELF_CLOSED):
                return self._mixed([_Element(f"{text[:-2]}>")]), lambda: [0]
        except UnicodeDecodeError:
            return None, list
        count, width = text.count(_END), text.count('"', 0, text.find(_END))
        is_even = width and not width % 2 and text.count('"') == width * count
        groups = self._uniform(text.split('"'), width, count) if is_even else None
        if groups is None:
            groups = self._mixed([_Element(head) for head in text.split(_END)[:-1]])
        return groups, lambda: [match.start() for match in _BEGINS.finditer(run)]

    def _uniform(self, pieces: list[str], width: int, count: int) -> list[_Group] | None:
        """Return the one group of a run, None if markup or constants differ."""
        markup = _common_markup(pieces, width, count)
        template = markup and self._template(markup)
        if not markup or not template:
            return None
        values = pieces[1::2]
        columns = [values[at :: width // 2] for at in range(width // 2)]
        constants = [columns[at] for at in template.constant]
        if any(column.count(column[0]) < count for column in constants):
            return None
        key = _ShapeKey(markup, "", False, tuple(column[0] for column in constants))
        shape = self._shape(key, template)
        return [_Group(shape, [columns[at] for at in template.free], [], range(count))]

    def _mixed(self, elements: list[_Element]) -> list[_Group] | None:
        """Return the groups of a run, None if an element has no template."""
        found: dict[tuple[str, str, bool], _Found] = {}
        for place, (head, content, is_cdata, _) in enumerate(elements):
            acl, names = "", _NO_NAMES
            if "<acl" in head:
                head, acl, names = _cut_acl(head)  # noqa: PLW2901
            pieces = head.split('"')
            key = '"'.join(pieces[::2]), acl, is_cdata
            alike = found.get(key)
            if alike is None:
                template = self._template(key[0] + _END)
                if template is None or template.has_content is (content is None):
                    return None
                alike = found[key] = _Found(template, [], [], [])
            alike.rows.append([*pieces[1::2], *names])
            alike.places.append(place)
            if content is not None:
                alike.contents.append(content)
        groups = [group for key, alike in found.items() for group in self._of_markup(key, alike)]
        return groups if len(groups) <= _MIN_GROUPS + len(elements) // _RECORDS_A_GROUP else None

    def _of_markup(self, key: tuple[str, str, bool], found: _Found) -> Iterator[_Group]:
        """Yield the groups of elements with one markup, by their constants."""
        markup, acl, is_cdata = key
        template, rows, contents, places = found
        columns = [*zip(*rows, strict=True)]
        constants = [columns[at] for at in template.constant]
        groups: dict[tuple[str, ...], list[int]] = {}
        if any(column.count(column[0]) < len(rows) for column in constants):
            for number, values in enumerate(zip(*constants, strict=True)):
                groups.setdefault(values, []).append(number)
        else:
            groups[tuple(column[0] for column in constants)] = [*range(len(rows))]
        names = range(len(columns) - acl.count(_END_PRINCIPAL), len(columns))
        free = [columns[at] for at in (*template.free, *names)]
        for values, numbers in groups.items():
            shape = self._shape(_ShapeKey(markup + _END, acl, is_cdata, values), template)
            if len(groups) == 1:
                yield _Group(shape, free, contents, places)
                continue
            yield _Group(
                shape,
                [[column[number] for number in numbers] for column in free],
                [contents[number] for number in numbers] if contents else [],
                [places[number] for number in numbers],
            )

    def _batch(
        self, groups: list[_Group], positions: "_Positions"
    ) -> tuple[RecordBatch, bool] | None:
        """Return the records of a run and if they are neutral, None if one needs the parser."""
        are_all_neutral = True
        order = [0] * sum(len(group.places) for group in groups)
        batch = []
        for number, (shape, texts, contents, places) in enumerate(groups):
            columns = [*texts, contents] if contents else texts
            values = [*chain.from_iterable(texts)]
            is_neutral = are_neutral(values) and has_neutral_columns(
                shape.kinds, columns, max_content_bytes=self._max_content_bytes
            )
            if not is_neutral and not (_are_texts(values) and are_read(shape.kinds, columns)):
                return None
            if not shape.is_readable:
                return None
            are_all_neutral &= shape.is_frequent(len(order)) and is_neutral
            if number:
                for place in places:
                    order[place] = number
            of_group = [partial(positions.lines, places), partial(positions.offsets, places)]
            batch.append(Columns(shape, [*columns, *of_group], len(places)))
        return RecordBatch(batch, order), are_all_neutral

    def _template(self, markup: str) -> MarkupTemplate | None:
        """Return the template of a markup, learned now if it is new; None if it has none."""
        if markup not in self._templates:
            if len(self._templates) >= _MAX_TEMPLATES:
                self._templates.clear()
            self._templates[markup] = _learn(markup.lstrip(BLANKS))
        return self._templates[markup]

    def _shape(self, key: _ShapeKey, template: MarkupTemplate) -> "_RunShape":
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = _RunShape(template, key, self._build)
        return shape


class _Positions:
    """The lines and offsets of the elements of a run, computed for those who ask."""

    def __init__(
        self, run: bytes, offset: int, line: int, find_begins: Callable[[], list[int]]
    ) -> None:
        self._run, self._offset, self._line = run, offset, line
        self._find_begins = find_begins

    @cached_property
    def _begins(self) -> list[int]:
        return self._find_begins()

    def offsets(self, places: Sequence[int]) -> list[int]:
        begins = self._begins
        return [self._offset + begins[place] for place in places]

    def lines(self, places: Sequence[int]) -> list[int]:
        ends = pairwise([0, *self._begins])
        counts = accumulate(self._run.count(b"\n", *range_) for range_ in ends)
        lines = [self._line + count for count in counts]
        return [lines[place] for place in places]


class _RunShape(Shape):
    """The shape of elements with the same markup, the same constants and the same kind of ACL.

    Elements that are not readable need the parser.
    """

    def __init__(self, template: MarkupTemplate, key: _ShapeKey, build: BuildRecord) -> None:
        names, count = template.names, len(template.names)
        self._names = [names[at] for at in template.free if at < count]
        kinds = [FREE_ATTRIBUTES[name] for name in self._names]
        kinds += [ColumnKind.TEXT] * len(template.of_metas)
        self._build, self._seen = build, 0
        stated = dict(zip(template.constant, unescaped(key.constants), strict=True))
        self._attributes = {names[at]: text for at, text in stated.items() if at < count}
        self._meta_names = [stated[at] for at in template.of_metas]
        self._of_metadata = [(name, stated[at]) for name, at in template.of_metadata]
        self._of_content = [(name, stated[at]) for name, at in template.of_content]
        self._acl = _read_acl(key.acl) if key.acl else None
        self._principals = self._acl.principals if self._acl else ()
        kinds += [ColumnKind.NAME] * len(self._principals)
        if template.has_content:
            encoding = dict(self._of_content).get("encoding", "")
            of_text = ColumnKind.CDATA if key.is_cdata else ColumnKind.CONTENT
            kinds.append(_CONTENT_KINDS.get(ENCODING.decode(encoding), of_text))
        self.is_readable = _are_texts(key.constants) and template.has_acl is (self._acl is not None)
        super().__init__(self._make, [*kinds, ColumnKind.NUMBER, ColumnKind.NUMBER])

    def is_frequent(self, count: int) -> bool:
        """Count the records of the runs with this shape; return whether a model was made."""
        self._seen += count
        return self._seen >= _FREQUENT and self.has_model

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


def _cut_contents(run: bytes) -> list[_Element]:
    """Cut a run into elements; return none if the content of one has markup."""
    elements = []
    at, opened = 0, -1
    while at < len(run):
        if opened < at:
            opened = run.find(_BEGIN_CONTENT, at)
            opened = len(run) if opened < 0 else opened
        end = run.find(_END_TAG, at, opened)
        if end >= 0:
            elements.append(_Element(run[at:end].decode(), begin=at))
        else:
            begin = run.find(b">", opened) + 1
            is_cdata = begin > 0 and run.startswith(_CDATA, begin)
            first = begin + is_cdata * len(_CDATA)
            close = run.find(_END_CDATA if is_cdata else b"<", first)
            after = close + is_cdata * len(_END_CDATA)
            end = run.find(_END_TAG, after)
            if not begin or close < 0 or end < 0 or not run.startswith(_END_CONTENT, after):
                return []
            head = (run[at:begin] + run[after:end]).decode()
            elements.append(_Element(head, run[first:close], is_cdata, at))
        at = end + len(_END_TAG)
    return elements


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
    metas = [*children.get("metadata", ())]
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
    return MarkupTemplate(record)


def _numbers_in(element: etree._Element | None) -> tuple[tuple[str, int], ...]:
    """Return the names of the attributes, with the numbers that are their values."""
    return () if element is None else tuple((name, int(at)) for name, at in element.items())


def _has_text(element: etree._Element) -> bool:
    return bool((element.text or "").strip(BLANKS) or (element.tail or "").strip(BLANKS))


def _are_texts(values: Sequence[str]) -> bool:
    """Whether all can be values of attributes, with no references but the five of XML."""
    text = '"'.join(values)  # the one character that no value has
    return may_be_attribute(text) and _OTHER_REFERENCE.search(text) is None
