"""Cut runs of records into blocks of elements."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import ClassVar, NamedTuple

from feedferry.schemas.acl import Access
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column, ColumnKind
from feedferry.transforms.formats.fast_path.columns.shape_columns import grouped
from feedferry.transforms.formats.fast_path.elements.element_block import (
    ElementBlock,
    ElementGroup,
    ElementShape,
    element_shape,
)
from feedferry.transforms.formats.fast_path.elements.element_codes import (
    ACL,
    ALONE,
    CLOSED_ALONE,
    CLOSED_RECORD,
    CONTENT,
    CONTENT_MARK,
    DELETION,
    DENY,
    END_ACL,
    END_CONTENT,
    END_METADATA,
    END_NAME,
    END_RECORD,
    META,
    METADATA,
    PARENTED_ACL,
    PERMIT,
    RECORD,
    RECORD_WITH_CONTENT,
    RECORDS,
)
from feedferry.transforms.formats.fast_path.elements.element_shapes import (
    BlockElements,
    ElementShapes,
)
from feedferry.transforms.formats.fast_path.learning.comparisons import Comparisons
from feedferry.transforms.formats.gsa.fast_reader import FREE_VALUES, RecordTemplate, common_markup
from feedferry.transforms.formats.gsa.gsa_formats import FEED_NAMES
from feedferry.transforms.formats.holding.acl_metadata import BLANKS
from feedferry.transforms.formats.text.byte_scans import count, find, rfind
from feedferry.transforms.formats.xml.bulk.contents import CutContent, cut_contents
from feedferry.transforms.formats.xml.bulk.element_runs import Place, RunPositions
from feedferry.transforms.formats.xml.bulk.run_shapes import RunShape, ShapeKey
from feedferry.transforms.formats.xml.scanning.record_markup import markup_of

_END = b"</record>"
_CONTENT = b"<content"
_CONTENT_TAG = re.compile(b"<(content)")
_END_NAME = "</principal>"
_LEAST_RECORDS = 2
_MOST_ALONE = 0.75
"""A run in which a larger share of records goes alone is no block."""

_MAX_SHAPES = 4096
_TAG_CODES = {
    "/principal>": END_NAME,
    "/content>": END_CONTENT,
    "/acl>": END_ACL,
    "metadata>": METADATA,
    "/metadata>": END_METADATA,
    "/record>": END_RECORD,
    "/record>\n": END_RECORD,
}
_WHOLE = re.compile(
    f"(?:[{RECORD}{RECORD_WITH_CONTENT}{DELETION}][^{''.join(RECORDS)}{ALONE}{CLOSED_ALONE}{END_RECORD}]*{END_RECORD}"
    f"|{CLOSED_RECORD})*"
)
_WITH_CONTENT = re.compile(f"{RECORD}(?=[^{RECORD}{CLOSED_RECORD}{CONTENT}{END_RECORD}]*{CONTENT})")
_ENDS = re.compile(f"[{END_RECORD}{CLOSED_RECORD}{CLOSED_ALONE}]")
_FRAME = re.compile(r"/?(?:record|group|header|gsafeed)(?![^\s/>])|[?]|!(?!--[^-]*-->)")
"""Markup in a record that may end it; a comment without tags does not."""

_ALONE = re.compile(f"[{ALONE}{CLOSED_ALONE}]")
_OTHER_BLANKS_BEFORE_TAGS = (b" <", b"\t<", b"\r<")
_PLACE_KINDS = (ColumnKind.NUMBER, ColumnKind.NUMBER)
_END_RECORD = "</record>"
_RECORD_TAG = '<record url=" mimetype=">'


class _Frame(NamedTuple):
    """The record around an element in a sample: the markup and the constants before and after it.

    `columns` and `columns_after` are the numbers of columns before and after it.
    """

    before: str
    constants_before: tuple[str, ...]
    after: str
    constants_after: tuple[str, ...] = ()
    columns: int = 1
    columns_after: int = 0

    def with_content(self) -> "_Frame":
        after = self.after.replace(_END_RECORD, f"<content></content>{_END_RECORD}")
        return self._replace(after=after, columns_after=self.columns_after + 1)


_TYPE = "text/html"
_PLAIN = "text/plain"
"""A content of this type is written by all targets that hold contents."""

_PLAIN_TEXT = f' mimetype="{_PLAIN}'
_PLAIN_TYPE = re.compile(' mimetype="(text/plain[^"]*)"')
"""Plain text is no file to some targets."""

_FRAMES = {
    RECORD: _Frame(
        "",
        (),
        '<metadata><meta name=" content="/></metadata></record>',
        ("name",),
        columns=0,
        columns_after=1,
    ),
    RECORD_WITH_CONTENT: _Frame("", (), "<content></content></record>", columns=0, columns_after=1),
    CLOSED_RECORD: _Frame("", (), "</record>", columns=0),
    ACL: _Frame(
        _RECORD_TAG,
        (_TYPE,),
        f'<principal scope=" access=">{_END_NAME}</acl></record>',
        ("user", "permit"),
        columns_after=1,
    ),
    PERMIT: _Frame(
        f'{_RECORD_TAG}<acl inherit-from=">', (_TYPE,), f"{_END_NAME}</acl></record>", columns=2
    ),
    META: _Frame(f"{_RECORD_TAG}<metadata>", (_PLAIN,), "</metadata></record>"),
    CONTENT: _Frame(_RECORD_TAG, (_TYPE,), "</content></record>"),
}


class ElementTemplate(RecordTemplate):
    """The markup of a record around an element: the parent of an ACL is a column, too."""

    free_values: ClassVar = {**FREE_VALUES, ("acl", "inherit-from"): ColumnKind.PARENT}


@lru_cache(maxsize=_MAX_SHAPES)
def _template(markup: str) -> ElementTemplate:
    """Return the meaning of the values of elements with one markup."""
    return ElementTemplate(f"<{markup}")


NewShape = Callable[[RecordTemplate, ShapeKey], RunShape]
"""Returns the shape of elements in a context."""


class _Run(RunPositions):
    """The records of a run as they came, which are of one feed."""

    provenance: Provenance
    comparisons: Comparisons


class FeedBlocks:
    """Makes blocks of the runs of one context; learns the signatures of elements."""

    def __init__(self, options: ReadOptions, new_shape: NewShape) -> None:
        self._options, self._new_shape = options, new_shape
        self._shapes = ElementShapes(lambda kind, key: self._learn(kind[0], kind[1], key))
        self._comparisons = Comparisons()

    def block(self, run: bytes, place: Place) -> tuple[ElementBlock, int] | None:
        """Return the first records of a run, and their length; None if most of them go alone."""
        text, contents = _cut(run)
        pieces = _pieces(text)
        if not pieces or count(text, _END) < _LEAST_RECORDS:
            return None
        elements = _Elements(pieces, self._shapes, self._options.max_content_bytes)
        elements.add_all(contents)
        codes, groups = elements.codes, elements.groups
        ends = [match.start() for match in _ENDS.finditer("".join(codes))]
        whole = _count_whole(codes, pieces, ends, max_tags=self._options.max_tags)
        records = [group for group in groups if group.is_of_records]
        if not whole or not records:
            return None
        ends, end = ends[:whole], ends[whole - 1] + 1
        ranges = _ranges(run, [codes[at] for at in ends])
        groups = [before for group in groups if (before := _before(group, end)).places]
        alone = {bisect_left(ends, at.start()) for at in _ALONE.finditer("".join(codes[:end]))}
        if _MOST_ALONE * whole < len(alone):
            return None
        self._shapes.add(whole - len(alone))
        element = next(iter(records[0].elements.values()))
        source = _Run(FEED_NAMES.records[0], run, place, lambda: ranges)
        source.provenance = element.shape.model.provenance
        source.comparisons = self._comparisons
        return ElementBlock(codes[:end], groups, ends, source), ranges[-1][1]

    def _learn(
        self, kind: str, markup: str, key: Hashable, *, has_content: bool = False
    ) -> ElementShape | None:
        """Learn an element in a record; where that is an update, in one with a content.

        A target may refuse updates, or have other rules for them.
        """
        frame = _FRAMES[kind].with_content() if has_content else _FRAMES[kind]
        are_cdata: tuple[bool, ...] = (False,) * (kind == RECORD_WITH_CONTENT or has_content)
        values, stated = key if isinstance(key, tuple) else (key,), markup
        if kind == CLOSED_RECORD:
            markup = f"{markup[:-2]}>"
        elif kind in (PERMIT, CONTENT):
            text, *flags = values
            markup = ">" if kind == PERMIT else ""
            pieces = str(text).split('"')
            markup, values = '"'.join(pieces[::2]) + markup, tuple(pieces[1::2])
            are_cdata = are_cdata or tuple(map(bool, flags))
            if kind == CONTENT:
                frame = frame._replace(constants_before=(stated,))
        template = ElementTemplate(f"{frame.before}<{markup}{frame.after}")
        constants = (*frame.constants_before, *map(str, values), *frame.constants_after)
        is_usual = template.is_known and not template.has_encoded_values
        if not is_usual or len(template.constant) != len(constants):
            return None
        shape = self._new_shape(template, ShapeKey(are_cdata, constants))
        if not (shape.is_readable and shape.has_model):
            return None
        if kind in (ACL, PERMIT, META) and shape.model.action is Action.UPDATE and not has_content:
            return self._learn(kind, stated, key, has_content=True)
        end = len(shape.kinds) - len(_PLACE_KINDS) - frame.columns_after
        code = _code(kind, shape.model)
        return element_shape(shape, code, range(frame.columns, end)) if code else None


class _Elements(BlockElements):
    """The elements of one run: their codes, and groups of those with values."""

    def __init__(
        self, pieces: Sequence[str], shapes: ElementShapes, max_content_bytes: int
    ) -> None:
        codes = [*map(_TAG_CODES.get, pieces, repeat(ALONE))]
        super().__init__(codes, shapes, max_content_bytes=max_content_bytes)
        self._pieces = pieces

    def add_all(self, contents: Sequence[CutContent]) -> None:
        pieces = self._pieces
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, code in enumerate(self.codes):
            if code is ALONE:
                places[pieces[place][:4]].append(place)
        of_contents = [at for at in places.pop("cont", ()) if pieces[at][:7] == "content"]
        for name, of_name in places.items():
            if name == "prin":
                self._add_principals(of_name)
            elif name == "meta":
                self._add_elements(META, of_name)
            elif name in ("acl ", "acl>"):
                self._add_elements(ACL, of_name)
            elif name == "reco":
                self._add_records(of_name, of_contents)
        if of_contents and places["reco"]:
            contents = contents[: len(of_contents)]  # some are in no whole record
            types = self._types(of_contents, places["reco"])
            rows = zip(of_contents, contents, types, strict=True)
            keys = [(type_, pieces[at], content.is_cdata) for at, content, type_ in rows]
            data = [content.data for content in contents]
            for (type_, *key), _, [of_key, values] in grouped(keys, [of_contents, data]):
                self.add((CONTENT, type_), [tuple(key)] * len(of_key), [values], of_key)

    def _types(self, contents: Sequence[int], records: Sequence[int]) -> list[str]:
        """Return the types of contents, as far as targets have rules for them."""
        owners = [self._pieces[records[bisect_right(records, at) - 1]] for at in contents]
        if _PLAIN_TEXT not in "".join(owners):
            return [_TYPE] * len(contents)
        found = map(_PLAIN_TYPE.search, owners)
        return [match[1] if match else _TYPE for match in found]

    def _add_records(self, places: Sequence[int], contents: Sequence[int]) -> None:
        closed = [place for place in places if self._pieces[place].endswith("/>")]
        if not (closed or contents):
            self._add_elements(RECORD, places)
            return
        marks = [*self.codes]
        for kind, of_kind in ((RECORD, places), (CLOSED_RECORD, closed), (CONTENT, contents)):
            for place in of_kind:
                marks[place] = kind
        for match in _WITH_CONTENT.finditer("".join(marks)):
            marks[match.start()] = RECORD_WITH_CONTENT
        for kind in (RECORD_WITH_CONTENT, CLOSED_RECORD, RECORD):
            self._add_elements(kind, [place for place in places if marks[place] == kind])
        for place in closed:
            if self.codes[place] == ALONE:
                self.codes[place] = CLOSED_ALONE

    def _add_elements(self, kind: str, places: Sequence[int]) -> None:
        """Add elements with values in attributes, by their markup."""
        if not places:
            return
        pieces = [self._pieces[place] for place in places]
        width, count = pieces[0].count('"'), len(pieces)
        cells = f"<{'<'.join(pieces)}".split('"')
        is_regular = width and not width % 2 and len(cells) == width * count + 1
        markup = common_markup(cells, width, count) if is_regular else None
        if markup is not None:
            columns = [cells[at::width] for at in range(1, width, 2)]
            self._add_markup(kind, markup[1:], columns, places)
            return
        rows: defaultdict[str, list[tuple[int, list[str]]]] = defaultdict(list)
        for place, piece in zip(places, pieces, strict=True):
            cells = piece.split('"')
            if len(cells) % 2:
                rows['"'.join(cells[::2])].append((place, cells[1::2]))
        for markup, of_markup in rows.items():
            of_places, values = zip(*of_markup, strict=True)
            self._add_markup(kind, markup, [*zip(*values, strict=True)], [*of_places])

    def _add_markup(
        self, kind: str, markup: str, columns: Sequence[Column], places: Sequence[int]
    ) -> None:
        template = _template(markup)
        is_known = len(template.free) + len(template.constant) == len(columns)
        if not is_known or "'" in markup:  # a value in single quotes may not be neutral
            return
        constants = [columns[at] for at in template.constant]
        keys: Sequence[Hashable] = (
            constants[0]
            if len(constants) == 1
            else [*zip(*constants, strict=True)]
            if constants
            else [()] * len(places)
        )
        free = [columns[at] for at in template.free]
        self.add((kind, markup), keys, free, places)

    def _add_principals(self, places: Sequence[int]) -> None:
        parts = [self._pieces[place].rpartition(">") for place in places]
        heads, _, names = zip(*parts, strict=True)
        if '"' in "".join(names):  # no value of a column has one
            rows = [row for row in zip(heads, names, places, strict=True) if '"' not in row[1]]
            heads, names, places = zip(*rows, strict=True) if rows else ((), (), ())
        self.add((PERMIT, ""), heads, [names], places)


def _ranges(run: bytes, end_codes: Sequence[str]) -> list[tuple[int, int]]:
    """Return the begins and the ends of records, by the codes of the elements that end them."""
    ranges, end = [], 0
    for code in end_codes:
        begin = run.find(b"<", end)
        if code == END_RECORD:
            end = find(run, _END, begin) + len(_END)
        else:  # it has no other tag, and another one follows it
            end = begin + len(run[begin : run.find(b"<", begin + 1)].rstrip())
        ranges.append((begin, end))
    return ranges


def _cut(run: bytes) -> tuple[bytes, Sequence[CutContent]]:
    """Return records without their contents, and the contents."""
    text, contents = run, list[CutContent]()
    if find(run, _CONTENT) >= 0:
        text, contents = cut_contents(run, _CONTENT_TAG, markup_of(FEED_NAMES))
    end = rfind(text, _END)
    return text[: end + len(_END)] if end >= 0 else b"", contents


def _pieces(text: bytes) -> list[str] | None:
    """Return what follows each `<`, without the blanks after it; None if there is text before.

    The usual line end after a record is left.
    """
    text = text.lstrip(BLANKS.encode())
    try:
        begin, *pieces = text.decode().split("<")
    except UnicodeDecodeError:
        return None
    if begin or CONTENT_MARK.encode() in text:
        return None
    has_lines = count(text, b"\n<") != count(text, _END + b"\n<")
    if has_lines or any(find(text, blank) >= 0 for blank in _OTHER_BLANKS_BEFORE_TAGS):
        return [piece if piece[:4] == "prin" else piece.rstrip(BLANKS) for piece in pieces]
    return pieces


def _count_whole(
    codes: list[str], pieces: Sequence[str], ends: Sequence[int], *, max_tags: int
) -> int:
    """Return how many records certainly end where they seem to; records with many tags go alone."""
    text = "".join(codes)
    if len(text) <= max_tags and _WHOLE.fullmatch(text):
        return len(ends)
    begin = 0
    for number, end in enumerate(ends):
        is_known = _WHOLE.fullmatch(text, begin, end + 1)
        if not is_known and not _is_whole(pieces[begin : end + 1]):
            return number
        if end - begin > max_tags:
            codes[begin] = ALONE
        begin = end + 1
    return len(ends)


def _is_whole(pieces: Sequence[str]) -> bool:
    """Whether a record with elements that are not known ends at its end tag."""
    tag, mark, text = pieces[0].partition(">")
    if not tag.startswith("record ") or not mark or "'" in tag or tag.count('"') & 1:
        return False
    if len(pieces) == 1:
        return tag.endswith("/") and not text
    is_ended = not tag.endswith("/") and _TAG_CODES.get(pieces[-1]) == END_RECORD
    return is_ended and not any(map(_FRAME.match, pieces[1:-1]))


def _before(group: ElementGroup, end: int) -> ElementGroup:
    """Return the elements of a group before a place."""
    count = bisect_left(group.places, end)
    return group if count == len(group.places) else group.rows(range(count))


def _code(kind: str, model: Record) -> str | None:
    """Return the code of an element by the model of a record around it; None for rare elements."""
    acl, code = model.acl, kind
    if kind == ACL and acl is not None and acl.inherit_from:
        code = PARENTED_ACL
    elif kind == PERMIT and acl is not None and acl.principals[0].access is Access.DENY:
        code = DENY
    elif kind == RECORD and model.action is Action.DELETE:
        code = DELETION
    is_rare = (
        model.extras
        or (acl is not None) is not (kind in (ACL, PERMIT))
        or (kind == META and len(model.metadata) != 1)
        or (kind == RECORD_WITH_CONTENT and model.action is Action.DELETE)
    )
    return None if is_rare else code
