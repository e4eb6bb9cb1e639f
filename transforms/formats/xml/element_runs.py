"""Read runs of elements without a parser if their markup was seen before.

A format splits each element into its *markup* and its values, and learns a `MarkupTemplate` of the
markup: which values differ from record to record, and which are the same in all records of a
shape. The records of one shape and one run are columns of a `RecordBatch`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from itertools import accumulate, chain, pairwise
from typing import ClassVar, Generic, NamedTuple, TypeVar

from schemas.record import Record
from schemas.reject import record_error
from schemas.span import ElementContext
from transforms.formats.base import ReadOptions
from transforms.formats.byte_scans import count_lines, find, rfind
from transforms.formats.element_names import ElementNames
from transforms.formats.record_batch import (
    Column,
    Columns,
    RecordBatch,
    are_neutral,
    find_not_neutral,
    grouped,
    has_neutral_columns,
)
from transforms.formats.xml.elements import ParsedElement, parse_element
from transforms.formats.xml.run_shapes import (
    BuildRecord,
    LearningBudget,
    MarkupTemplate,
    RunShape,
    ShapeKey,
)
from transforms.formats.xml.scanner import RawElement, Records, Run

_MAX_TEMPLATES = 256  # a feed without repetition must not fill the memory
_MAX_SHAPES = 256
_MIN_GROUPS, _RECORDS_A_GROUP = 4, 8
"""How many shapes a run may have."""

_ALONE = 4
"""A run is read one by one if more than one in this number of records can be in no batch."""

_SLASH = ord("/")
_CDATA, _END_CDATA = b"<![CDATA[", b"]]>"
_CLOSED_TAG = rb"""\s*<%b(?=[\s/])[^<>"']*(?:(?:"[^"<>]*"|'[^'<>]*')[^<>"']*)*/>"""
"""An element that closes itself, and the blanks before it."""


class _NeedsParserError(Exception):
    """A run must be read one by one."""


class _Element(NamedTuple):
    """An element without its end tag and its contents; it begins at `begin` or after blanks.

    The tag of an element that closes itself is in the form of a start tag.
    """

    head: str
    end: int
    contents: Sequence[bytes] = ()
    are_cdata: tuple[bool, ...] = ()
    begin: int = 0


TemplateT = TypeVar("TemplateT", bound=MarkupTemplate)

ReadElement = Callable[[ParsedElement], object]
"""Reads a parsed element into a type of its format; raises RecordError."""

EnterContext = Callable[[ElementContext, int], BuildRecord]
"""Returns what builds records in a context, at a line; raises RecordError if none can be read."""


class _Found(NamedTuple, Generic[TemplateT]):
    """The values and contents of records with one markup, and their places in a run."""

    template: TemplateT
    rows: list[Sequence[str | bytes]]
    places: list[int]


class _Group(NamedTuple):
    """Records of a run that have one shape: their values, escaped, and their places in it."""

    shape: RunShape
    columns: Sequence[Column]
    contents: Sequence[Column]
    places: Sequence[int]


class ElementRuns(ABC, Generic[TemplateT]):
    """Makes batches of runs of elements, by the templates of their markup."""

    names: ClassVar[ElementNames]
    content_names: ClassVar[Sequence[str]]

    def __init__(self, options: ReadOptions, read: ReadElement, enter: EnterContext) -> None:
        self._read, self._enter = read, enter
        self._record = self.names.records[0]
        self._end, self._end_tag = f"</{self._record}>", self.names.end_tag
        self._begin = f"<{self._record}".encode()
        self._closed = re.compile(_CLOSED_TAG % self._record.encode())
        self._content_tags = [f"<{name}".encode() for name in self.content_names]
        self._content = re.compile(f"<({'|'.join(self.content_names)})".encode())
        self._options = options
        self._context: ElementContext | None = None
        self._shape: Callable[[TemplateT, ShapeKey], RunShape]
        self._budget = LearningBudget()
        self.template = lru_cache(maxsize=_MAX_TEMPLATES)(self._template)
        self.is_single = True

    @abstractmethod
    def split(self, head: str) -> tuple[str, Sequence[str]]:
        """Return the markup of an element and its values; it has no contents and no end tag."""

    @abstractmethod
    def split_run(self, text: str) -> tuple[str, list[Sequence[str]]] | None:
        """Return the markup of elements and the columns of their values; None if they differ."""

    @abstractmethod
    def learn(self, markup: str) -> TemplateT | None:
        """Return the template of a markup; None if it needs the parser."""

    def bulk(self, run: bytes, offset: int, line: int, context: ElementContext) -> Run | None:
        """Return the records of the first elements of a run.

        Return None if the first one or many need the parser. They are then read one by one.
        """
        try:
            if context is not self._context:
                first_line = line + run.count(b"\n", 0, run.find(b"<"))
                parse, build = partial(self._parse, context), self._enter(context, first_line)
                new_shape = partial(RunShape, parse=parse, build=build)
                self._shape, self._context = lru_cache(maxsize=_MAX_SHAPES)(new_shape), context
            groups, length, find_begins = self._groups(run)
            count = sum(len(group.places) for group in groups)
            if not groups or len(groups) > _MIN_GROUPS + count // _RECORDS_A_GROUP:
                return None
            positions = _Positions(run, offset, line, find_begins)
            return Run(self._records(groups, count, positions, context), count, length)
        except _NeedsParserError:
            return None
        except Exception as exc:
            record_error(exc)  # raises what concerns more than a record
            return None

    def _groups(self, run: bytes) -> tuple[list[_Group], int, Callable[[], list[int]]]:
        """Return the groups of the first elements of a run, their length, and their begins."""
        first_end = find(run, self._end_tag)
        self.is_single = first_end < 0 or first_end + len(self._end_tag) == len(run)
        try:
            if any(find(run, tag) >= 0 for tag in self._content_tags):
                elements = self._cut_contents(run)
                begins = [element.begin for element in elements]
                groups, length = self._mixed(elements)
                return groups, length, lambda: [run.find(self._begin, at) for at in begins]
            end = rfind(run, self._end_tag) + len(self._end_tag) if first_end >= 0 else 0
            uniform = self._uniform(run[:end].decode()) if end else None
            groups, length = (uniform, end) if uniform else self._mixed(self._cut_text(run))
        except UnicodeDecodeError:
            return [], 0, list
        return groups, length, lambda: [match.start() for match in re.finditer(self._begin, run)]

    def _cut_text(self, run: bytes) -> Iterator[_Element]:
        """Cut a run without contents into elements."""
        at = 0
        for head in run.split(self._end_tag):
            end = at + len(head)
            while closed := self._match_closed(run, at):
                at = closed.end()
                yield _Element(f"{closed[0][:-2].decode()}>", at)
            if end == len(run):
                return
            yield _Element(run[at:end].decode(), at := end + len(self._end_tag))

    def _match_closed(self, run: bytes, at: int) -> re.Match[bytes] | None:
        """Match an element that closes itself."""
        return self._closed.match(run, at) if run[run.find(b">", at) - 1] == _SLASH else None

    def _cut_contents(self, run: bytes) -> list[_Element]:
        """Cut the first elements out of a run, up to one whose content has markup."""
        elements = []
        at = begin = 0
        heads, contents, are_cdata = list[bytes](), list[bytes](), list[bool]()
        opened = self._content.search(run)
        while True:
            end = find(run, self._end_tag, at, opened.start() if opened else len(run))
            if closed := self._match_closed(run, at) if at == begin else None:
                at = closed.end()
                elements.append(_Element(f"{closed[0][:-2].decode()}>", at, begin=begin))
                begin = at
                continue
            if end >= 0:
                head = b"".join((*heads, run[at:end])).decode()
                at = end + len(self._end_tag)
                elements.append(_Element(head, at, contents, tuple(are_cdata), begin))
                begin = at
                heads, contents, are_cdata = [], [], []
                continue
            first = run.find(b">", opened.end()) + 1 if opened else 0
            if not opened or not first:
                return elements
            heads.append(run[at:first])
            is_cdata = run.startswith(_CDATA, first)
            first += is_cdata * len(_CDATA)
            close = find(run, _END_CDATA if is_cdata else b"<", first)
            at = close + is_cdata * len(_END_CDATA)
            if close < 0 or not run.startswith(b"</" + opened[1], at):
                return elements
            if is_cdata and find(run, self._end_tag[:-1], first, close) >= 0:
                return elements  # the section may run into another record
            contents.append(run[first:close])
            are_cdata.append(is_cdata)
            opened = self._content.search(run, at)

    def _uniform(self, text: str) -> list[_Group] | None:
        """Return the groups of a run, None if markup differs."""
        alike = self.split_run(text)
        template = alike and self.template(alike[0])
        if not alike or not template or template.contents:
            return None
        _, columns = alike
        return [*self._by_shape(template, (), columns, range(len(columns[0])))]

    def _mixed(self, elements: Iterable[_Element]) -> tuple[list[_Group], int]:
        """Return the groups of elements up to one without a template, and their length."""
        found: dict[tuple[str, tuple[bool, ...]], _Found[TemplateT]] = {}
        length = 0
        for place, (head, end, contents, are_cdata, _) in enumerate(elements):
            markup, values = self.split(head)
            key = markup, are_cdata
            alike = found.get(key)
            if alike is None:
                if len(found) > _MIN_GROUPS + place // _RECORDS_A_GROUP:
                    raise _NeedsParserError
                template = self.template(markup)
                if template is None or template.contents != len(contents):
                    break
                constants = tuple(values[at] for at in template.constant)
                shape = self._shape(template, ShapeKey(are_cdata, constants))
                shape.seen += 1
                if not (template.has_rules or self._budget.is_readable(shape)):
                    break
                alike = found[key] = _Found(template, [], [])
            length = end
            alike.rows.append([*values, *contents] if contents else values)
            alike.places.append(place)
        groups = [
            group
            for (_, are_cdata), (template, rows, places) in found.items()
            for group in self._by_shape(template, are_cdata, [*zip(*rows, strict=True)], places)
        ]
        return groups, length

    def _by_shape(
        self,
        template: TemplateT,
        are_cdata: tuple[bool, ...],
        columns: Sequence[Column],
        places: Sequence[int],
    ) -> Iterator[_Group]:
        """Yield the groups of elements with one markup; the last columns are their contents."""
        constants, count = [columns[at] for at in template.constant], len(places)
        if all(column.count(column[0]) == count for column in constants):
            keys = [tuple(column[0] for column in constants)] * count
        else:
            keys = [*zip(*constants, strict=True)]
        texts = [columns[at] for at in template.free]
        contents = columns[len(columns) - len(are_cdata) :]
        for values, _, parts in grouped(keys, [places, *texts, *contents]):
            shape = self._shape(template, ShapeKey(are_cdata, values))
            end = 1 + len(texts)
            yield _Group(shape, parts[1:end], parts[end:], parts[0])

    def _records(
        self, groups: list[_Group], count: int, positions: "_Positions", context: ElementContext
    ) -> Records:
        """Return the records of a run in batches, and alone those that are not neutral.

        The few that need the parser are returned as they came.
        """
        size = self._options.batch_records
        limit = count // _ALONE if size else 0
        alone, unread = set[int](), set[int]()
        batch = []
        for group in groups:
            group.shape.seen += count
            if not self._budget.is_readable(group.shape):
                raise _NeedsParserError
            places, texts = group.places, group.shape.escaped(group.columns)
            rows_alone, rows_unread = self._rows_alone(group.shape, texts, group.contents, limit)
            alone.update(places[row] for row in rows_alone)
            unread.update(places[row] for row in rows_unread)
            of_group = [partial(positions.lines, places), partial(positions.offsets, places)]
            columns = Columns(group.shape, [*texts, *group.contents, *of_group], len(places))
            batch.append((columns, places))
        self._budget.add(count)
        records = RecordBatch.of(batch)
        if not size or len(alone) > limit:
            if unread:
                raise _NeedsParserError
            return [*records]
        found: Records = []
        place = 0
        for part in records.parts(size, alone):
            is_record = place in alone and place not in unread
            item = _first(part) if is_record else None if place in unread else part
            found.append(item or positions.element(place, self._record, context))
            place += len(part.order)
        return found

    def _rows_alone(
        self,
        shape: RunShape,
        texts: Sequence[Sequence[str]],
        contents: Sequence[Column],
        limit: int,
    ) -> tuple[Collection[int], Collection[int]]:
        """Return the rows that can be in no batch, and those of them that need the parser."""
        columns = [*texts, *contents]
        values = [*chain.from_iterable(texts)]
        kinds, most = shape.kinds, self._options.max_content_bytes
        is_batch = shape.is_frequent and shape.has_model
        if are_neutral(values) and has_neutral_columns(kinds, columns, max_content_bytes=most):
            return range(0 if is_batch else len(columns[0])), ()
        is_searched = is_batch and limit
        rows = find_not_neutral(kinds, columns, max_content_bytes=most) if is_searched else None
        if shape.reads(values, columns):
            return range(len(columns[0])) if rows is None else rows, ()
        if rows is None or len(rows) > limit:
            raise _NeedsParserError
        unread = []
        for row in rows:
            cells = [column[row] for column in texts]
            if not shape.reads(cells, [[column[row]] for column in columns]):
                if "<" in "".join(cells):
                    raise _NeedsParserError  # it may be the begin of another element
                unread.append(row)
        return rows, unread

    def _template(self, markup: str) -> TemplateT | None:
        """Return the template of a markup; a section may hide a part of a record."""
        return None if "<!" in markup or "<?" in markup else self.learn(markup)

    def _parse(self, context: ElementContext, element: bytes, line: int, offset: int) -> object:
        raw = RawElement(self._record, element, offset, line, context)
        return self._read(parse_element(raw, self.names, max_tags=self._options.max_tags))


def _first(batch: RecordBatch) -> Record | None:
    """Return the first record, None if it is refused: the parser then finds the reason."""
    try:
        return next(iter(batch))
    except Exception as exc:
        record_error(exc)  # raises what concerns more than a record
        return None


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

    @cached_property
    def _lines(self) -> list[int]:
        ends = pairwise([0, *self._begins])
        counts = accumulate(count_lines(self._run, *range_) for range_ in ends)
        return [self._line + count for count in counts]

    def lines(self, places: Sequence[int]) -> list[int]:
        lines = self._lines
        return [lines[place] for place in places]

    def element(self, place: int, name: str, context: ElementContext) -> RawElement:
        """Return an element as it came."""
        begin, end_tag = self._begins[place], f"</{name}>".encode()
        closed = re.compile(_CLOSED_TAG % name.encode()).match(self._run, begin)
        end = closed.end() if closed else find(self._run, end_tag, begin) + len(end_tag)
        text = self._run[begin:end]
        return RawElement(name, text, self._offset + begin, self._lines[place], context)
