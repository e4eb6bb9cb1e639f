"""Receipts of a push: one for each attempt to send a chunk or a part of a chunk."""

import enum

import msgspec


class AttemptState(enum.Enum):
    """The state of an attempt.

    SENDING is stored before the first byte is sent; without a later state, the response is not
    known. A FAILED attempt may be repeated, a REFUSED one is not.
    """

    SENDING = "sending"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    SPLIT = "split"
    FAILED = "failed"


class Refusal(msgspec.Struct, frozen=True):
    """A refused record: its index in the chunk, from 0, and the text of the appliance."""

    record: int
    words: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to send the records `first` to `first + count` of a chunk; `count=0` means all.

    `chunk` is the ordinal of the chunk and `sha256` the digest of its file. `feedtype` is the
    feedtype of the request, `bytes` its size, `status` the HTTP status. `reply` is the beginning of
    the response, `at` its time in RFC 3339. `refused` are refused records of an accepted chunk. A
    SPLIT chunk was refused as a whole and is sent in two halves.
    """

    chunk: int
    sha256: str
    state: AttemptState
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
