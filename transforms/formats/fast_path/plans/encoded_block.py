"""Blocks in the form of a writer: each element by its plan.

A record that is converted singly shows in which order the pieces of the elements follow one another
for all records with the same letters, and which constant pieces are between them. The key of a
record has one letter for each element: it states what the element is, what the writer makes of it,
and for elements which are once in a record also their signature. A target may have rules that
concern several of these. Elements with different letters are in different parts of a record, so
that their order among each other does not matter.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise, repeat
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from feedferry.transforms.formats.fast_path.columns.cells import unescaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column, ColumnKind
from feedferry.transforms.formats.fast_path.columns.holes import InspectedError
from feedferry.transforms.formats.fast_path.columns.record_batch import PARTS
from feedferry.transforms.formats.fast_path.columns.shape_columns import grouped
from feedferry.transforms.formats.fast_path.elements.element_block import (
    ElementBlock,
    ElementGroup,
    ElementShape,
)
from feedferry.transforms.formats.fast_path.elements.element_codes import (
    ACL,
    ALONE,
    CLOSED_ALONE,
    CONTENT_MARK,
    DENY,
    END_ACL,
    END_NAME,
    LOST,
    PERMIT,
    WRITTEN_CODES,
)
from feedferry.transforms.formats.fast_path.plans.batch_plan import Counted
from feedferry.transforms.formats.fast_path.plans.element_plan import ElementPlan, PiecePlan, Pieces
from feedferry.transforms.formats.fast_path.plans.whole_acls import AclPiece

_FIRST_LETTER = 0x100
_NO_PERMIT = "N"
"""Is in place of the end of an ACL with denials only, and without a parent."""

_DENIALS = re.compile(f"{ACL}(?:{DENY}{END_NAME})+{END_ACL}")


class Part(NamedTuple):
    """Adjacent records of a block, by their numbers: those before `last`."""

    first: int
    last: int
    is_alone: bool


class Layout(NamedTuple):
    """The order of the pieces of a record: those of its elements, and constant ones after them."""

    order: list[int]
    constants: list[Any]
    counted: Counted
    pick: Callable[[list[Any]], Sequence[Any]]


class PlanOf(Protocol):
    """Returns the plan of an element in records with or without an ACL; None without one."""

    def __call__(self, element: ElementShape, *, has_acl: bool) -> ElementPlan | None: ...


AclPieces = Iterable[tuple[int, AclPiece | None]]
"""The pieces of ACLs with the places where these begin; None for those of which none is known."""

LayoutOf = Callable[[int], Layout | None]
"""Returns the layout of a record by its number, and of others like it; None without one."""


class EncodedBlock:
    """A block in the form of a writer; some records have no plan.

    `keys` are those of its records. `letters` are those of earlier blocks, and are added to. `acls`
    are the pieces of ACLs for a writer that makes one of a whole ACL.
    """

    def __init__(
        self,
        block: ElementBlock,
        plan_of: PlanOf,
        letters: dict[Hashable, str],
        *,
        elements_once: str = "",
        acls: AclPieces | None = None,
    ) -> None:
        self._block, self._begins, self._letters = block, block.begins, letters
        self._elements_once = elements_once
        self._begin_texts: list[tuple[int, str]] = []
        """The places of elements with that code, and the texts before their columns."""

        self._codes = [*block.codes]
        self._pieces: list[Any] = [None] * len(self._codes)
        self._more: list[list[Any]] = [[] for _ in block.ends]
        """The pieces of a record itself after its first one."""

        self._more_codes: dict[str, str] = {}
        """The codes of these pieces, by the letter of the record."""

        self._written: dict[str, str] = {}
        """The codes of elements in the form of the writer, by their letters."""

        self._layouts: dict[str, Layout | None] = {}
        self._contents: dict[int, bytes] = {}
        self._is_binary = False
        groups = zip(block.groups, repeat(False)) if acls is None else self._groups()
        for group, has_acl in groups:
            plans = {key: plan_of(of, has_acl=has_acl) for key, of in group.elements.items()}
            self._encode(group, {key: plan for key, plan in plans.items() if plan})
        self._set_repeated_alone()
        for denials in _DENIALS.finditer("".join(block.codes)):
            self._codes[denials.end() - 1] = _NO_PERMIT
        if acls is not None:
            self._set_acls(acls)
        codes = "".join(self._codes).replace(DENY, PERMIT)
        if acls is not None:
            codes = codes.replace(PERMIT, LOST)
        self.keys = [codes[begin:end] for begin, end in pairwise(self._begins)]
        self._content_places = sorted(self._contents)

    def _groups(self) -> Iterator[tuple[ElementGroup, bool]]:
        """Yield elements of records with an ACL, and those of records without one, but no ACLs.

        What a record without an ACL becomes may depend on its URL.
        """
        for group in self._block.groups:
            if group.is_of_records:
                codes, numbers = self._block.codes_of_records, self._numbers
                have_acls = [END_ACL in codes[numbers[place]] for place in group.places]
                for has_acl, rows, _ in grouped(have_acls, ()):
                    yield group if len(rows) == len(have_acls) else group.rows(rows), has_acl
            elif not group.is_of_acls:
                yield group, True

    def _set_acls(self, acls: AclPieces) -> None:
        """Set the pieces of whole ACLs; records of those without one go alone."""
        for place, piece in acls:
            if piece is None:
                self._codes[place] = ALONE
                continue
            like = ACL, piece.changed
            letter = self._letters.setdefault(like, chr(_FIRST_LETTER + len(self._letters)))
            self._codes[place], self._pieces[place] = letter, piece.text
            self._written[letter] = ACL

    def _encode(self, group: ElementGroup, plans: Mapping[Hashable, ElementPlan]) -> None:
        if len(plans) < len(group.elements):
            for place, key in zip(group.places, group.keys, strict=True):
                if key not in plans:
                    self._codes[place] = ALONE
        forms: dict[object, dict[Hashable, ElementPlan]] = {}
        for key, plan in plans.items():
            form = tuple(tuple(piece.cells) for piece in plan.pieces)
            forms.setdefault(form, {})[key] = plan
        for of_form in forms.values():
            some = group
            if len(of_form) < len(group.elements):
                some = group.rows([row for row, key in enumerate(group.keys) if key in of_form])
            if some.places:
                self._encode_form(some, of_form)

    def _encode_form(self, group: ElementGroup, plans: Mapping[Hashable, ElementPlan]) -> None:
        """Encode elements whose plans have the same cells; values that these refuse go alone."""
        try:
            self._encode_all(group, plans)
        except InspectedError:
            if len(group.places) == 1:
                self._codes[group.places[0]] = ALONE
                return
            rows = range(len(group.places))
            step = -(-len(rows) // PARTS)
            for begin in range(0, len(rows), step):
                self._encode_form(group.rows(rows[begin : begin + step]), plans)

    def _encode_all(self, group: ElementGroup, plans: Mapping[Hashable, ElementPlan]) -> None:
        usual = next(iter(plans.values()))
        of_pieces = [
            self._encode_pieces(group, {key: plan.pieces[number] for key, plan in plans.items()})
            for number in range(len(usual.pieces))
        ]
        letters = {key: self._letter(group, key, plan) for key, plan in plans.items()}
        if any(letter != group.elements[key].code for key, letter in letters.items()):
            for place, key in zip(group.places, group.keys, strict=True):
                self._codes[place] = letters[key]
        if usual.code == self._elements_once:
            begins = {key: plan.pieces[0].texts[0] for key, plan in plans.items()}
            pairs = zip(group.places, group.keys, strict=True)
            self._begin_texts += ((place, begins[key]) for place, key in pairs)
        for number, pieces in enumerate(of_pieces):
            for place, piece in zip(group.places, pieces, strict=True):
                if number:
                    self._more[self._numbers[place]].append(piece)
                else:
                    self._pieces[place] = piece

    def _set_repeated_alone(self) -> None:
        """Let records go alone of which two elements begin alike where a target has them once."""
        if not self._begin_texts:
            return
        lengths = [end - begin for begin, end in pairwise(self._begins)]
        numbers = [*chain.from_iterable(map(repeat, range(len(lengths)), lengths))]
        begins = Counter([(numbers[place], text) for place, text in self._begin_texts])
        if len(begins) < len(self._begin_texts):
            for (number, _), times in begins.items():
                if times > 1:
                    self._codes[self._begins[number]] = ALONE

    def _letter(self, group: ElementGroup, key: Hashable, plan: ElementPlan) -> str:
        """Return the letter of the elements of a signature."""
        shape, letter, *_ = group.elements[key]
        code = WRITTEN_CODES[letter]
        if group.is_signed or plan.code != code:
            like = shape if group.is_signed else code, plan.code
            code = letter = self._letters.setdefault(like, chr(_FIRST_LETTER + len(self._letters)))
        self._written[code] = plan.code
        if len(plan.pieces) > 1:
            self._more_codes[code] = "".join([piece.code for piece in plan.pieces[1:]])
        return letter

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
        if len(group.places) == len(column):
            return column
        return [column[self._numbers[place]] for place in group.places]

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """The numbers of records by the places of their first elements."""
        return {place: number for number, place in enumerate(self._begins)}

    @cached_property
    def _places(self) -> Sequence[Column]:
        return [*zip(*self._block.source.places(), strict=True)]

    def learn_layout(self, number: int, pieces: Pieces, counted: Counted) -> Layout | None:
        """Return the layout of a record that is encoded in pieces; None if it has another form.

        Its elements are in the order of their letters. The texts of the record itself come before
        its metadata.
        """
        key, letters = self.keys[number], sorted(self.keys[number])
        own, more = letters.index(key[0]), self._more_codes.get(key[0], "")
        codes = [*(self._written.get(letter, LOST) for letter in letters), *more]
        end = len(codes)
        others = [at for at in range(len(key)) if at != own]
        places = defaultdict[str, deque[int]](deque)
        for place in (own, *range(len(key), end), *others):
            places[codes[place]].append(place)
        places.pop(LOST, None)
        order: list[int] = []
        constants: list[Any] = []
        for code, data in pieces:
            if code and not places[code]:
                return None
            order.append(places[code].popleft() if code else end + len(constants))
            if not code:
                constants.append(data if self._is_binary else data.decode())
        if any(places.values()) or len(order) < 2:  # one item is no sequence
            return None
        return Layout(order, constants, counted, itemgetter(*order))

    def in_its_order(self, layout: Layout, number: int) -> Layout:
        """Return the layout of a record with its elements in their own order."""
        key = self.keys[number]
        places = sorted(range(len(key)), key=key.__getitem__)
        order = [places[at] if at < len(key) else at for at in layout.order]
        return layout._replace(order=order, pick=itemgetter(*order))

    def parts(
        self, first: int, size: int, layout_of: LayoutOf, is_sampled: Callable[[Counted], bool]
    ) -> Iterator[Part]:
        """Yield the records from one on, up to `size` that have plans together.

        Those without a plan are alone, neighbours together. A record with a report that is not only
        counted goes alone, too, before it is known whether those after it are only counted.
        """
        layouts, is_alone = self._layouts, False
        for number, key in enumerate(self.keys[first:], first):
            if key not in layouts:
                is_known = ALONE not in key and CLOSED_ALONE not in key
                layouts[key] = layout_of(number) if is_known else None
            layout = layouts[key]
            if number > first and (is_alone is (layout is not None) or number - first == size):
                yield Part(first, number, is_alone=is_alone)
                first = number
            is_alone = layout is None
            if layout is not None and layout.counted.has_reports and not is_sampled(layout.counted):
                if number > first:
                    yield Part(first, number, is_alone=False)
                first = number + 1
                yield Part(number, first, is_alone=True)
        if first < len(self.keys):
            yield Part(first, len(self.keys), is_alone=is_alone)

    def data(self, first: int, last: int) -> list[bytes]:
        """Return the bytes of adjacent records, which all have a plan: of each for binary ones."""
        return self.data_by(first, *[self._layouts[key] for key in self.keys[first:last]])

    def data_by(self, first: int, *layouts: Layout | None) -> list[bytes]:
        """Return the bytes of adjacent records by layouts, which may not be proven yet."""
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

    def counts(self, first: int, last: int) -> Iterator[tuple[Counted, int]]:
        """Yield what is counted of adjacent records, and of how many."""
        for key, count in Counter(self.keys[first:last]).items():
            layout = self._layouts[key]
            if layout is not None:
                yield layout.counted, count

    def url(self, number: int) -> str:
        """Return the URL of a record that has a plan."""
        place = self._begins[number]
        for group in self._block.groups:
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
