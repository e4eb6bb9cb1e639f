"""Blocks in the form of a writer: each element by its plan.

A record that is converted singly shows in which order the pieces of the elements follow one another
for all records with the same codes, and which constant pieces are between them.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from schemas.notice import Loss
from transforms.formats.columns.cells import unescaped
from transforms.formats.columns.column_kinds import Column, ColumnKind
from transforms.formats.columns.element_block import ElementBlock, ElementGroup, ElementShape
from transforms.formats.columns.element_codes import (
    ACL,
    ALONE,
    CLOSED_ALONE,
    CONTENT_MARK,
    DENY,
    LOST,
    PERMIT,
    RECORD,
    WRITTEN,
    WRITTEN_CODES,
)
from transforms.formats.columns.element_plan import ElementPlan, PiecePlan, Pieces
from transforms.formats.columns.record_batch import Shape


class Part(NamedTuple):
    """Adjacent records of a block, by their numbers: those before `last`."""

    first: int
    last: int
    is_alone: bool


class Layout(NamedTuple):
    """The order of the pieces of a record: those of its elements, and constant ones after them."""

    pick: Callable[[list[Any]], Sequence[Any]]
    constants: list[Any]
    losses: tuple[Loss, ...]


PlanOf = Callable[[ElementShape], ElementPlan | None]
LayoutOf = Callable[[int], Layout | None]
"""Returns the layout of a record by its number, and of others like it; None without one."""


class EncodedBlock:
    """A block in the form of a writer; some records have no plan."""

    def __init__(self, block: ElementBlock, plan_of: PlanOf) -> None:
        self._block, self._begins = block, block.begins
        self._codes = [*block.codes]
        self._pieces: list[Any] = [None] * len(self._codes)
        self._more: list[list[Any]] = [[] for _ in block.ends]
        """The pieces of a record itself after its first one."""

        self._signatures: list[list[Shape]] = [[] for _ in block.ends]
        self._written: list[tuple[ElementGroup, Mapping[Hashable, str]]] = []
        self._layouts: dict[str, Layout | None] = {}
        self._contents: dict[int, bytes] = {}
        self._is_binary = False
        for group in block.groups:
            plans = {key: plan_of(element) for key, element in group.elements.items()}
            self._encode(group, {key: plan for key, plan in plans.items() if plan})
        codes = "".join(self._codes)
        self._codes_of_records = [codes[begin:end] for begin, end in pairwise(self._begins)]
        self._keys = self._keys_of_records()
        self._content_places = sorted(self._contents)

    def _keys_of_records(self) -> list[str]:
        """Return for each record what those of one layout have in common in this block."""
        keys = self._codes_of_records
        if any(self._more):
            more = map(len, self._more)
            keys = [f"{codes}+{count}" for codes, count in zip(keys, more, strict=True)]
        if LOST in "".join(self._codes):
            keys = [*map(str.__add__, keys, self._block.codes_of_records)]
        numbers: dict[tuple[Shape, ...], int] = {}
        signatures = [numbers.setdefault(tuple(of), len(numbers)) for of in self._signatures]
        if len(numbers) > 1:
            keys = [f"{key}#{number}" for key, number in zip(keys, signatures, strict=True)]
        return keys

    def layout_key(self, number: int) -> Hashable:
        """Return what the records of a layout have in common: codes, and some signatures.

        These are the signatures of the record, its ACL and its content, for which a target may have
        rules that concern several. Denials are as permissions, unless the record permits nobody.
        """
        stated, codes = self._block.codes_of_records[number], self._codes_of_records[number]
        if PERMIT in stated or ACL not in stated:
            stated, codes = (of.replace(DENY, PERMIT) for of in (stated, codes))
        return codes, stated, len(self._more[number]), tuple(self._signatures[number])

    def _encode(self, group: ElementGroup, plans: Mapping[Hashable, ElementPlan]) -> None:
        usual = next(iter(plans.values()), None)
        forms = usual and [piece.cells for piece in usual.pieces]
        plans = {
            key: plan for key, plan in plans.items() if [of.cells for of in plan.pieces] == forms
        }
        if len(plans) < len(group.elements):
            for place, key in zip(group.places, group.keys, strict=True):
                if key not in plans:
                    self._codes[place] = ALONE
            group = group.rows([row for row, key in enumerate(group.keys) if key in plans])
        if usual is None or not group.places:
            return
        self._note(group, plans)
        for number in range(len(usual.pieces)):
            pieces = self._encode_pieces(
                group, {key: plan.pieces[number] for key, plan in plans.items()}
            )
            for place, piece in zip(group.places, pieces, strict=True):
                if number:
                    self._more[self._numbers[place]].append(piece)
                else:
                    self._pieces[place] = piece

    def _note(self, group: ElementGroup, plans: Mapping[Hashable, ElementPlan]) -> None:
        """Note the codes and the signatures of elements that are written."""
        codes = {key: plan.code for key, plan in plans.items()}
        rows = [*zip(group.places, group.keys, strict=True)]
        if not WRITTEN.issuperset(codes.values()):
            for place, key in rows:
                if codes[key] not in WRITTEN:
                    self._codes[place] = codes[key]
        if group.is_signed:
            for place, key in rows:
                number = bisect_right(self._begins, place) - 1
                self._signatures[number].append(group.elements[key].shape)
        if group.is_of_records:
            self._written.append((group, {key: plan.action for key, plan in plans.items()}))

    def _encode_pieces(
        self, group: ElementGroup, plans: Mapping[Hashable, PiecePlan]
    ) -> Sequence[Any]:
        """Return a piece of each element of a group."""
        usual = next(iter(plans.values()))
        self._is_binary = isinstance(usual.texts[0], bytes)
        cells = []
        for cell in usual.cells:
            values = cell.encode(self._column(group, cell.column))
            if cell.is_binary and not self._is_binary:
                self._contents.update(zip(group.places, values, strict=True))
                values = [CONTENT_MARK] * len(group.places)
            cells.append(values)
        return _joined({key: plan.texts for key, plan in plans.items()}, group.keys, cells)

    def _column(self, group: ElementGroup, number: int) -> Column:
        """Return a column of a group by its number in the sample."""
        element = next(iter(group.elements.values()))
        kinds = element.shape.kinds
        if kinds[number] is not ColumnKind.NUMBER:
            return group.columns[number - element.first_column]
        column = self._places[number - len(kinds)]
        return [column[self._numbers[place]] for place in group.places]

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """The numbers of records by the places of their first elements."""
        return {place: number for number, place in enumerate(self._begins)}

    @cached_property
    def _places(self) -> Sequence[Column]:
        return [*zip(*self._block.source.places(), strict=True)]

    def learn_layout(self, number: int, pieces: Pieces, losses: tuple[Loss, ...]) -> Layout | None:
        """Return the layout of a record that is encoded in pieces; None if it has another form."""
        codes, more = self._codes_of_records[number], self._more[number]
        places = defaultdict[str, deque[int]](deque)
        for place, code in enumerate(codes):
            if code in WRITTEN_CODES or code.isdigit():
                places[WRITTEN_CODES.get(code, code)].append(place)
        places[RECORD].extend(range(len(codes), len(codes) + len(more)))
        order: list[int] = []
        constants: list[Any] = []
        for code, data in pieces:
            if code and not places[code]:
                return None
            order.append(
                places[code].popleft() if code else len(codes) + len(more) + len(constants)
            )
            if not code:
                constants.append(data if self._is_binary else data.decode())
        if any(places.values()) or len(order) < 2:  # one item is no sequence
            return None
        return Layout(itemgetter(*order), constants, losses)

    def parts(
        self, first: int, size: int, layout_of: LayoutOf, is_sampled: Callable[[Loss], bool]
    ) -> Iterator[Part]:
        """Yield the records from one on: those without a plan alone, others up to `size`.

        A record with a loss that is not only counted, as others were samples of it, goes alone too.
        """
        layouts = self._layouts
        for number, key in enumerate(self._keys[first:], first):
            if key not in layouts:
                is_known = ALONE not in key and CLOSED_ALONE not in key
                layouts[key] = layout_of(number) if is_known else None
            layout = layouts[key]
            is_planned = layout is not None and all(map(is_sampled, layout.losses))
            if number > first and (not is_planned or number - first == size):
                yield Part(first, number, is_alone=False)
                first = number
            if not is_planned:
                first = number + 1
                yield Part(number, first, is_alone=True)
        if first < len(self._codes_of_records):
            yield Part(first, len(self._codes_of_records), is_alone=False)

    def data(self, first: int, last: int) -> list[bytes]:
        """Return the bytes of adjacent records, which all have a plan: of each for binary ones."""
        return self._data(first, [self._layouts[key] for key in self._keys[first:last]])

    def data_by(self, layout: Layout, number: int) -> bytes:
        """Return the bytes of a record by a layout that is not proven yet."""
        [data] = self._data(number, [layout])
        return data

    def _data(self, first: int, layouts: Sequence[Layout | None]) -> list[bytes]:
        pieces, more, begins = self._pieces, self._more, self._begins
        rows = [
            layout.pick(
                pieces[begins[number] : begins[number + 1]] + more[number] + layout.constants
            )
            for number, layout in enumerate(layouts, first)
            if layout is not None
        ]
        if self._is_binary:
            return [*map(b"".join, rows)]
        data = "".join(chain.from_iterable(rows)).encode()
        low = bisect_left(self._content_places, begins[first])
        high = bisect_left(self._content_places, begins[first + len(layouts)])
        if low == high:
            return [data]
        texts = data.split(CONTENT_MARK.encode())
        parts = [b""] * (2 * len(texts) - 1)
        contents = [self._contents[place] for place in self._content_places[low:high]]
        parts[::2], parts[1::2] = texts, contents
        return [b"".join(parts)]

    def losses(self, first: int, last: int) -> dict[str, tuple[Loss, int]]:
        """Return a loss of each field that adjacent records lose, and how often it is lost."""
        counts: dict[str, tuple[Loss, int]] = {}
        for key, count in Counter(self._keys[first:last]).items():
            layout = self._layouts[key]
            for loss in layout.losses if layout else ():
                counts[loss.field] = loss, counts.get(loss.field, (loss, 0))[1] + count
        return counts

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
    texts: Mapping[Hashable, Column], keys: Sequence[Hashable], cells: Sequence[Column]
) -> Sequence[Any]:
    """Return the pieces of elements: the texts of their keys, with the cells between these."""
    first, *others = texts.values()
    if not cells:
        return [texts[key][0] for key in keys] if others else [*first] * len(keys)
    ends = {tuple(of_key[1:]) for of_key in texts.values()}
    if len(ends) == 1:
        begins = {key: of_key[0] for key, of_key in texts.items()}
        end, *more = first[1:]
        starts = [begins[key] for key in keys] if others else [first[0]] * len(keys)
        if not more:
            return [begin + value + end for begin, value in zip(starts, cells[0], strict=True)]
    columns = [[texts[key][at] for key in keys] for at in range(len(cells) + 1)]
    parts: list[Column] = [columns[0]]
    for column, after in zip(cells, columns[1:], strict=True):
        parts += [column, after]
    return [*map(first[0][:0].join, zip(*parts, strict=True))]
