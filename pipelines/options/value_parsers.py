"""Parsers of flag values: each returns the value of a text, or raises ConfigError.

The codecs are imported where they are used, so that the help of a verb does not load them.
"""

import codecs
import enum
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache, partial

import msgspec

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Crawl, Record
from feedferry.schemas.share_limit import ShareLimit
from feedferry.schemas.span_size import AUTO
from feedferry.schemas.spelling import did_you_mean
from feedferry.schemas.units import (
    DURATION_PATTERN,
    SIZE_PATTERN,
    duration_text,
    parse_duration,
    parse_size,
    size_text,
)
from feedferry.transforms.sinks.push.model import REQUEST_BYTES_LIMIT
from feedferry.transforms.sinks.push.throttle.window import find_zone, parse_deadline, parse_window
from feedferry.transforms.sinks.push.wire.auth import AuthKind, format_auth, parse_auth

MIN_CHUNK_BYTES = 64 * 1024
_AUTO = "auto"
_MAX_PORT = 65535
_MAX_COUNT = 10**18 - 1
_COUNT = re.compile("[0-9]{1,18}", re.ASCII)
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%?", re.ASCII)
_FIELD_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*", re.ASCII)
_MIMETYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)
_ESCAPES = {r"\0": "\0", r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\\": "\\"}
_ESCAPE = re.compile(r"\\[0nrt\\]")
_TEXT_SCHEMA: Mapping[str, object] = {"type": "string", "minLength": 1}
_NEVER_LOST = frozenset({"url", "action", "arrival", "crawl", "provenance"})


@dataclass(frozen=True)
class ValueType:
    """The values of a flag: a placeholder for the help, a parser, and the text of a value.

    The parser of a repeatable flag is called with all its texts. `schema` is the JSON Schema of a
    value in a job file; a list there is written with commas in a flag that is not repeatable. A
    relative path in a job file is relative to the folder of the file. `list_of` makes a list of an
    object in a job file, and raises ValueError.
    """

    metavar: str
    parse: Callable[..., object]
    format: Callable[..., str] = str
    schema: Mapping[str, object] = field(default_factory=lambda: _TEXT_SCHEMA)
    is_path: bool = False
    names: Callable[[], Iterable[str]] = tuple
    list_of: Callable[[Mapping[str, object]], list[str]] | None = None


class SampleSize(msgspec.Struct, frozen=True, kw_only=True):
    """The least part of an input that a sample has: a `count` of records, or a `percent`."""

    count: int | None = None
    percent: Decimal | None = None

    def is_reached(self, records: int, share: float) -> bool:
        """Whether a sample of `records`, which is a `share` of the input, is large enough."""
        if self.percent is not None:
            return share * 100 >= self.percent
        return self.count is None or records >= self.count


def parse_positive_size(text: str) -> int:
    """Return a number of bytes, 1 or more."""
    size = parse_size(text)
    if not size:
        raise ConfigError(f"{text!r}; expected at least one byte")
    return size


def parse_span_size(text: str) -> int:
    """Return the size of spans in bytes; AUTO for `auto`."""
    if text == _AUTO:
        return AUTO
    try:
        return parse_positive_size(text)
    except ConfigError as exc:
        raise ConfigError(f"{text!r}; expected auto, or a size such as 32MiB") from exc


def span_size_text(size: int) -> str:
    return size_text(size) if size else _AUTO


def parse_chunk_size(text: str) -> int:
    """Return the size of a chunk in bytes, below the limit of an appliance."""
    size = parse_size(text)
    if size >= REQUEST_BYTES_LIMIT:
        raise ConfigError(
            f"{text!r} is {size} bytes; expected less than {REQUEST_BYTES_LIMIT}, "
            "because an appliance refuses larger feeds"
        )
    if size < MIN_CHUNK_BYTES:
        raise ConfigError(f"{text!r} is {size} bytes; expected at least {MIN_CHUNK_BYTES}")
    return size


def parse_timeout(text: str) -> float:
    """Return a duration in seconds, more than 0."""
    seconds = parse_duration(text)
    if not seconds:
        raise ConfigError(f"{text!r}; expected more than 0 seconds")
    return seconds


def parse_count(text: str, *, unit: str, minimum: int = 0, maximum: int = _MAX_COUNT) -> int:
    """Return a whole number of `unit`."""
    if not _COUNT.fullmatch(text) or int(text) < minimum:
        bound = f", {minimum} or more" if minimum else ""
        raise ConfigError(f"{text!r}; expected a number of {unit}{bound}")
    if int(text) > maximum:
        raise ConfigError(f"{text!r}; expected at most {maximum}")
    return int(text)


def parse_port(text: str) -> int:
    """Return a TCP port; 0 means any free one."""
    if not _COUNT.fullmatch(text) or int(text) > _MAX_PORT:
        raise ConfigError(f"{text!r}; expected a port from 0, any free one, to {_MAX_PORT}")
    return int(text)


def parse_percent(text: str) -> Decimal:
    match = _PERCENT.fullmatch(text)
    if not match or Decimal(match[1]) > 100:
        raise ConfigError(f"{text!r}; expected a percentage, as 5 or 0.5%")
    return Decimal(match[1])


def parse_share_limit(text: str, *, unit: str) -> ShareLimit:
    """Return the limit that `10` or `0.5%` states."""
    if text.endswith("%"):
        return ShareLimit(percent=parse_percent(text))
    return ShareLimit(count=parse_count(text, unit=f"{unit} or a percentage, as 10 or 0.5%"))


def parse_sample(text: str) -> SampleSize:
    """Return the size of a sample that `1000` or `5%` states."""
    if text.endswith("%") and (percent := parse_percent(text)):
        return SampleSize(percent=percent)
    unit = "records or a percentage, as 1000 or 5%"
    return SampleSize(count=parse_count(text, unit=unit, minimum=1))


def parse_charset(text: str) -> str:
    try:
        codecs.lookup(text)
    except LookupError as exc:
        raise ConfigError(f"{text!r}; expected a charset such as windows-1252") from exc
    return text


def parse_encoding(text: str) -> str:
    """Return the name of an encoding for XML, which overrides its declaration."""
    from feedferry.transforms.formats import is_encoding

    if not is_encoding(text):
        raise ConfigError(
            f"{text!r}; expected an encoding such as utf-8 or windows-1252; documents in UTF-16"
            " need no flag"
        )
    return text


def parse_delimiter(text: str) -> str:
    r"""Return the delimiter of a command stream; `\0`, `\n`, `\r`, `\t` and `\\` are escapes.

    >>> parse_delimiter(r"\r\n")
    '\r\n'
    """
    from feedferry.transforms.formats import check_delimiter

    return check_delimiter(_ESCAPE.sub(lambda match: _ESCAPES[match[0]], text))


def format_delimiter(delimiter: str) -> str:
    for escape, character in reversed(_ESCAPES.items()):
        delimiter = delimiter.replace(character, escape)
    return delimiter


def parse_mimetype(text: str) -> str:
    if not _MIMETYPE.fullmatch(text):
        raise ConfigError(f"{text!r}; expected a MIME type such as text/html")
    return text


def parse_fields(text: str) -> frozenset[str]:
    """Return the names of record fields in a comma-separated list."""
    names = frozenset(name.strip() for name in text.split(","))
    for name in sorted(names - {*loss_fields()}):
        raise ConfigError(
            f"{name!r}; expected a field of a record, such as acl or crawl-once"
            f"{did_you_mean(name, loss_fields())}"
        )
    return names


@cache
def loss_fields() -> tuple[str, ...]:
    """Return the fields that a target may be unable to hold, by the names that losses have."""
    fields = (*Record.__struct_fields__, *Crawl.__struct_fields__)
    return tuple(name.replace("_", "-") for name in fields if name not in _NEVER_LOST)


def parse_mappings(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs that texts NAME=FIELD state, each NAME with one FIELD."""
    fields: dict[str, str] = {}
    for text in texts:
        name, _, field = text.rpartition("=")  # a metadata name may hold =, a field may not
        if not name or not _FIELD_NAME.fullmatch(field):
            raise ConfigError(
                f"{text!r}; expected NAME=FIELD, where FIELD is a letter or _, then letters, "
                "digits, _ and -"
            )
        if fields.setdefault(name, field) != field:
            raise ConfigError(
                f"{name!r} is mapped to {fields[name]!r} and to {field!r}; expected one field"
            )
    return tuple(fields.items())


def list_mappings(fields: Mapping[str, object]) -> list[str]:
    """Return the texts NAME=FIELD of an object FIELD: metadata:NAME.

    >>> list_mappings({"author": "metadata:Author"})
    ['Author=author']
    """
    texts = []
    for target, source in fields.items():
        kind, _, name = str(source).partition(":")
        if kind != "metadata" or not name:
            raise ValueError(f"{target}: {source!r}; expected metadata:NAME")
        texts.append(f"{name}={target}")
    return texts


def parse_output(text: str, flag: str = "") -> str:
    """Return the name of a folder or file to write; raise ConfigError for stdout and a URL."""
    if text in ("", "-") or "://" in text:
        expected = "a folder or file of this machine; copy what is finished from there"
        raise ConfigError(f"{flag}{text!r}; expected {expected}")
    return text


def parse_run_folder(text: str) -> str:
    """Return the name of a folder or the URI of object storage; raise ConfigError for others."""
    if "://" not in text:
        return parse_output(text)
    from feedferry.transforms.storage.run_folders.find_storage import storage_of

    return storage_of(text).locate("").rstrip("/")


def parse_from(text: str) -> str:
    """Return the name of a source or a format that is read."""
    from feedferry.transforms.formats import find_format
    from feedferry.transforms.sources import find_source

    format_ = find_format(text)
    kind = find_source(text) or (format_ if format_ and format_.is_read else None)
    return kind.name if kind else parse_choice(text, _source_names())


def parse_to(text: str) -> str:
    """Return the name of a format that is written."""
    from feedferry.transforms.formats import find_format

    kind = find_format(text)
    return kind.name if kind and kind.encoder else parse_choice(text, _target_names())


def _source_names() -> list[str]:
    from feedferry.transforms.formats import FORMATS
    from feedferry.transforms.sources import SOURCES

    formats = (format_.name for format_ in FORMATS if format_.is_read)
    return [*(source.name for source in SOURCES), *formats]


def _target_names() -> list[str]:
    from feedferry.transforms.formats import FORMATS

    return [format_.name for format_ in FORMATS if format_.encoder]


def parse_choice(text: str, names: Iterable[str]) -> str:
    choices = tuple(names)
    if text not in choices:
        hint = did_you_mean(text, choices)
        raise ConfigError(f"{text!r}; expected one of {', '.join(choices)}{hint}")
    return text


def choice(*names: str) -> ValueType:
    """Return the type of a flag that takes one of some names."""
    parse = partial(parse_choice, names=names)
    return ValueType("|".join(names), parse, schema={"enum": [*names]})


def choice_of(*members: enum.Enum) -> ValueType:
    """Return the type of a flag that takes the value of one of some enum members."""
    by_value = {str(member.value): member for member in members}
    return ValueType(
        "|".join(by_value),
        lambda text: by_value[parse_choice(text, by_value)],
        lambda member: str(member.value),
        {"enum": [*by_value]},
    )


def count_of(unit: str, *, minimum: int = 0, maximum: int = _MAX_COUNT) -> ValueType:
    """Return the type of a flag that takes a whole number of `unit`."""
    schema = {"type": "integer", "minimum": minimum, "maximum": maximum}
    parse = partial(parse_count, unit=unit, minimum=minimum, maximum=maximum)
    return ValueType("N", parse, schema=schema)


def share_limit_of(unit: str) -> ValueType:
    """Return the type of a flag that takes a number of `unit`, or a percentage."""
    return ValueType("N|P%", partial(parse_share_limit, unit=unit), schema=_SHARE_SCHEMA)


def _parse_deadline(text: str) -> float:
    return parse_deadline(text, now=datetime.now().astimezone()).timestamp()


_SIZE_SCHEMA = {"type": ["integer", "string"], "pattern": SIZE_PATTERN, "minimum": 0}
_SPAN_SIZE_SCHEMA = {**_SIZE_SCHEMA, "pattern": f"^{_AUTO}$|{SIZE_PATTERN}"}
_DURATION_SCHEMA = {"type": "string", "pattern": DURATION_PATTERN}
_PERCENT_SCHEMA = {"type": ["number", "string"], "pattern": f"^{_PERCENT.pattern}$"}
_SHARE_SCHEMA = {"type": ["integer", "string"], "pattern": f"^{_PERCENT.pattern}$"}
_FIELDS_SCHEMA = {"type": "array", "items": {"enum": sorted(loss_fields())}}

FROM = ValueType("FORMAT", parse_from, names=_source_names)
TO = ValueType("FORMAT", parse_to, names=_target_names)
TEXT = ValueType("TEXT", str)
REPEATED_TEXT = ValueType("TEXT", tuple)
PATH = ValueType("FILE", str, is_path=True)
NO_OUTPUT = os.devnull  # of verbs that write no files
OUTPUT_FOLDER = ValueType("DIR", parse_output)
RUN_FOLDER = ValueType("DIR|URI", parse_run_folder)
OUTPUT_FILE = ValueType("FILE", parse_output, is_path=True)
STATE_FILE = ValueType("FILE|URI", parse_run_folder, is_path=True)
ACL = ValueType("posix|posix-inherited|public|CSV", str, is_path=True)
PATHS = ValueType("INPUT", tuple, is_path=True)
SIZE = ValueType("SIZE", parse_size, size_text, _SIZE_SCHEMA)
POSITIVE_SIZE = ValueType("SIZE", parse_positive_size, size_text, _SIZE_SCHEMA)
SPAN_SIZE = ValueType("SIZE|auto", parse_span_size, span_size_text, _SPAN_SIZE_SCHEMA)
CHUNK_SIZE = ValueType("SIZE", parse_chunk_size, size_text, _SIZE_SCHEMA)
DURATION = ValueType("TIME", parse_duration, duration_text, _DURATION_SCHEMA)
TIMEOUT = ValueType("TIME", parse_timeout, duration_text, _DURATION_SCHEMA)
DEADLINE = ValueType("HH:MM|TIME", _parse_deadline)
WINDOW = ValueType('"DAYS HH:MM-HH:MM ZONE"', parse_window)
ZONE = ValueType("IANA", lambda text: find_zone(text).key)
PORT = ValueType("N", parse_port)
PERCENT = ValueType("P", parse_percent, schema=_PERCENT_SCHEMA)
SAMPLE = ValueType("N|P%", parse_sample, schema=_SHARE_SCHEMA)
FIELDS = ValueType("FIELD,...", parse_fields, schema=_FIELDS_SCHEMA)
AUTH = ValueType(
    "KIND=REFERENCE",
    parse_auth,
    format_auth,
    schema={
        "type": "object",
        "properties": {kind.value: _TEXT_SCHEMA for kind in AuthKind},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    },
)
MAPPINGS = ValueType("NAME=FIELD", parse_mappings, list_of=list_mappings)
CHARSET = ValueType("NAME", parse_charset)
ENCODING = ValueType("NAME", parse_encoding)
MIMETYPE = ValueType("TYPE", parse_mimetype)
DELIMITER = ValueType("TEXT", parse_delimiter, format_delimiter)
