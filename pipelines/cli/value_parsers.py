"""The words of a command line, one by one: each parser returns its value or raises ConfigError."""

import codecs
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache, partial

import msgspec

from schemas.errors import ConfigError
from schemas.record import Crawl, Record
from schemas.spelling import did_you_mean
from schemas.units import BYTES
from transforms.formats.command_stream.syntax import check_delimiter
from transforms.formats.xml.encoding import is_encoding
from transforms.sinks.push.model import REQUEST_BYTES_LIMIT
from transforms.sinks.push.throttle.schedule import zone_of

MIN_CHUNK_BYTES = 64 * 1024
_NUMBER = re.compile("[0-9]{1,18}", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,18}) ?([kmgt]i?b|b)?", re.IGNORECASE)
_REJECTS = re.compile(r"([0-9]{1,18})|([0-9]+(?:\.[0-9]+)?)%")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%?", re.ASCII)
_FIELD_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*", re.ASCII)
_MIMETYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)
_ESCAPED = {r"\0": "\0", r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\\": "\\"}
_ESCAPE = re.compile(r"\\[0nrt\\]")
_NO_LOSS = frozenset({"url", "action", "arrival", "crawl", "provenance"})


class RejectLimit(msgspec.Struct, frozen=True, kw_only=True):
    """Most rejects that a run may have: a `count`, or a `percent` of the records read."""

    count: int | None = None
    percent: Decimal | None = None

    def allows(self, *, rejects: int, records: int) -> bool:
        """Whether `rejects` among `records` read, themselves included, are few enough."""
        if self.percent is not None:
            return rejects * 100 <= self.percent * records
        return self.count is None or rejects <= self.count


class FieldMapping(msgspec.Struct, frozen=True):
    """Metadata of this `name` goes to this `field` of the target's profile."""

    name: str
    field: str


def parse_size(text: str) -> int:
    """Return a number of bytes.

    >>> parse_size("900MiB")
    943718400
    """
    match = _SIZE.fullmatch(text)
    if not match:
        raise ConfigError(f"{text!r}; expected a size such as 4096, 64KiB, 900MiB or 1GB")
    return int(match[1]) * BYTES[(match[2] or "b").lower()]


def parse_chunk_bytes(text: str) -> int:
    """Return a size that a chunk may have at most, in bytes."""
    size = parse_size(text)
    if size >= REQUEST_BYTES_LIMIT:
        raise ConfigError(
            f"{text!r} is {size} bytes; expected less than {REQUEST_BYTES_LIMIT}, "
            "for an appliance refuses such a feed"
        )
    if size < MIN_CHUNK_BYTES:
        raise ConfigError(f"{text!r} is {size} bytes; expected at least {MIN_CHUNK_BYTES}")
    return size


def parse_positive_size(text: str) -> int:
    """Return a number of bytes that is not 0."""
    size = parse_size(text)
    if not size:
        raise ConfigError(f"{text!r}; expected at least one byte")
    return size


def parse_number(text: str, *, of: str, least: int = 0) -> int:
    """Return a number, `least` or more, of what `of` names."""
    if not _NUMBER.fullmatch(text) or int(text) < least:
        bound = f", {least} or more" if least else ""
        raise ConfigError(f"{text!r}; expected a number of {of}{bound}")
    return int(text)


def parse_percent(text: str) -> Decimal:
    """Return a percentage, with or without its sign."""
    match = _PERCENT.fullmatch(text)
    if not match or Decimal(match[1]) > 100:
        raise ConfigError(f"{text!r}; expected a percentage, as 5 or 0.5%")
    return Decimal(match[1])


def parse_charset(text: str) -> str:
    """Return the name of a charset that Python knows as well."""
    try:
        codecs.lookup(text)
    except LookupError as exc:
        raise ConfigError(f"{text!r}; expected a charset such as windows-1252") from exc
    return text


def parse_encoding(text: str) -> str:
    """Return the name of an encoding that XML can be read in, whatever it declares."""
    if not is_encoding(text):
        raise ConfigError(
            f"{text!r}; expected an encoding such as utf-8 or windows-1252; documents in UTF-16"
            " need no flag"
        )
    return text


def parse_delimiter(text: str) -> str:
    r"""Return the delimiter of a command stream; `\0`, `\n`, `\r`, `\t` and `\\` are one character.

    >>> parse_delimiter(r"\r\n")
    '\r\n'
    """
    return check_delimiter(_ESCAPE.sub(lambda match: _ESCAPED[match[0]], text))


def parse_rejects(text: str) -> RejectLimit:
    """Return the limit that `10` or `0.5%` names."""
    match = _REJECTS.fullmatch(text)
    if not match or (match[2] and Decimal(match[2]) > 100):
        raise ConfigError(f"{text!r}; expected a number of records or a percentage, as 10 or 0.5%")
    if match[1]:
        return RejectLimit(count=int(match[1]))
    return RejectLimit(percent=Decimal(match[2]))


def parse_fields(text: str) -> frozenset[str]:
    """Return the names of record fields in a list with commas."""
    return frozenset(_parse_field(name.strip()) for name in text.split(","))


def parse_mappings(texts: Iterable[str]) -> tuple[FieldMapping, ...]:
    """Return what each NAME=FIELD says, in order; a NAME goes to one FIELD only."""
    targets: dict[str, str] = {}
    for text in texts:
        mapping = _parse_mapping(text)
        if targets.setdefault(mapping.name, mapping.field) != mapping.field:
            raise ConfigError(
                f"{mapping.name!r} goes to {targets[mapping.name]!r} and to {mapping.field!r}; "
                "expected one field"
            )
    return tuple(FieldMapping(*pair) for pair in targets.items())


def parse_zone(text: str) -> str:
    """Return the name of a time zone that the time zone database has."""
    return zone_of(text).key


def parse_mimetype(text: str) -> str:
    """Return a MIME type."""
    if not _MIMETYPE.fullmatch(text):
        raise ConfigError(f"{text!r}; expected a MIME type such as text/html")
    return text


@cache
def loss_fields() -> tuple[str, ...]:
    """What a target may be unable to hold, by the names that a Loss has."""
    fields = (*Record.__struct_fields__, *Crawl.__struct_fields__)
    return tuple(name.replace("_", "-") for name in fields if name not in _NO_LOSS)


def _parse_field(name: str) -> str:
    if name not in loss_fields():
        raise ConfigError(
            f"{name!r}; expected a field of a record, such as acl or crawl-once"
            f"{did_you_mean(name, loss_fields())}"
        )
    return name


def _parse_mapping(text: str) -> FieldMapping:
    name, _, field = text.rpartition("=")  # a metadata name may hold a =, a field may not
    if not name or not _FIELD_NAME.fullmatch(field):
        raise ConfigError(
            f"{text!r}; expected NAME=FIELD, where FIELD is a letter or _, then letters, digits, "
            "_ and -"
        )
    return FieldMapping(name, field)


def one_of(text: str, known: Iterable[str]) -> str:
    names = tuple(known)
    if text not in names:
        hint = did_you_mean(text, names)
        raise ConfigError(f"{text!r}; expected one of {', '.join(names)}{hint}")
    return text


def parse_word(
    name: str, word: object, parsers: Mapping[str, tuple[str, Callable[..., object]]]
) -> object:
    """Return what a word means to its flag; one that is no text, or without a parser, is itself."""
    flag, parse_text = parsers.get(name, ("", None))
    if parse_text is None:
        return word
    try:
        return parse_text(word)
    except ConfigError as exc:
        raise ConfigError(f"{flag}: {exc}") from exc


def choice(*names: str) -> Callable[[str], str]:
    return partial(one_of, known=names)


def number_of(what: str, *, least: int = 0) -> Callable[[str], int]:
    return partial(parse_number, of=what, least=least)
