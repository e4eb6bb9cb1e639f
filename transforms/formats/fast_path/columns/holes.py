"""Placeholders for all values of a column, which refuse to be looked into.

A model record has a hole in place of each value that differs between the records of a batch. It
passes the rules and the writer that every record passes. A rule whose result depends on the value
of a hole raises `InspectedError`; the records then pass one by one. A hole answers what is true of
all *neutral* values, and nothing else; `neutrality` checks that a column has no others.

Functions in C read a hole without asking it. A plan must therefore predict records with real
values, too; see `batch_plan`.
"""

from typing import NoReturn, SupportsIndex

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
"""The replacements of a writer of XML that leave a hole as it is: columns are escaped already."""


class InspectedError(Exception):
    """A rule depends on a value that differs between the records of a batch."""


class TextHole(str):  # noqa: PLW1641  # its hash is among the refused
    """A text that is not empty, has no control characters, and no white space at its ends."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return True

    def __format__(self, spec: str) -> str:
        return str.__str__(self) if not spec else self._refuse()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, str) or not other:
            return False
        return self._refuse()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __contains__(self, part: object) -> bool:
        if isinstance(part, str) and len(part) == 1 and part < " ":
            return False
        return self._refuse()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return str.encode(self, encoding, errors)

    def strip(self, chars: str | None = None, /) -> str:
        return self if chars is None or chars.isspace() else self._refuse()

    def isspace(self) -> bool:
        return False

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        return self if _ESCAPES.get(old) == new else self._refuse()

    def _refuse(self, *_args: object, **_options: object) -> NoReturn:
        raise InspectedError


def inspected(text: str) -> str:
    """Return a text that is no hole; raise InspectedError for a hole, which C code would read."""
    if isinstance(text, TextHole):
        raise InspectedError
    return text


_REFUSED = """
    __hash__ __iter__ __len__ __getitem__ __add__ __mul__ __mod__ __lt__ __le__ __gt__ __ge__
    capitalize casefold center count endswith expandtabs find format format_map index isalnum
    isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable istitle isupper
    join ljust lower lstrip partition removeprefix removesuffix rfind rindex rjust rpartition
    rsplit rstrip split splitlines startswith swapcase title translate upper zfill
"""
for _name in _REFUSED.split():
    setattr(TextHole, _name, TextHole._refuse)


class UrlHole(TextHole):
    """A URL with a scheme and a host."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        return part == "://" or TextHole.__contains__(self, part)


class ParentHole(UrlHole):
    """A URL without a query and a fragment."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        return part not in ("?", "#") and UrlHole.__contains__(self, part)


class DocidHole(TextHole):
    """A document id that is no URL."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        return part != "://" and TextHole.__contains__(self, part)


class ContentHole(bytes):  # noqa: PLW1641  # its hash is among the refused
    """A content: text that is not empty and not too large, and that XML can hold."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, bytes) or not other:
            return False
        return self._refuse()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __contains__(self, part: object) -> bool:
        return self._refuse() if part not in (b"\xef\xbf\xbe", b"\xef\xbf\xbf") else False

    def isascii(self) -> bool:  # the way of all texts is also right for ASCII
        return False

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        is_utf8 = encoding.lower() in ("utf-8", "utf8")
        return TextHole(bytes.decode(self)) if is_utf8 else self._refuse()

    def translate(self, table: object, /, delete: object = b"") -> bytes:
        return self if table is None else self._refuse()  # of a check for controls

    def replace(self, *_escape: object) -> bytes:
        return self

    def _refuse(self, *_args: object, **_options: object) -> NoReturn:
        raise InspectedError


_OF_TEXT = set(_REFUSED.split()) - {"__len__", "format", "format_map", "isascii"}
for _name in (_OF_TEXT | {"hex", "isspace", "strip"}) - {"encode", "translate"}:
    setattr(ContentHole, _name, ContentHole._refuse)


class EncodedHole(ContentHole):
    """The base64 of a document or of its zlib stream.

    Functions in C decode it, and return no hole.
    """

    __slots__ = ()
    __eq__ = bytes.__eq__
    __hash__ = bytes.__hash__  # for the cache of inflated contents
