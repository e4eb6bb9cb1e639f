"""Blocks of adjacent records, of which only elements are alike.

Each element of a record (its tag, its ACL, a principal, a pair of metadata, a content) has a
*signature*: its markup, and those of its values that come from small sets, such as the names of
metadata. All other values are columns, over all records of a block. A string has one letter, its
code, for each element, so that one expression decides which records go by their elements. All
others go alone.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple, NoReturn

from schemas.record import Provenance
from transforms.formats.columns.cells import unescaped
from transforms.formats.columns.column_kinds import Column, ColumnKind
from transforms.formats.columns.record_batch import Shape

RECORD, RECORD_WITH_CONTENT, DELETION, CLOSED_RECORD = "R", "S", "Q", "E"
PARENTED_ACL, ACL, END_ACL = "A", "B", "a"
PERMIT, DENY = "P", "D"
METADATA, META, END_METADATA = "M", "m", "n"
CONTENT, END_CONTENT = "C", "c"
END_NAME, END_RECORD = "p", "r"
ALONE, CLOSED_ALONE = "X", "Y"
"""The codes of elements; those of an element that is not known, or whose values are not neutral."""

RECORDS = (RECORD, RECORD_WITH_CONTENT, DELETION, CLOSED_RECORD)
CONTENT_MARK = "\3"
"""Is in place of a content in the text of a block; no text of XML has it."""


class ElementShape(NamedTuple):
    """What elements of one signature share: a record around one of them, and its own columns."""

    shape: Shape
    code: str
    first_column: int
    columns: int


class ElementGroup(NamedTuple):
    """Elements with one markup: for each, the key of its signature and the values of columns."""

    elements: Mapping[Hashable, ElementShape]
    keys: Sequence[Hashable]
    columns: Sequence[Column]
    places: Sequence[int]

    def rows(self, rows: Sequence[int]) -> "ElementGroup":
        """Return some of the elements."""
        keys, places = [self.keys[row] for row in rows], [self.places[row] for row in rows]
        columns = [[column[row] for row in rows] for column in self.columns]
        return ElementGroup(self.elements, keys, columns, places)

    @property
    def is_of_records(self) -> bool:
        return next(iter(self.elements.values())).code in RECORDS


class ElementJoints(NamedTuple):
    """How a writer joins elements to records: their outputs follow one another.

    `order` matches the codes of a record as it is written. `parts` matches those of a record with
    the same elements in another order; its groups are the parts, in the order of the output. `tags`
    are the outputs of elements without values, by their codes. `frames` are the outputs before and
    after an element of a code in a sample: those of the record around it.
    """

    order: re.Pattern[str]
    parts: re.Pattern[str]
    tags: Mapping[str, str]
    frames: Mapping[str, tuple[str, str]]

    def places(self, codes: str) -> list[int] | None:
        """Return the places of the elements of a record in the order of the output."""
        match = None if self.order.fullmatch(codes) else self.parts.fullmatch(codes)
        if match is None:
            return None
        spans = [match.span(number) for number in range(1, self.parts.groups + 1)]
        places = [0, *chain.from_iterable(range(*span) for span in spans), len(codes) - 1]
        return places if len(places) == len(codes) else None


class ElementPlan(NamedTuple):
    """The texts of an element between its columns, in the form of one writer."""

    texts: Sequence[str]
    cells: Sequence[tuple[int, Callable[[Column], Column]]]
    """For each column, in the order of the output, its number and its form."""

    action: str


def _not_read(element: object) -> NoReturn:
    raise AssertionError(f"{element!r} before its reader is known")


class ElementBlock(NamedTuple):
    """The elements of adjacent records; `ends` are the places of those that end a record.

    Records of one `context` with the same codes are converted by the same rules.
    `element` returns a record as it came, by its number, for a reader to `read` it alone.
    """

    codes: Sequence[str]
    groups: Sequence[ElementGroup]
    ends: Sequence[int]
    provenance: Provenance
    context: Hashable
    element: Callable[[int], Any]
    read: Callable[[Any], Any] = _not_read

    def records(self, first: int, last: int) -> Iterator[Any]:
        """Return what a reader makes of adjacent records, one by one."""
        return (self.read(self.element(number)) for number in range(first, last))


class Part(NamedTuple):
    """Adjacent records of a block, by their numbers: those before `last`."""

    first: int
    last: int
    is_alone: bool


PlanOf = Callable[[ElementShape], ElementPlan | None]
IsProven = Callable[[str, int], bool]
"""Whether records with the codes of a record are what their plans predict, by its number."""


class EncodedBlock:
    """A block in the form of a writer; some records have no plan."""

    def __init__(self, block: ElementBlock, joints: ElementJoints, plan_of: PlanOf) -> None:
        self._order = joints.order
        self._codes = [*block.codes]
        self._texts = [*map(joints.tags.get, block.codes, [""] * len(block.codes))]
        self._written: list[tuple[ElementGroup, Mapping[Hashable, str]]] = []
        contents: dict[int, bytes] = {}
        for group in block.groups:
            plans = {key: plan_of(element) for key, element in group.elements.items()}
            self._encode(group, {key: plan for key, plan in plans.items() if plan}, contents)
        self._content_places = sorted(contents)
        self._contents = [contents[place] for place in self._content_places]
        codes = "".join(self._codes)
        self._begins = [0, *[end + 1 for end in block.ends]]
        self._codes_of_records = [codes[begin:end] for begin, end in pairwise(self._begins)]
        self._sort(joints)

    def _encode(
        self,
        group: ElementGroup,
        plans: Mapping[Hashable, ElementPlan],
        contents: dict[int, bytes],
    ) -> None:
        usual = next(iter(plans.values()), None)
        plans = {key: plan for key, plan in plans.items() if usual and plan.cells == usual.cells}
        if len(plans) < len(group.elements):
            for place, key in zip(group.places, group.keys, strict=True):
                if key not in plans:
                    self._codes[place] = ALONE
            group = group.rows([row for row, key in enumerate(group.keys) if key in plans])
        if usual is None or not group.places:
            return
        keys, columns, places = group.keys, group.columns, group.places
        cells = [encode(columns[at]) for at, encode in usual.cells]
        texts = self._texts
        if isinstance(cells[-1][0] if cells else "", bytes):
            contents.update(zip(places, cells[-1], strict=True))
            cells[-1] = [CONTENT_MARK] * len(places)
        for place, text in zip(places, _joined(plans, keys, cells), strict=True):
            texts[place] = text
        if group.is_of_records:
            self._written.append((group, {key: plan.action for key, plan in plans.items()}))

    def _sort(self, joints: ElementJoints) -> None:
        """Bring the elements of each record into the order of the output."""
        orders = {codes: joints.places(codes) for codes in {*self._codes_of_records}}
        if not any(orders.values()):
            return
        for number, codes in enumerate(self._codes_of_records):
            places = orders[codes]
            if places is not None:
                begin, end = self._begins[number : number + 2]
                texts = self._texts[begin:end]
                self._texts[begin:end] = [texts[place] for place in places]
                self._codes_of_records[number] = "".join([codes[place] for place in places])

    def parts(self, first: int, size: int, is_proven: IsProven) -> Iterator[Part]:
        """Yield the records from one on: those without a plan alone, others up to `size`."""
        verdicts: dict[str, bool] = {}
        for number, codes in enumerate(self._codes_of_records[first:], first):
            is_planned = verdicts.get(codes)
            if is_planned is None:
                is_ordered = self._order.fullmatch(codes) is not None
                is_planned = verdicts[codes] = is_ordered and is_proven(codes, number)
            if number > first and (not is_planned or number - first == size):
                yield Part(first, number, is_alone=False)
                first = number
            if not is_planned:
                first = number + 1
                yield Part(number, first, is_alone=True)
        if first < len(self._codes_of_records):
            yield Part(first, len(self._codes_of_records), is_alone=False)

    def data(self, first: int, last: int) -> bytes:
        """Return the bytes of adjacent records, which all have a plan."""
        begin, end = self._begins[first], self._begins[last]
        data = "".join(self._texts[begin:end]).encode()
        low = bisect_left(self._content_places, begin)
        high = bisect_left(self._content_places, end)
        if low == high:
            return data
        texts = data.split(CONTENT_MARK.encode())
        parts = [b""] * (2 * len(texts) - 1)
        parts[::2], parts[1::2] = texts, self._contents[low:high]
        return b"".join(parts)

    def read_actions(self, first: int, last: int) -> Counter[str]:
        """Count the actions of adjacent records as they were read."""
        actions = [
            (group, {key: of.shape.model.action._value_ for key, of in group.elements.items()})
            for group, _ in self._written
        ]
        return self._count(actions, first, last)

    def written_actions(self, first: int, last: int) -> Counter[str]:
        """Count the actions of adjacent records as they are written."""
        return self._count(self._written, first, last)

    def _count(
        self,
        actions: Sequence[tuple[ElementGroup, Mapping[Hashable, str]]],
        first: int,
        last: int,
    ) -> Counter[str]:
        counts = Counter[str]()
        for group, of_keys in actions:
            low = bisect_left(group.places, self._begins[first])
            high = bisect_left(group.places, self._begins[last])
            if len(of_keys) == 1 and high > low:
                counts[next(iter(of_keys.values()))] += high - low
            else:
                counts.update(map(of_keys.__getitem__, group.keys[low:high]))
        return counts

    def url(self, number: int) -> str:
        """Return the URL of a record that has a plan."""
        place = self._begins[number]
        for group, _ in self._written:
            row = bisect_left(group.places, place)
            if group.places[row : row + 1] == [place]:
                kinds = group.elements[group.keys[row]].shape.kinds
                [url] = unescaped([group.columns[kinds.index(ColumnKind.URL)][row]])
                return str(url)
        raise AssertionError("a record without a plan")


def _joined(
    plans: Mapping[Hashable, ElementPlan], keys: Sequence[Hashable], cells: Sequence[Column]
) -> list[str]:
    """Return the texts of elements."""
    if len(plans) == 1:
        [plan] = plans.values()
        begin, *others = plan.texts
        if not cells:
            return [begin] * len(keys)
        if len(cells) == 1:
            [end] = others
            return [f"{begin}{value}{end}" for value in cells[0]]
        parts: list[Column] = [[begin] * len(keys)]
        for column, text in zip(cells, others, strict=True):
            parts += [column, [text] * len(keys)]
        return [*map("".join, zip(*parts, strict=True))]
    if len(cells) == 1:
        texts = {key: plan.texts for key, plan in plans.items()}
        begins = {key: begin for key, (begin, _) in texts.items()}
        ends = {end for _, end in texts.values()}
        if len(ends) == 1:
            [end] = ends
            return [f"{begins[key]}{value}{end}" for key, value in zip(keys, cells[0], strict=True)]
    columns = [[plans[key].texts[at] for key in keys] for at in range(len(cells) + 1)]
    parts = [columns[0]]
    for column, after in zip(cells, columns[1:], strict=True):
        parts += [column, after]
    return [*map("".join, zip(*parts, strict=True))]
