"""ACLs of blocks for a writer that makes one piece of a whole ACL.

A decision depends on all principals of an ACL, and on the ACLs above it, so that its elements have
no plans of their own. Documents of one folder mostly have the same ACL: it is converted once.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.record import Action, Meta, Record
from feedferry.schemas.reject import record_error
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.fast_path.elements.element_codes import END_ACL, places_of
from feedferry.transforms.formats.fast_path.plans.batch_plan import Counted
from feedferry.transforms.formats.fast_path.plans.element_plan import ElementEncoder

_MAX_ACLS = 4096
_MAX_CHARS = 2 << 20
"""The most ACLs that are kept, and the most characters of their pieces."""

_SAMPLE = Record(
    url="http://example.com/", action=Action.ADD, body="text", metadata=(Meta("name", "value"),)
)
"""A document, of which only the ACL counts."""

_SAMPLE_ACL = Acl(principals=(Principal(name="reader", scope=Scope.USER, access=Access.PERMIT),))
"""An ACL, of which only counts that a record has one."""


@runtime_checkable
class WholeAclEncoder(ElementEncoder, Protocol):
    """An encoder that writes an ACL in one piece, whose code is that of an ACL."""

    def acl_piece(self, record: Record) -> bytes:
        """Return the piece of the ACL of a record."""
        ...


class AclPiece(NamedTuple):
    """The piece of an ACL, and the steps that change a record because of the ACL."""

    text: str
    changed: tuple[tuple[str, int], ...]


Outcome = Callable[[Record], tuple[Record, Counted] | None]
"""Converts a record; returns None unless the only results are a record and reports."""


def with_acl(record: Record) -> Record:
    """Return a model with an ACL without holes."""
    return replace(record, acl=_SAMPLE_ACL)


class WholeAcls:
    """The pieces of ACLs for one encoder, and for records that are converted alike.

    `context` states the rest of what a piece depends on; pieces of other contexts are forgotten.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._context: Hashable = None
        self._pieces: dict[Sequence[Hashable], AclPiece | None] = {}
        self._chars = 0

    def pieces(
        self, block: ElementBlock, encoder: WholeAclEncoder, context: Hashable
    ) -> Iterator[tuple[int, AclPiece | None]]:
        """Yield the piece of each ACL of a block, with the place where the ACL begins.

        The piece is None for an ACL whose record goes alone.
        """
        if self._context != (encoder, context):
            self._context = encoder, context
            self._forget()
        signatures, begins = _signatures(block), block.begins
        for number, codes in enumerate(block.codes_of_records):
            places, begin = places_of(codes), begins[number]
            if places is not None and places.acl >= 0:
                at = begin + places.acl
                key = tuple(signatures[at : begin + places.principals_end])
                if key not in self._pieces:
                    self._add(key, self._convert(block, number, encoder))
                yield at, self._pieces[key]
            elif places is None and END_ACL in codes:
                yield begin, None

    def _convert(
        self, block: ElementBlock, number: int, encoder: WholeAclEncoder
    ) -> AclPiece | None:
        """Return the piece of the ACL of a record, converted in a sample."""
        sample = replace(_SAMPLE, acl=block.acl(number), provenance=block.source.provenance)
        try:
            outcome = self._outcome(sample)
            if outcome is None or outcome[1].has_reports:
                return None
            return AclPiece(encoder.acl_piece(outcome[0]).decode(), outcome[1].changed)
        except Exception as exc:  # the records find out why, one by one
            record_error(exc)
            return None

    def _add(self, key: Sequence[Hashable], piece: AclPiece | None) -> None:
        self._chars += 0 if piece is None else len(piece.text)
        if len(self._pieces) >= _MAX_ACLS or self._chars > _MAX_CHARS:
            self._forget()
        self._pieces[key] = piece

    def _forget(self) -> None:
        self._pieces.clear()
        self._chars = 0


def _signatures(block: ElementBlock) -> list[Hashable]:
    """Return the shape and the values of each tag of an ACL and each principal, by its place."""
    signatures: list[Hashable] = [None] * len(block.codes)
    for group in block.groups_of_acls:
        shapes = [group.elements[key].shape for key in group.keys]
        rows = zip(shapes, *group.columns, strict=True)
        for place, row in zip(group.places, rows, strict=True):
            signatures[place] = row
    return signatures
