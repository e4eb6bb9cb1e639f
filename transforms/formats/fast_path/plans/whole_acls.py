"""ACLs of blocks for a writer that makes one piece of a whole ACL.

A decision depends on all principals of an ACL, and on the ACLs above it, so that its elements have
no plans of their own. Documents of one folder mostly have the same ACL: it is converted once.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from feedferry.schemas.acl import Acl
from feedferry.schemas.record import Record
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.fast_path.elements.element_codes import (
    END_ACL,
    places_of,
)
from feedferry.transforms.formats.fast_path.plans.element_plan import ElementEncoder

_MAX_ACLS = 32_768
_MAX_CHARS = 8 << 20
"""The most ACLs that are kept, and the most characters of their pieces."""


@runtime_checkable
class WholeAclEncoder(ElementEncoder, Protocol):
    """An encoder that writes an ACL in one piece, whose code is that of an ACL."""

    def acl_piece(self, record: Record) -> bytes:
        """Return the piece of the ACL of a record."""
        ...


class AclPiece(NamedTuple):
    """The piece of an ACL, and how often each step changes a record because of the ACL."""

    text: str
    changed: tuple[tuple[str, int], ...]


ConvertAcl = Callable[[Acl], AclPiece | None]
"""Returns the piece of an ACL; None if its records go alone."""


class WholeAcls:
    """The pieces of ACLs for one writer and one feed."""

    def __init__(self, convert: ConvertAcl) -> None:
        self._convert = convert
        self._pieces: dict[Sequence[Hashable], AclPiece | None] = {}
        self._chars = 0

    def pieces(self, block: ElementBlock) -> Iterator[tuple[int, AclPiece | None]]:
        """Yield the piece of each ACL of a block, with the place where the ACL begins.

        The piece is None for an ACL whose record goes alone.
        """
        signatures = _signatures(block)
        known, begins = self._pieces, block.begins
        for number, codes in enumerate(block.codes_of_records):
            places = places_of(codes)
            if places is not None and places.acl >= 0:
                begin = begins[number]
                key = tuple(signatures[begin + places.acl : begin + places.principals_end])
                yield (
                    begin + places.acl,
                    known[key] if key in known else self._add(key, block.acl(number)),
                )
            elif places is None and END_ACL in codes:
                yield begins[number], None

    def _add(self, key: Sequence[Hashable], acl: Acl) -> AclPiece | None:
        piece = self._convert(acl)
        self._chars += 0 if piece is None else len(piece.text)
        if len(self._pieces) >= _MAX_ACLS or self._chars > _MAX_CHARS:
            self._pieces.clear()
            self._chars = 0
        self._pieces[key] = piece
        return piece


def _signatures(block: ElementBlock) -> list[Hashable]:
    """Return the shape and the values of each tag of an ACL and each principal, by its place."""
    signatures: list[Hashable] = [None] * len(block.codes)
    for group in block.groups_of_acls:
        shapes = [group.elements[key].shape for key in group.keys]
        rows = zip(shapes, *group.columns, strict=True)
        for place, row in zip(group.places, rows, strict=True):
            signatures[place] = row
    return signatures
