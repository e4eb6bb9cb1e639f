"""Blocks of adjacent records, of which only elements are alike.

Each element of a record (its tag, its ACL, a principal, a pair of metadata, a content) has a
*signature*: its markup, and those of its values that come from small sets, such as the names of
metadata. All other values are columns, over all records of a block. A string has one letter, its
code, for each element, so that one expression decides which records go by their elements. All
others go alone.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from feedferry.schemas.acl import Acl
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Provenance, Record
from feedferry.transforms.formats.fast_path.columns.cells import values_of
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column, ColumnKind
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.elements.element_codes import (
    ACLS,
    CONTENT,
    META,
    PRINCIPALS,
    RECORDS,
    SIGNED,
    ElementPlaces,
    places_of,
)
from feedferry.transforms.formats.fast_path.elements.element_part import MakePart, part_maker
from feedferry.transforms.formats.fast_path.learning.comparisons import Comparisons

REFUTED = "records that are alike"
"""Begins the notice of a defect, because of which records are converted one by one."""


class ElementShape(NamedTuple):
    """What elements of one signature share: a record around one of them, and its own columns."""

    shape: Shape
    code: str
    first_column: int
    columns: int
    make_part: MakePart | None
    """Makes the part of a record of an element; None if its records are parsed all the same."""


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

    def parts(self) -> list[Any]:
        """Return the part of its record that each element is."""
        makes = {key: element.make_part or _no_part for key, element in self.elements.items()}
        pairs = zip(self.kinds, self.columns, strict=True)
        columns = [values_of(kind, column) for kind, column in pairs]
        if not columns:
            return [makes[key]() for key in self.keys]
        if len(makes) == 1:
            [make] = makes.values()
            return [*map(make, *columns)]
        rows = zip(*columns, strict=True)
        return [makes[key](*row) for key, row in zip(self.keys, rows, strict=True)]

    @property
    def kinds(self) -> Sequence[ColumnKind]:
        usual = next(iter(self.elements.values()))
        return usual.shape.kinds[usual.first_column :][: usual.columns]

    @property
    def is_signed(self) -> bool:
        """Whether the elements are records, ACLs or contents, which are once in a record."""
        return next(iter(self.elements.values())).code in SIGNED

    @property
    def is_of_acls(self) -> bool:
        return next(iter(self.elements.values())).code in (*ACLS, *PRINCIPALS)

    def is_of_outlines(self, is_stated: Callable[[str], bool]) -> bool:
        """Whether the elements are no contents, nor metadata without a name that is stated."""
        elements = self.elements.values()
        code = next(iter(elements)).code
        if code != META:
            return code != CONTENT
        return any(is_stated(meta.name) for of in elements for meta in of.shape.model.metadata)

    @property
    def is_of_records(self) -> bool:
        return next(iter(self.elements.values())).code in RECORDS


def _no_part(*_values: object) -> None:
    """Return nothing, in place of the part of a record that must be parsed."""


_PARTS: Mapping[str, tuple[Callable[[Any], Any], Collection[str]]] = {
    **dict.fromkeys(RECORDS, (lambda record: record, ("acl", "content", "metadata", "provenance"))),
    **dict.fromkeys(ACLS, (attrgetter("acl"), ("principals",))),
    **dict.fromkeys(PRINCIPALS, (lambda record: record.acl.principals[0], ())),
    META: (lambda record: record.metadata[0], ()),
    CONTENT: (attrgetter("content"), ()),
}
"""By the code of an element, its part of a record, and the fields that other elements make."""


def element_shape(shape: Shape, code: str, own: range) -> ElementShape | None:
    """Return what elements share; None if their part of a record is not certain."""
    part, left_out = _PARTS[code]
    make = part_maker(shape, own, part, left_out=left_out)
    is_known = make is not None or code in RECORDS
    return ElementShape(shape, code, own.start, len(own), make) if is_known else None


class RecordSource(Protocol):
    """Where the records of a block are found as they came; they are of one context and feed."""

    @property
    def context(self) -> Hashable: ...

    @property
    def provenance(self) -> Provenance: ...

    @property
    def comparisons(self) -> Comparisons: ...

    def element(self, number: int) -> Any:
        """Return a record for a reader to read it alone."""
        ...

    def places(self) -> Iterable[tuple[int, int]]:
        """Return the line and the offset of each record."""
        ...


class ElementBlock:
    """The elements of adjacent records; `ends` are the places of those that end a record.

    Records of one context with the same codes are converted by the same rules. A reader sets
    `read`, which parses a record as it came.
    """

    read: Callable[[Any], Any]
    reads_single = False
    """Whether it takes less time to read a single record than to build it of its elements."""

    content_bytes = 0
    """The size of the contents of all records, where a reader counts them."""

    def __init__(
        self,
        codes: Sequence[str],
        groups: Sequence[ElementGroup],
        ends: Sequence[int],
        source: RecordSource,
    ) -> None:
        self.codes, self.groups, self.ends, self.source = codes, groups, ends, source
        self.begins = [0, *[end + 1 for end in ends]]
        self._parts: list[Any] = [None] * len(codes)

    def __iter__(self) -> Iterator[Any]:
        return self.records(0, len(self.ends))

    @cached_property
    def codes_of_records(self) -> list[str]:
        codes = "".join(self.codes)
        return [codes[begin:end] for begin, end in pairwise(self.begins)]

    @cached_property
    def groups_of_acls(self) -> list[ElementGroup]:
        """The tags of ACLs, and their principals."""
        return [group for group in self.groups if group.is_of_acls]

    def acl(self, number: int) -> Acl:
        """Return the ACL of a record which has one, built of its elements."""
        places = places_of(self.codes_of_records[number])
        if places is None or places.acl < 0:
            raise AssertionError("a record without an ACL")
        begin = self.begins[number]
        if self._parts[begin + places.acl] is None:
            self._make_parts(0, len(self.codes), self.groups_of_acls)
        return self._acl(begin, places)

    def _acl(self, begin: int, places: ElementPlaces) -> Acl:
        parts, at = self._parts, begin + places.acl
        principals = parts[at + 1 : begin + places.principals_end : 2]
        acl: Acl = parts[at](principals=tuple(principals))
        return acl

    def parsed(self, number: int) -> Any:
        """Return what the parser makes of a record."""
        return self.read(self.source.element(number))

    def records(
        self, first: int, last: int, *, outlined: Callable[[str], bool] | None = None
    ) -> Iterator[Any]:
        """Yield adjacent records: built of their elements, or what the parser makes of them.

        With `outlined`, those that are built have no content, and only metadata that are next to
        some whose name it takes.
        """
        groups = self.groups
        if outlined is not None:
            groups = [group for group in groups if group.is_of_outlines(outlined)]
        comparisons, are_made = self.source.comparisons, False
        if self.reads_single and last - first == 1:
            yield self.parsed(first)
            return
        for number in range(first, last):
            codes = self.codes_of_records[number]
            places = places_of(codes)
            if places is not None and not are_made:
                self._make_parts(self.begins[first], self.begins[last], groups)
                are_made = True
            if places is None or self._parts[self.begins[number]] is None:
                yield self.parsed(number)
            elif comparisons.is_due(order := places.order):
                parsed = self.parsed(number)
                if len(groups) < len(self.groups):
                    self._make_parts(self.begins[number], self.begins[number + 1], self.groups)
                is_equal = self._built(number, places) == parsed
                if comparisons.add(order, is_equal=is_equal):
                    yield self._refuted()
                yield parsed
            elif comparisons.are_equal(order):
                yield self._built(number, places)
            else:
                yield self.parsed(number)

    def _make_parts(self, begin: int, end: int, groups: Sequence[ElementGroup]) -> None:
        """Make the parts of records that the elements of groups in a range are."""
        for group in groups:
            rows = range(bisect_left(group.places, begin), bisect_left(group.places, end))
            if not rows:
                continue
            some = group if len(rows) == len(group.places) else group.rows(rows)
            for place, part in zip(some.places, some.parts(), strict=True):
                self._parts[place] = part

    def _refuted(self) -> Notice:
        detail = f"{REFUTED}: built otherwise than parsed, a defect of feedferry; parsed one by one"
        return Notice(code="plan-refuted", detail=detail, source=self.source.provenance.source)

    @cached_property
    def _provenances(self) -> list[Provenance]:
        of = self.source.provenance
        make = partial(
            Provenance,
            source=of.source,
            span=of.span,
            datasource=of.datasource,
            feedtype=of.feedtype,
        )
        return [make(line=line, offset=offset) for line, offset in self.source.places()]

    def _built(self, number: int, places: ElementPlaces) -> Record:
        parts, begin = self._parts, self.begins[number]
        fields: dict[str, object] = {}
        if places.acl >= 0:
            fields["acl"] = self._acl(begin, places)
        if places.metadata >= 0:
            metadata = parts[begin + places.metadata + 1 : begin + places.metadata_end]
            fields["metadata"] = tuple(filter(None, metadata))
        if places.content >= 0:
            fields["content"] = parts[begin + places.content]
        record: Record = parts[begin](provenance=self._provenances[number], **fields)
        return record
