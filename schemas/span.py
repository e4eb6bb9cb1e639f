"""A span: a share of the input that one worker reads from beginning to end."""

import msgspec

from schemas.feed import Feed

_USUAL = 100_000


class FileSignature(msgspec.Struct, frozen=True, kw_only=True):
    """Properties that distinguish versions of a file; unknown ones are None or empty.

    `modified_ns` is when it was changed last, `version` what a server calls the version. `sha256`
    is known only of what was copied for the run.
    """

    size: int | None = None
    modified_ns: int | None = None
    version: str = ""
    sha256: str = ""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A file, or a range of bytes of a big one that begins and ends between two records.

    `offset` and `length` count decompressed bytes; a `length` of `None` means to the end.
    `ordinal` counts the spans of one source from 0, `line` the lines from 1. `context` is what
    the reader of the format must know of the bytes before the span; only its `cut` makes one.
    `format` is the name of that format, `source_ordinal` the place of the source in the input.
    `source` is its name for its user, `path` where it is opened, if that is not the same. A span
    of several small files has them as `members`, and no bytes of its own. `feed` is what the feed
    was posted as, which goes before what it says of itself; so does an `encoding`, for XML.
    `signature` is that of the file when the run began, or when the file was cut.
    """

    source: str = ""
    path: str = ""
    source_ordinal: int = 0
    format: str = ""
    ordinal: int = 0
    offset: int = 0
    length: int | None = None
    line: int = 1
    context: bytes = b""
    members: tuple["Span", ...] = ()
    feed: Feed | None = None
    encoding: str = ""
    signature: FileSignature | None = None

    @property
    def name(self) -> str:
        """What files made of the span are called: sorted, they stand in input order."""
        return f"{_sorted(self.source_ordinal)}-{_sorted(self.ordinal)}"


def _sorted(ordinal: int) -> str:
    """A number that sorts as text; what is more than five digits comes behind all that is not."""
    return f"{ordinal:05d}" if ordinal < _USUAL else f"z{ordinal:012d}"
