"""What a push returned: one receipt for each attempt to send a chunk, or a part of one."""

import enum

import msgspec


class AttemptState(enum.Enum):
    """What is known of an attempt.

    SENDING is written before the first byte goes out: a push that ends behind it has not seen the
    answer. FAILED may be tried again; REFUSED will not be, as it stands.
    """

    SENDING = "sending"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    SPLIT = "split"
    FAILED = "failed"


class Refusal(msgspec.Struct, frozen=True):
    """A record that the appliance did not take: its place in its chunk, from 0, and the words."""

    record: int
    words: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to send records `first` to `first + count` of a chunk; a `count` of 0: all.

    `chunk` is the ordinal of the chunk, `sha256` that of its file. `feedtype` is how it was sent,
    `bytes` what went over the wire, `status` that of HTTP. `reply` is the beginning of what the
    appliance said, `at` when, in RFC 3339. `refused` are records of an accepted chunk that the
    appliance did not take. A SPLIT chunk was refused as a whole, and is sent in two halves.
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
