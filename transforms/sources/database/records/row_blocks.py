"""Make blocks of the rows of a page: records that vary, and the elements in which they are alike.

The elements of a row are its record with the fields that are one text, its ACL, its principals, its
metadata and its content. The values of a page come from the getters that single rows have. The
record around an element, of which its plan is cut out, comes from the maker of single records.
"""

import re
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, repeat
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from feedferry.schemas.acl import Access, Principal, Scope
from feedferry.schemas.record import Content, Crawl, Meta, Provenance, Record
from feedferry.transforms.formats.fast_path.columns.cells import escaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column, ColumnKind, Values
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.columns.shape_columns import grouped
from feedferry.transforms.formats.fast_path.elements.element_block import (
    ElementBlock,
    ElementShape,
    element_shape,
)
from feedferry.transforms.formats.fast_path.elements.element_codes import (
    ACL,
    ALONE,
    CONTENT,
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
)
from feedferry.transforms.formats.fast_path.elements.element_shapes import (
    BlockElements,
    ElementShapes,
)
from feedferry.transforms.formats.fast_path.learning.comparisons import Comparisons
from feedferry.transforms.formats.holding.acl_metadata import is_acl_name
from feedferry.transforms.sources.database.mapping.columns import Row
from feedferry.transforms.sources.database.records.content import TypedContents
from feedferry.transforms.sources.database.records.record_maker import RecordMaker
from feedferry.transforms.sources.database.records.row_acl import NamedPrincipals

_MOST_ALONE = 0.75
"""Rows of which a larger share goes alone are no block."""

_ALONE = re.compile(ALONE)
_PARENT = "inherit_from"
_USUAL_TYPE = ("text/plain", "UTF-8")
_USUAL_PRINCIPAL = Principal(name="reader", scope=Scope.USER, access=Access.PERMIT)


class _Rows(NamedTuple):
    """The rows of a block as they came."""

    rows: Sequence[Row]
    context: Hashable
    provenance: Provenance
    comparisons: Comparisons

    def element(self, number: int) -> Row:
        return self.rows[number]

    def places(self) -> Iterable[tuple[int, int]]:
        return repeat((0, 0), len(self.rows))


class RowBlocks:
    """Makes the blocks of the rows of one span; learns the signatures of elements."""

    def __init__(self, maker: RecordMaker) -> None:
        self._maker = maker
        self._shapes = ElementShapes(self._learn)
        self._comparisons = Comparisons()

    def block(
        self, rows: Sequence[Row], numbers: Sequence[int], values: Sequence[Column]
    ) -> ElementBlock | None:
        """Return a block of rows, of which some have values; None if most of them go alone."""
        maker = self._maker
        urls, contents, others = values[0], cast(TypedContents, values[1]), values[2:]
        fields = dict(zip(maker.fields, others, strict=False))
        acls, metas = fields.pop("acl", None), others[len(maker.fields) :]
        counts = [_counts(column) for column in metas]
        lengths = [len(named) for named, _ in acls] if acls else repeat(None)
        totals = map(sum, zip(*counts, strict=True)) if metas else repeat(0)
        texts = [ALONE] * len(rows)
        for number, length, total in zip(numbers, lengths, totals, strict=False):
            texts[number] = _codes_of(length, total, has_content=maker.has_content)
        ends = [end - 1 for end in accumulate(map(len, texts))]
        places = [ends[number] + 1 - len(texts[number]) for number in numbers]
        elements = _RowElements([*"".join(texts)], self._shapes)
        elements.add_records(urls, contents, fields, places)
        places = [place + 1 for place in places]
        if acls:
            elements.add_acls(acls, places)
            places = [place + 2 + 2 * len(of[0]) for place, of in zip(places, acls, strict=True)]
        places = [place + 1 for place in places]
        for (name, _), column, of_rows in zip(maker.metadata.entries, metas, counts, strict=True):
            elements.add_metadata(name, column, of_rows, places)
            places = [*map(int.__add__, places, of_rows)]
        content_bytes = 0
        if maker.has_content:
            content_places = [ends[number] - 2 for number in numbers]
            content_bytes = elements.add_contents(contents, content_places)
        alone = {bisect_left(ends, at.start()) for at in _ALONE.finditer("".join(elements.codes))}
        if len(alone) > _MOST_ALONE * len(rows):
            return None
        self._shapes.add(len(rows) - len(alone))
        source = _Rows(rows, self, maker.provenance, self._comparisons)
        block = ElementBlock(elements.codes, elements.groups, ends, source)
        block.read, block.reads_single = maker.make, True
        block.content_bytes = content_bytes
        return block

    def _learn(self, kind: tuple[str, tuple[str, ...]], key: Any) -> ElementShape | None:
        """Learn an element in a record that the maker makes around it."""
        (code, of_kind), maker = kind, self._maker
        own = _own_kinds(code, of_kind)
        type_ = key if code in (RECORD, CONTENT) else _USUAL_TYPE
        of_content = (ColumnKind.FILE,) if maker.has_content else ()

        def make(values: Values) -> Record:
            url, *cells = values
            document = Content(cells.pop()) if of_content else None
            fields: dict[str, Any] = {}
            metas: tuple[Meta, ...] = ()
            if code == RECORD:
                fields = {name: None for name in maker.fields if name != "acl"}
                fields |= zip(of_kind, cells, strict=True)
                if fields.get("crawl"):
                    fields["crawl"] = Crawl(display_url=fields["crawl"])
            elif code == META:
                metas = (Meta(key, *cells),)
            elif code == PERMIT and maker.acl is not None:
                fields["acl"] = maker.acl.acl([(key, *cells)], None)
            elif code == ACL and maker.acl is not None:
                acl = maker.acl.acl([], *(cells or [None]))
                fields["acl"] = replace(acl, principals=(_USUAL_PRINCIPAL,))
            return maker.record(url, (document, *type_), metas, fields)

        begin, end = code != RECORD, 1 + len(own) + (code == CONTENT)
        shape = Shape(make, [ColumnKind.URL, *own, *of_content])
        if not shape.has_model or (code == META and is_acl_name(key)):  # it gets an ACL of that
            return None
        return element_shape(shape, self._letter(code, of_kind, key), range(begin, end))

    def _letter(self, code: str, of_kind: tuple[str, ...], key: Any) -> str:
        """Return the code of elements of one signature."""
        if code == RECORD and self._maker.has_content:
            return RECORD_WITH_CONTENT
        if code == ACL and of_kind:
            return PARENTED_ACL
        if code == PERMIT and self._maker.acl is not None:
            return DENY if self._maker.acl.entries[key].access is Access.DENY else PERMIT
        return code


