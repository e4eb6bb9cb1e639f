"""Notices and losses: reports about records that are not rejected."""

import msgspec

from feedferry.schemas.printable import printable


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A repaired or unusual part of a stream, which costs no record.

    Notices are counted by `code`; there is a small number of codes, so that a stream cannot create
    many. `offset` is in bytes from the start of the source; a notice about all of a run has no
    source. `detail` reads *finding; result*.
    """

    code: str
    detail: str
    source: str = ""
    span: int = 0
    offset: int = 0

    @property
    def message(self) -> str:
        """The notice as one line: *where: finding; result*."""
        where = f"{self.source} (byte {self.offset}): " if self.source else ""
        return printable(f"{where}{self.detail}")


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a record that is left out or changed, because the target cannot hold it.

    `field` is the name that `--accept-loss` and `--fail-on-loss` take.
    """

    field: str
    url: str
    detail: str


REFUSED = frozenset({"acl", "content"})
"""Fields whose loss stops a run unless it is accepted: documents would become public, or empty."""
