"""Receipts of a push: one for each attempt to send a chunk or a part of a chunk."""

import enum

import msgspec


class ChunkState(enum.Enum):
    """The state of a chunk, or of a part of one, in a push; a receipt has that after an attempt."""

    READY = "ready"
    """There was no attempt to send it."""

    SENDING = "sending"
    """Stored before the first byte is sent; without a later state, the response is not known."""

    ACCEPTED = "accepted"
    PARTLY_ACCEPTED = "partly-accepted"
    """All records are accepted or refused, and there are both; a part of a chunk is ACCEPTED."""

    REFUSED = "refused"
    """Refused for good: it is not sent again."""

    SPLIT = "split"
    """Refused as a whole, and sent in two halves."""

    FAILED = "failed"
    """Not settled; another push sends it again."""

    @property
    def is_settled(self) -> bool:
        return self in (ChunkState.ACCEPTED, ChunkState.PARTLY_ACCEPTED, ChunkState.REFUSED)


class RefusalOf(enum.Enum):
    """The part of a chunk that was refused."""

    RECORD = "record"
    """The record, in a response that has a result for each."""

    REQUEST = "request"
    """A whole request, which had this record only."""


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refused record: its index in the chunk, from 0, and why.

    `words` is the text of the appliance for a RECORD, and our message for a REQUEST.
    """

    record: int
    words: str
    of: RefusalOf = RefusalOf.RECORD


NARROW = "narrow who sees documents"
"""The step before the chunks that changes documents of the target; the others prepare the run."""


class StepReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step before or after the chunks of a run: a line when it begins, and one when it is done.

    `reply` is the beginning of the response, `at` the time in RFC 3339.
    """

    step: str
    is_done: bool = False
    reply: str = ""
    at: str = ""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to send the records `first` to `first + count` of a chunk; `count=0` means all.

    `chunk` is the ordinal of the chunk and `sha256` the digest of its file. `feedtype` is the
    feedtype of the request, `bytes` its size, `status` the HTTP status. `reply` is the beginning of
    the response, `at` its time in RFC 3339. `refused` are refused records of an accepted chunk.
    """

    chunk: int
    sha256: str
    state: ChunkState
    first: int = 0
    count: int = 0
    attempt: int = 1
    feedtype: str | None = None
    bytes: int = 0
    status: int | None = None
    reply: str = ""
    seconds: float = 0.0
    at: str = ""
    refused: tuple[Refusal, ...] = ()
