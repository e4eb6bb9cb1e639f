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
_FREQUENT = 8
"""How many records are read before a model is made: it costs as much as a few."""

_MIN_GROUPS, _RECORDS_A_GROUP = 4, 8
"""How many shapes a run may have."""

_SELF_CLOSED = b"/>"
_OTHER_REFERENCE = re.compile("&(?!(?:lt|gt|quot|apos|amp);)")
_CDATA, _END_CDATA = b"<![CDATA[", b"]]>"


class MarkupTemplate:
    """The meaning of the values of elements with the same markup, by their index.

    `free` are the indexes of values that differ from record to record. `constant` are those of all
    others, which records of one shape share.
    """

    has_content: bool
    free: Sequence[int]
    constant: Sequence[int]


class MarkupPieces(NamedTuple):
    """An element without its content. `part` is markup with values of its own, which come last."""

    markup: str
    part: str
    values: Sequence[str]
    of_part: Sequence[str] = ()


class ShapeKey(NamedTuple):
    """What records of a shape have in common."""

    markup: str
    part: str = ""
    is_cdata: bool = False
    constants: tuple[str, ...] = ()


class _Element(NamedTuple):
    """An element without its end tag and its content; it begins at `begin` or after blanks."""

    head: str
    content: bytes | None = None
    is_cdata: bool = False
    begin: int = 0


TemplateT = TypeVar("TemplateT", bound=MarkupTemplate)


class _Found(NamedTuple, Generic[TemplateT]):
    """The records with one markup while a run is taken apart."""

    template: TemplateT
    rows: list[Sequence[str]]
    contents: list[bytes]
    places: list[int]


class RunShape(Shape):
    """The shape of elements with the same markup and the same constants.

    The last columns are lines and offsets. Elements that are not readable need the parser.
    """

    def __init__(self, make: MakeRecord, kinds: Sequence[ColumnKind], *, is_readable: bool) -> None:
        super().__init__(make, [*kinds, ColumnKind.NUMBER, ColumnKind.NUMBER])
        self.is_readable = is_readable
        self._seen = 0

    def is_frequent(self, count: int) -> bool:
        """Count the records of the runs with this shape; return whether a model was made."""
        self._seen += count
        return self._seen >= _FREQUENT and self.has_model


class _Group(NamedTuple):
    """Records of a run that have one shape: their values, escaped, and their places in it."""

    shape: RunShape
    columns: list[Sequence[str]]
    contents: list[bytes]
    places: Sequence[int]


class ElementRuns(ABC, Generic[TemplateT]):
    """Makes batches of runs of elements, by the templates of their markup.

    If a few runs in a row have an element without a template, the next ones are not tried.
    """

    def __init__(self, record: str, content: str, options: ReadOptions) -> None:
        self._end = f"</{record}>"
        self._end_tag, self._begin = self._end.encode(), f"<{record}".encode()
        self._begin_content, self._end_content = f"<{content}".encode(), f"</{content}".encode()
        self._options = options
        self._templates: dict[str, TemplateT | None] = {}
        self._shapes: dict[ShapeKey, RunShape] = {}
        self._context: ElementContext | None = None
        self._misses = 0
        self._paused = 0

    @abstractmethod
    def enter(self, context: ElementContext, line: int, *, is_new: bool) -> None:
        """Begin a run in a context; raise RecordError if its records cannot be read."""

    @abstractmethod
    def split(self, head: str) -> MarkupPieces:
        """Split an element that has no content and no end tag."""

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
        is_single = run.find(self._end_tag) in (-1, len(run) - len(self._end_tag))
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
            if self._begin_content in run:
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
        end_tag = self._end_tag
        at, opened = 0, -1
        while at < len(run):
            if opened < at:
                opened = run.find(self._begin_content, at)
                opened = len(run) if opened < 0 else opened
            end = run.find(end_tag, at, opened)
            if end >= 0:
                elements.append(_Element(run[at:end].decode(), begin=at))
            else:
                begin = run.find(b">", opened) + 1
                is_cdata = begin > 0 and run.startswith(_CDATA, begin)
                first = begin + is_cdata * len(_CDATA)
                close = run.find(_END_CDATA if is_cdata else b"<", first)
                after = close + is_cdata * len(_END_CDATA)
                end = run.find(end_tag, after)
                is_cut = begin and close >= 0 and end >= 0
                if not is_cut or not run.startswith(self._end_content, after):
                    return []
                head = (run[at:begin] + run[after:end]).decode()
                elements.append(_Element(head, run[first:close], is_cdata, at))
            at = end + len(end_tag)
        return elements

    def _uniform(self, text: str) -> list[_Group] | None:
        """Return the one group of a run, None if markup or constants differ."""
        alike = self.split_run(text)
        template = alike and self._template(alike[0])
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
        found: dict[tuple[str, str, bool], _Found[TemplateT]] = {}
        for place, (head, content, is_cdata, _) in enumerate(elements):
            markup, part, values, of_part = self.split(head)
            key = markup, part, is_cdata
            alike = found.get(key)
            if alike is None:
                template = self._template(markup)
                if template is None or template.has_content is (content is None):
                    return None
                alike = found[key] = _Found(template, [], [], [])
            alike.rows.append([*values, *of_part])
            alike.places.append(place)
            if content is not None:
                alike.contents.append(content)
        groups = [group for key, alike in found.items() for group in self._of_markup(key, alike)]
        return groups if len(groups) <= _MIN_GROUPS + len(elements) // _RECORDS_A_GROUP else None

    def _of_markup(self, key: tuple[str, str, bool], found: _Found[TemplateT]) -> Iterator[_Group]:
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
                shape.kinds, columns, max_content_bytes=self._options.max_content_bytes
            )
            if not is_neutral and not (are_texts(values) and are_read(shape.kinds, columns)):
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

    def _template(self, markup: str) -> TemplateT | None:
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
