"""What a reader mended, or went on without, and nobody should have to find out by accident."""

import msgspec


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a stream that is not as it should be, and cost no record.

    `code` is what it is counted by: one of few, so that a stream cannot make many. `offset` counts
    bytes from where the source begins; `detail` reads *what was found; what was made of it*.
    """

    code: str
    detail: str
    source: str = ""
    span: int = 0
    offset: int = 0

    @property
    def message(self) -> str:
        """The notice as one line: *where: what was found; what was made of it*."""
        return f"{self.source} (byte {self.offset}): {self.detail}"
