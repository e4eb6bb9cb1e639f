"""Repairs and oddities of the input that cost no record."""

import msgspec


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A repaired or unusual part of a stream.

    Notices are counted by `code`; there is a small number of codes, so that a stream cannot create
    many. `offset` is in bytes from the start of the source. `detail` reads *finding; result*.
    """

    code: str
    detail: str
    source: str = ""
    span: int = 0
    offset: int = 0

    @property
    def message(self) -> str:
        """The notice as one line: *where: finding; result*."""
        return f"{self.source} (byte {self.offset}): {self.detail}"
