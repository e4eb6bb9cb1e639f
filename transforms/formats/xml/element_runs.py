"""Read runs of elements without a parser if their markup was seen before.

A format splits each element into its *markup* and its values, and learns a `MarkupTemplate` of the
markup: which values differ from record to record, and which are the same in all records of a
shape. The records of one shape and one run are columns of a `RecordBatch`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain, pairwise
from typing import Generic, NamedTuple, TypeVar

from schemas.record import Record
from schemas.reject import record_error
from schemas.span import ElementContext
from transforms.formats.base import ReadOptions
from transforms.formats.record_batch import (
    Column,
    ColumnKind,
    Columns,
    MakeRecord,
    RecordBatch,
    Shape,
    are_neutral,
    are_read,
    has_neutral_columns,
)
from transforms.formats.xml.serializer import may_be_attribute

_MAX_TEMPLATES = 256  # a feed without repetition must not fill the memory
_MAX_SHAPES = 256
_MAX_MISSES = 8
_PAUSED_RUNS = 256
FREQUENT = 8
"""How many records are read before a model is made: it costs as much as a few."""

_MIN_GROUPS, _RECORDS_A_GROUP = 4, 8
"""How many shapes a run may have."""

_SELF_CLOSED = b"/>"
_OTHER_REFERENCE = re.compile("&(?!(?:lt|gt|quot|apos|amp);)")
_CDATA, _END_CDATA = b"<![CDATA[", b"]]>"


class MarkupTemplate:
    """The meaning of the values of elements with the same markup, by their index.

    `free` are the indexes of values that differ from record to record. `constant` are those of all
    others, which records of one shape share. `contents` is the number of contents.
    """

    contents: int
    free: Sequence[int]
    constant: Sequence[int]


class MarkupPieces(NamedTuple):
    """An element without contents. `part` is markup with values of its own, which come last."""

    markup: str
    part: str
    values: Sequence[str]
    of_part: Sequence[str] = ()


class ShapeKey(NamedTuple):
    """What records of a shape have in common."""

    markup: str
    part: str = ""
    are_cdata: tuple[bool, ...] = ()
    constants: tuple[str, ...] = ()


class _Element(NamedTuple):
    """An element without its end tag and its contents; it begins at `begin` or after blanks."""

    head: str
    contents: Sequence[bytes] = ()
    are_cdata: tuple[bool, ...] = ()
    begin: int = 0


TemplateT = TypeVar("TemplateT", bound=MarkupTemplate)


class _Found(NamedTuple, Generic[TemplateT]):
    """The records with one markup while a run is taken apart."""

    template: TemplateT
    rows: list[Sequence[str]]
    contents: list[Sequence[bytes]]
    places: list[int]


class RunShape(Shape):
    """The shape of elements with the same markup and the same constants.

    The last columns are lines and offsets.
    """

    def __init__(self, make: MakeRecord, kinds: Sequence[ColumnKind]) -> None:
        super().__init__(make, [*kinds, ColumnKind.NUMBER, ColumnKind.NUMBER])
        self._seen = 0

    def count(self, records: int) -> None:
        """Count the records of the runs with this shape."""
        self._seen += records

    @property
    def is_frequent(self) -> bool:
        """Whether a model is worth its cost."""
        return self._seen >= FREQUENT

    @property
    def is_readable(self) -> bool:
        """Whether records are made of values; others need the parser."""
        return True

    def escaped(self, columns: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """Return texts as they would be stated in attributes."""
        return [*columns]

    def reads(self, texts: Sequence[str], columns: Sequence[Column]) -> bool:
        """Whether a record is made of values that are not neutral."""
        return are_texts(texts) and are_read(self.kinds, columns)


class _Group(NamedTuple):
    """Records of a run that have one shape: their values, escaped, and their places in it."""

    shape: RunShape
    columns: list[Sequence[str]]
    contents: list[Sequence[bytes]]
    places: Sequence[int]


class ElementRuns(ABC, Generic[TemplateT]):
    """Makes batches of runs of elements, by the templates of their markup.

    If a few runs in a row have an element without a template, the next ones are not tried.
    """

    def __init__(self, record: str, contents: Sequence[str], options: ReadOptions) -> None:
        self._end = f"</{record}>"
        self._end_tag, self._begin = self._end.encode(), f"<{record}".encode()
        self._first_end = re.compile(self._end_tag)  # ten times as fast as bytes.find in base64
        self._content_tags = [f"<{name}".encode() for name in contents]
        self._content = re.compile(f"<({'|'.join(contents)})".encode())
        self._options = options
        self._templates: dict[str, TemplateT | None] = {}
        self._shapes: dict[ShapeKey, RunShape] = {}
        self._context: ElementContext | None = None
        self.is_single = True
        self._misses = 0
        self._paused = 0

    @abstractmethod
    def enter(self, context: ElementContext, line: int, *, is_new: bool) -> None:
        """Begin a run in a context; raise RecordError if its records cannot be read."""

    @abstractmethod
    def split(self, head: str) -> MarkupPieces:
        """Split an element that has no contents and no end tag."""

    @abstractmethod
    def split_run(self, text: str) -> tuple[str, list[Sequence[str]]] | None:
        """Return the markup of elements and the columns of their values; None if they differ."""

    @abstractmethod
    def learn(self, markup: str) -> TemplateT | None:
        """Return the template of a markup; None if it needs the parser."""

    @abstractmethod
    def shape(self, template: TemplateT, key: ShapeKey) -> RunShape:
        """Return a new shape in the current context."""

    def bulk(
        self, run: bytes, offset: int, line: int, context: ElementContext
    ) -> list[Record | RecordBatch] | None:
        """Return the records of elements with known markup; None if one is refused.

        They are then read one by one, and the reason is reported.
        """
        try:
            first_line = line + run.count(b"\n", 0, run.find(b"<"))
            self.enter(context, first_line, is_new=context is not self._context)
            if context is not self._context:
                self._shapes.clear()
                self._context = context
            found = self._take(run, offset, line)
            if found is None:
                return None
            batch, is_neutral = found
            size = self._options.batch_records
            return [*batch.parts(size)] if size and is_neutral else [*batch]
        except Exception as exc:
            record_error(exc)  # raises what concerns more than a record
            return None

    def _take(self, run: bytes, offset: int, line: int) -> tuple[RecordBatch, bool] | None:
        """Return the records of a run, and whether they can be converted as a batch.

        Return None if an element needs the parser. Raise what a shape raises for a record.
        """
        first_end = self._first_end.search(run)
        self.is_single = first_end is None or first_end.end() == len(run)
        if self._paused and not self.is_single:
            self._paused -= 1
            return None
        groups, find_begins = self._groups(run, first_end.start() if first_end else len(run))
        if not self.is_single:
            self._misses = 0 if groups else self._misses + 1
            if self._misses == _MAX_MISSES:
                self._misses, self._paused = 0, _PAUSED_RUNS
        return self._batch(groups, _Positions(run, offset, line, find_begins)) if groups else None

    def _groups(
        self, run: bytes, first_end: int
    ) -> tuple[list[_Group] | None, Callable[[], list[int]]]:
        """Return the groups of a run, None if an element has no template, and its begins."""
        try:
            if self._content.search(run, 0, first_end) or any(
                tag in run for tag in self._content_tags
            ):
                elements = self._cut_contents(run)
                begins = [element.begin for element in elements]
                return self._mixed(elements), lambda: [run.find(self._begin, at) for at in begins]
            text = run.decode()
            if run.endswith(_SELF_CLOSED):
                return self._mixed([_Element(f"{text[:-2]}>")]), lambda: [0]
        except UnicodeDecodeError:
            return None, list
        groups = self._uniform(text)
        if groups is None:
            groups = self._mixed([_Element(head) for head in text.split(self._end)[:-1]])
        return groups, lambda: [match.start() for match in re.finditer(self._begin, run)]

    def _cut_contents(self, run: bytes) -> list[_Element]:
        """Cut a run into elements; return none if the content of one has markup."""
        elements = []
        at = begin = 0
        heads, contents, are_cdata = list[bytes](), list[bytes](), list[bool]()
        while at < len(run):
            opened = self._content.search(run, at)
            end = run.find(self._end_tag, at, opened.start() if opened else len(run))
            if end >= 0:
                head = b"".join((*heads, run[at:end])).decode()
                elements.append(_Element(head, contents, tuple(are_cdata), begin))
                at = begin = end + len(self._end_tag)
                heads, contents, are_cdata = [], [], []
                continue
            first = run.find(b">", opened.end()) + 1 if opened else 0
            if not opened or not first:
                return []
            heads.append(run[at:first])
            is_cdata = run.startswith(_CDATA, first)
            first += is_cdata * len(_CDATA)
            close = run.find(_END_CDATA if is_cdata else b"<", first)
            at = close + is_cdata * len(_END_CDATA)
            if close < 0 or not run.startswith(b"</" + opened[1], at):
                return []
            contents.append(run[first:close])
            are_cdata.append(is_cdata)
        return elements

    def _uniform(self, text: str) -> list[_Group] | None:
        """Return the one group of a run, None if markup or constants differ."""
        alike = self.split_run(text)
        template = alike and self.template(alike[0])
        if not alike or not template:
            return None
        markup, columns = alike
        count = len(columns[0])
        constants = [columns[at] for at in template.constant]
        if any(column.count(column[0]) < count for column in constants):
            return None
        key = ShapeKey(markup, constants=tuple(column[0] for column in constants))
        shape = self._shape(key, template)
        return [_Group(shape, [columns[at] for at in template.free], [], range(count))]

    def _mixed(self, elements: list[_Element]) -> list[_Group] | None:
        """Return the groups of a run, None if an element has no template."""
        found: dict[tuple[str, str, tuple[bool, ...]], _Found[TemplateT]] = {}
        for place, (head, contents, are_cdata, _) in enumerate(elements):
            markup, part, values, of_part = self.split(head)
            key = markup, part, are_cdata
            alike = found.get(key)
            if alike is None:
                template = self.template(markup)
                if template is None or template.contents != len(contents):
                    return None
                alike = found[key] = _Found(template, [], [], [])
            alike.rows.append([*values, *of_part])
            alike.places.append(place)
            alike.contents.append(contents)
        groups = [group for key, alike in found.items() for group in self._of_markup(key, alike)]
        return groups if len(groups) <= _MIN_GROUPS + len(elements) // _RECORDS_A_GROUP else None

    def _of_markup(
        self, key: tuple[str, str, tuple[bool, ...]], found: _Found[TemplateT]
    ) -> Iterator[_Group]:
        """Yield the groups of elements with one markup, by their constants."""
        template, rows, contents, places = found
        columns = [*zip(*rows, strict=True)]
        constants = [columns[at] for at in template.constant]
        groups: dict[tuple[str, ...], list[int]] = {}
        if any(column.count(column[0]) < len(rows) for column in constants):
            for number, values in enumerate(zip(*constants, strict=True)):
                groups.setdefault(values, []).append(number)
        else:
            groups[tuple(column[0] for column in constants)] = [*range(len(rows))]
        of_part = range(len(template.free) + len(template.constant), len(columns))
        free = [columns[at] for at in (*template.free, *of_part)]
        for values, numbers in groups.items():
            shape = self._shape(ShapeKey(*key, values), template)
            if len(groups) == 1:
                yield _Group(shape, free, [*zip(*contents, strict=True)], places)
                continue
            yield _Group(
                shape,
                [[column[number] for number in numbers] for column in free],
                [*zip(*(contents[number] for number in numbers), strict=True)],
                [places[number] for number in numbers],
            )

    def _batch(
        self, groups: list[_Group], positions: "_Positions"
    ) -> tuple[RecordBatch, bool] | None:
        """Return the records of a run and if they are neutral, None if one needs the parser."""
        are_all_neutral = True
        order = [0] * sum(len(group.places) for group in groups)
        batch = []
        for number, (shape, stated, contents, places) in enumerate(groups):
            shape.count(len(order))
            if not shape.is_readable:
                return None
            texts = shape.escaped(stated)
            columns = [*texts, *contents]
            values = [*chain.from_iterable(texts)]
            is_neutral = are_neutral(values) and has_neutral_columns(
                shape.kinds, columns, max_content_bytes=self._options.max_content_bytes
            )
            if not is_neutral and not shape.reads(values, columns):
                return None
            are_all_neutral &= is_neutral and shape.is_frequent and shape.has_model
            if number:
                for place in places:
                    order[place] = number
            of_group = [partial(positions.lines, places), partial(positions.offsets, places)]
            batch.append(Columns(shape, [*columns, *of_group], len(places)))
        return RecordBatch(batch, order), are_all_neutral

    def template(self, markup: str) -> TemplateT | None:
        """Return the template of a markup, learned now if it is new; None if it has none."""
        if markup not in self._templates:
            if len(self._templates) >= _MAX_TEMPLATES:
                self._templates.clear()
            self._templates[markup] = self.learn(markup)
        return self._templates[markup]

    def _shape(self, key: ShapeKey, template: TemplateT) -> RunShape:
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = self.shape(template, key)
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


def are_texts(values: Sequence[str]) -> bool:
    """Whether all can be values of attributes, with no references but the five of XML."""
    text = '"'.join(values)  # the one character that no value has
    return may_be_attribute(text) and _OTHER_REFERENCE.search(text) is None
