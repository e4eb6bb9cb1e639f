"""Read runs of elements without a parser if their markup was seen before.

A format splits each element into its *markup* and its values, and learns a `MarkupTemplate` of the
markup: which values differ from record to record, and which are the same in all records of a
shape. The records of one shape and one run are columns of a `RecordBatch`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from itertools import accumulate, chain, pairwise
from typing import ClassVar, Generic, NamedTuple, TypeVar

from feedferry.schemas.errors import FormatError
from feedferry.schemas.record import Record
from feedferry.schemas.reject import record_error
from feedferry.schemas.span import ElementContext
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column
from feedferry.transforms.formats.fast_path.columns.neutrality import are_neutral, find_not_neutral
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns, grouped
from feedferry.transforms.formats.fast_path.learning.learning_budget import LearningBudget
from feedferry.transforms.formats.text.byte_scans import count_lines
from feedferry.transforms.formats.xml.bulk.run_cutter import CutElement, RunCutter
from feedferry.transforms.formats.xml.bulk.run_shapes import (
    BuildRecord,
    MarkupTemplate,
    RunShape,
    ShapeKey,
)
from feedferry.transforms.formats.xml.elements import ParsedElement, parse_element
from feedferry.transforms.formats.xml.scanning.raw_elements import RawElement, Records, Run
from feedferry.transforms.formats.xml.scanning.record_markup import markup_of

_MAX_TEMPLATES = 256  # a feed without repetition must not fill the memory
_MAX_SHAPES = 256
_FREE_SHAPES = 16
"""How many shapes are learned before any has saved time."""

_MIN_GROUPS, _RECORDS_A_GROUP = 4, 8
"""How many shapes a run may have."""

_ALONE = 4
"""A run is read one by one if more than one in this number of records can be in no batch."""

_BLOCKS = 16
"""How often a run is cut into elements before it is tried again as records that are alike."""


class _NeedsParserError(Exception):
    """A run must be read one by one."""


TemplateT = TypeVar("TemplateT", bound=MarkupTemplate)

ReadElement = Callable[[ParsedElement], object]
"""Reads a parsed element into a type of its format; raises RecordError."""

Place = tuple[int, int, ElementContext]
"""The offset, the line and the context of a run."""

FindRanges = Callable[[], Sequence[tuple[int, int]]]
"""Returns the begins and the ends of the elements of a run."""

EnterContext = Callable[[ElementContext, int], BuildRecord]
"""Returns what builds records in a context, at a line; raises RecordError if none can be read."""


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
        self._cutter = RunCutter(markup_of(self.names), self.content_names)
        self._options = options
        self._context: ElementContext | None = None
        self._shape: Callable[[TemplateT, ShapeKey], RunShape]
        self.new_shape: Callable[[MarkupTemplate, ShapeKey], RunShape]
        self._budget = LearningBudget(_FREE_SHAPES)
        self._blocks = 0
        self.template = lru_cache(maxsize=_MAX_TEMPLATES)(self._template)

    @abstractmethod
    def split(self, head: str) -> tuple[str, Sequence[str]]:
        """Return the markup of an element and its values; it has no contents and no end tag."""

    @abstractmethod
    def split_run(self, text: str) -> tuple[str, list[Sequence[str]]] | None:
        """Return the markup of elements and the columns of their values; None if they differ."""

    @abstractmethod
    def learn(self, markup: str) -> TemplateT | None:
        """Return the template of a markup; None if it needs the parser."""

    def block(self, run: bytes, place: Place) -> Run | None:
        """Return the block of the first elements of a run; None if most of them go alone."""
        return None

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
                self.new_shape = new_shape
            place = offset, line, context
            taken = None if self._blocks % _BLOCKS else self._batches(run, place)
            if taken is not None and taken.length > len(run) // 2:
                self._blocks = 0
                return taken
            block = self.block(run, place)
            is_block = block is not None and (taken is None or block.length >= taken.length)
            self._blocks += is_block or self._blocks > 0
            return block if is_block else taken
        except FormatError:  # of the header: the parser raises it after the rejects before it
            return None
        except Exception as exc:
            record_error(exc)  # raises what concerns more than a record
            return None

    def _batches(self, run: bytes, place: Place) -> Run | None:
        """Return the records of the first elements of a run in batches, None if many are alone."""
        try:
            groups, length, find_ranges = self._groups(run)
            count = sum(len(group.places) for group in groups)
            if not groups or len(groups) > _MIN_GROUPS + count // _RECORDS_A_GROUP:
                return None
            positions = RunPositions(self._record, run, place, find_ranges)
            return Run(self._records(groups, count, positions), count, length)
        except _NeedsParserError:
            return None

    def _groups(self, run: bytes) -> tuple[list[_Group], int, FindRanges]:
        """Return the groups of the first elements of a run, their length, and their ranges."""
        cutter, end = self._cutter, self._cutter.last_end(run)
        try:
            text, contents = cutter.cut_contents(run)
            uniform = self._uniform(run[:end]) if end and not contents else None
            if uniform:
                return uniform, end, lambda: cutter.uniform_ranges(run[:end])
            elements = [*cutter.cut(text, contents)]
            groups, length = self._mixed(elements)
        except UnicodeDecodeError:
            return [], 0, list
        return groups, length, lambda: cutter.ranges(run, elements)

    def _uniform(self, run: bytes) -> list[_Group] | None:
        """Return the groups of a run, None if markup differs.

        Elements that close themselves may be between the others, and have another markup.
        """
        text = run.decode()
        groups = self._alike(text, None)
        parts = None if groups else self._cutter.opened_and_closed(text)
        if parts is None:
            return groups
        found = [self._alike(part.text, part.places) for part in parts]
        return [group for alike in found for group in alike or ()] if all(found) else None

    def _alike(self, text: str, places: Sequence[int] | None) -> list[_Group] | None:
        """Return the groups of elements that have one markup, None if they have not."""
        alike = self.split_run(text)
        template = alike and self.template(alike[0])
        if not alike or not template or template.contents:
            return None
        _, columns = alike
        places = range(len(columns[0])) if places is None else places
        return [*self._by_shape(template, (), columns, places)]

    def _mixed(self, elements: Iterable[CutElement]) -> tuple[list[_Group], int]:
        """Return the groups of elements up to one without a template, and their length."""
        templates: dict[tuple[str, tuple[bool, ...]], TemplateT] = {}
        keys, rows, length = list[tuple[str, tuple[bool, ...]]](), list[Column](), 0
        for head, end, contents, are_cdata, _ in elements:
            markup, values = self.split(head)
            key = markup, are_cdata
            if key not in templates:
                if len(templates) > _MIN_GROUPS + len(keys) // _RECORDS_A_GROUP:
                    raise _NeedsParserError
                template = self.template(markup)
                if template is None or template.contents != len(contents):
                    break
                constants = tuple(values[at] for at in template.constant)
                shape = self._shape(template, ShapeKey(are_cdata, constants))
                shape.seen += 1
                if not (template.has_rules or shape.is_readable_within(self._budget)):
                    break
                templates[key] = template
            length = end
            keys.append(key)
            rows.append([*values, *contents] if contents else values)
        groups = [
            group
            for key, places, [alike] in grouped(keys, [rows])
            for group in self._by_shape(templates[key], key[1], [*zip(*alike, strict=True)], places)
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

    def _records(self, groups: list[_Group], count: int, positions: "RunPositions") -> Records:
        """Return the records of a run in batches, and alone those that are not neutral.

        The few that need the parser are returned as they came.
        """
        size = self._options.batch_records
        limit = count // _ALONE if size else 0
        alone, unread = set[int](), set[int]()
        batch = []
        for group in groups:
            group.shape.seen += count
            if not group.shape.is_readable_within(self._budget):
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
            found.append(item or positions.element(place))
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
        kinds, most = shape.kinds, self._options.max_content_bytes
        rows: Collection[int] = range(len(columns[0]))
        is_batch = shape.is_frequent and shape.has_model
        if are_neutral(kinds, columns, max_content_bytes=most):
            return () if is_batch else rows, ()
        if is_batch and limit:
            rows = find_not_neutral(kinds, columns, most=limit, max_content_bytes=most)
        if shape.reads([*chain.from_iterable(texts)], columns):
            return rows, ()
        if len(rows) > limit:
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
        """Return the template of a markup; None if a section or a tag in it may end a record."""
        return self.learn(markup) if self._cutter.is_one_element(markup) else None

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


class RunPositions:
    """The places of the records of a run, computed for those who ask."""

    def __init__(self, name: str, run: bytes, place: Place, find_ranges: FindRanges) -> None:
        self._name, self._run, self._find_ranges = name, run, find_ranges
        self._offset, self._line, self.context = place

    @cached_property
    def _ranges(self) -> Sequence[tuple[int, int]]:
        return self._find_ranges()

    def offsets(self, places: Sequence[int]) -> list[int]:
        ranges = self._ranges
        return [self._offset + ranges[place][0] for place in places]

    @cached_property
    def _lines(self) -> list[int]:
        ends = pairwise([0, *[begin for begin, _ in self._ranges]])
        counts = accumulate(count_lines(self._run, *range_) for range_ in ends)
        return [self._line + count for count in counts]

    def lines(self, places: Sequence[int]) -> list[int]:
        lines = self._lines
        return [lines[place] for place in places]

    def places(self) -> Iterable[tuple[int, int]]:
        """Return the line and the offset of each record."""
        return zip(self._lines, self.offsets(range(len(self._lines))), strict=True)

    def element(self, place: int) -> RawElement:
        """Return a record as it came."""
        begin, end = self._ranges[place]
        line = self._line + count_lines(self._run, 0, begin)
        text = self._run[begin:end]
        return RawElement(self._name, text, self._offset + begin, line, self.context)
