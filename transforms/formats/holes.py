"""Values that stand for all values of a column, and refuse to be looked into.

A model record has a hole in place of each value that differs between the records of a batch. It
passes the rules and the writer that every record passes. A rule whose result depends on the value
of a hole raises `InspectedError`; the records then pass one by one. A hole answers what is true of
all *neutral* values, and nothing else; `record_batch` checks that a column has no others.

Functions in C read a hole without asking it. A plan must therefore predict records with real
values, too; see `batch_plan`.
"""

from typing import NoReturn


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

    def _refuse(self, *_args: object, **_options: object) -> NoReturn:
        raise InspectedError


_REFUSED = """
    __hash__ __iter__ __len__ __getitem__ __add__ __mul__ __mod__ __lt__ __le__ __gt__ __ge__
    capitalize casefold center count endswith expandtabs find format format_map index isalnum
    isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable istitle isupper
    join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex rjust
    rpartition rsplit rstrip split splitlines startswith swapcase title translate upper zfill
"""
for _name in _REFUSED.split():
    setattr(TextHole, _name, TextHole._refuse)


class UrlHole(TextHole):
    """A URL with a scheme and a host."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        return part == "://" or TextHole.__contains__(self, part)