class _RowElements(BlockElements):
    """The elements of the rows of a block, and their codes."""

    def add_records(
        self,
        urls: Column,
        contents: TypedContents,
        fields: Mapping[str, Column],
        places: Sequence[int],
    ) -> None:
        """Add records by which of their fields are NULL."""
        keys = [*zip(contents.mimetypes, contents.charsets, strict=True)]
        nulls = [[value is None for value in column] for column in fields.values()]
        patterns = [*zip(*nulls, strict=True)] if fields else [()] * len(urls)
        for pattern, _, columns in grouped(patterns, [keys, places, urls, *fields.values()]):
            of_keys, of_places, of_urls, *others = columns
            stated = [
                (name, column)
                for name, is_null, column in zip(fields, pattern, others, strict=True)
                if not is_null
            ]
            own = [escaped(of_urls), *(_field_column(*of_field) for of_field in stated)]
            self.add((RECORD, tuple(name for name, _ in stated)), of_keys, own, of_places)

    def add_acls(
        self, acls: Sequence[tuple[NamedPrincipals, str | None]], places: Sequence[int]
    ) -> None:
        """Add ACLs, with their parents as a column, and their principals."""
        parents = [parent for _, parent in acls]
        have_parents = [parent is not None for parent in parents]
        for has_parent, _, (of_places, of_parents) in grouped(have_parents, [places, parents]):
            columns = [escaped(of_parents)] if has_parent else []
            self.add(
                (ACL, (_PARENT,) if has_parent else ()), [()] * len(of_places), columns, of_places
            )
        pairs = [*chain.from_iterable(named for named, _ in acls)]
        if pairs:
            keys, names = zip(*pairs, strict=True)
            firsts = zip(places, acls, strict=True)
            of_names = (range(at + 1, at + 1 + 2 * len(of[0]), 2) for at, of in firsts)
            self.add((PERMIT, ()), keys, [escaped(names)], [*chain.from_iterable(of_names)])

    def add_metadata(
        self, name: str, column: Column, counts: Sequence[int], places: Sequence[int]
    ) -> None:
        """Add the metadata of a name, which has any number of values."""
        texts, of_texts = column, places
        if {*map(type, column)} != {str}:
            rows = ((value,) if isinstance(value, str) else value for value in column)
            ranges = map(range, places, map(int.__add__, places, counts))
            stated = zip(chain.from_iterable(rows), chain.from_iterable(ranges), strict=True)
            pairs = [(text, place) for text, place in stated if isinstance(text, str)]
            texts, of_texts = zip(*pairs, strict=True) if pairs else ((), ())
        self.add((META, ()), [name] * len(texts), [escaped(texts)], of_texts)

    def add_contents(self, contents: TypedContents, places: Sequence[int]) -> int:
        """Add contents by their types; return how many bytes they have."""
        documents, *types = contents
        data = [
            each.encode("utf-8", "surrogatepass") if isinstance(each, str) else each.data
            for each in documents
            if each is not None  # as all are
        ]
        self.add((CONTENT, ()), [*zip(*types, strict=True)], [data], places)
        return sum(map(len, data))


def _own_kinds(code: str, of_kind: tuple[str, ...]) -> Sequence[ColumnKind]:
    """Return the kinds of the columns of an element, besides the URL and the content."""
    if code == RECORD:
        return [ColumnKind.TIME if name == "modified" else ColumnKind.TEXT for name in of_kind]
    if code == ACL:
        return [ColumnKind.PARENT] if of_kind else []
    return {META: [ColumnKind.TEXT], PERMIT: [ColumnKind.NAME]}.get(code, [])


@lru_cache(maxsize=4096)
def _codes_of(principals: int | None, metas: int, *, has_content: bool) -> str:
    """Return the codes of a row whose elements are not known yet; None is no ACL."""
    acl = "" if principals is None else f"{ALONE}{principals * (ALONE + END_NAME)}{END_ACL}"
    metadata = f"{METADATA}{metas * ALONE}{END_METADATA}" if metas else ""
    content = f"{ALONE}{END_CONTENT}" if has_content else ""
    return f"{ALONE}{acl}{metadata}{content}{END_RECORD}"


def _counts(values: Column) -> Sequence[int]:
    """Return the numbers of values of one name of metadata."""
    if {*map(type, values)} == {str}:
        return [1] * len(values)
    return [1 if isinstance(value, str) else len(value) for value in values]


def _field_column(name: str, values: Column) -> Column:
    if name == "modified":
        return values
    return escaped([crawl.display_url for crawl in values] if name == "crawl" else values)
