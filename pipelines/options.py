"""What `feedferry convert` is told: from the words of a command line to checked options.

Every parser returns its value or raises ConfigError; none opens a file.
"""

import difflib
import enum
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache, partial
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from schemas.content import MAX_CONTENT_BYTES
from schemas.errors import ConfigError
from schemas.feed import FEEDTYPES, METADATA_AND_URL, check_datasource
from schemas.record import Crawl, Record
from transforms.formats._command_text import check_delimiter
from transforms.formats._docids import check_docids
from transforms.formats._options import DIALECTS, MAX_TOKEN_BYTES, Docids, NotFound

MIN_CHUNK_BYTES = 64 * 1024
CHUNK_BYTES_LIMIT = 1_000_000_000
"""An appliance refuses a feed of this many bytes, and chunks stay below."""

_SIZE = re.compile(r"([0-9]+) ?([kmgt]i?b|b)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{unit}b": 1000**power for power, unit in enumerate("kmgt", start=1)}
_UNITS |= {f"{unit}ib": 1024**power for power, unit in enumerate("kmgt", start=1)}
_REJECTS = re.compile(r"([0-9]+)|([0-9]+(?:\.[0-9]+)?)%")
_FIELD_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*", re.ASCII)
_MIMETYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)
_ESCAPED = {r"\0": "\0", r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\\": "\\"}
_ESCAPE = re.compile(r"\\[0nrt\\]")
_NO_LOSS = frozenset({"url", "action", "arrival", "crawl", "provenance"})


class EmptyMetadata(enum.Enum):
    """What becomes of a metadata pair without a value."""

    DROP = "drop"
    PLACEHOLDER = "placeholder"


class ProgressStyle(enum.Enum):
    """How a run shows that it moves; AUTO is BAR on a terminal and PLAIN elsewhere."""

    AUTO = "auto"
    BAR = "bar"
    PLAIN = "plain"
    NONE = "none"


class ReportFormat(enum.Enum):
    """How the account of a run is printed."""

    TEXT = "text"
    JSON = "json"


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A format as `feedferry formats` lists it."""

    name: str
    reads: bool = True
    writes: bool = True
    line: str


FORMATS = (
    Format(name="gsa-feed", line="Google Search Appliance feeds, protocol 7.x and 5.0 (XML)"),
    Format(name="thunderstone", line="Thunderstone Search Appliance dataload (XML)"),
    Format(name="lister-stream", line="GSA adaptor command streams: ids, and when they changed"),
    Format(name="retriever-stream", line="GSA adaptor command streams: a document each"),
    Format(name="authorizer-stream", line="GSA adaptor command streams: who may see what"),
    Format(name="command", writes=False, line="GSA adaptor programs that speak them (a YAML file)"),
    Format(name="gsa-groups", line="Google Search Appliance groups feeds (XML)"),
    Format(name="groups-csv", writes=False, line="groups as CSV: group,member,scope[,namespace]"),
    Format(name="avro", line="canonical records in an Avro container: lossless, for archives"),
    Format(name="native", line="canonical records as JSON lines: lossless, for eyes and diffs"),
)
STREAMS = tuple(format_.name for format_ in FORMATS if format_.name.endswith("-stream"))
"""The formats of command streams."""


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


class ConvertOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All that `convert` is told; `None` means that its user does not say.

    `verbosity` is -1 for `-q`, else the number of `-v`; `beam_flags` is what stood behind `--`.
    """

    inputs: tuple[str, ...]
    output: str
    to_format: str
    from_format: str | None = None
    datasource: str | None = None
    feedtype: str | None = None
    dialect: str = DIALECTS[0]
    max_chunk_bytes: int = 900 * 1024 * 1024
    span_bytes: int = 32 * 1024 * 1024
    max_content_bytes: int = MAX_CONTENT_BYTES
    jobs: int = 1
    max_rejects: RejectLimit | None = None
    accept_loss: frozenset[str] = frozenset()
    fail_on_loss: frozenset[str] = frozenset()
    zone: str = "UTC"
    empty_metadata: EmptyMetadata = EmptyMetadata.DROP
    known_urls: str | None = None
    allow_wide_deletes: bool = False
    default_mimetype: str | None = None
    fields: tuple[FieldMapping, ...] = ()
    strict: bool = False
    base_url: str | None = None
    url_template: str | None = None
    delimiter: str = "\0"
    not_found: str = NotFound.SKIP.value
    max_token_bytes: int = MAX_TOKEN_BYTES
    batch: int | None = None
    fresh: bool = False
    runner: str | None = None
    progress: ProgressStyle = ProgressStyle.AUTO
    report_format: ReportFormat = ReportFormat.TEXT
    verbosity: int = 0
    beam_flags: tuple[str, ...] = ()


def parse(words: Mapping[str, object]) -> ConvertOptions:
    """Return the options of which `words` holds the texts, by the names of ConvertOptions.

    A word that is `None` was not given. Raise ConfigError at the first that cannot be used.
    """
    given = {name: word for name, word in words.items() if word is not None}
    if not given.get("inputs"):
        raise ConfigError("INPUT: none given; expected files, folders, globs, uris or -")
    for name, flag in (("output", "-o/--output"), ("to_format", "--to")):
        if name not in given:
            raise ConfigError(f"{flag}: not given; see feedferry convert --help")
    options = msgspec.convert(
        {name: _parse_word(name, word) for name, word in given.items()}, ConvertOptions
    )
    if options.datasource is not None:
        check_datasource(options.datasource)
    _check_losses(options)
    _check_feed(options)
    _check_streams(options)
    return options


def parse_size(text: str) -> int:
    """Return a number of bytes.

    >>> parse_size("900MiB")
    943718400
    """
    match = _SIZE.fullmatch(text)
    if not match:
        raise ConfigError(f"{text!r}; expected a size such as 4096, 64KiB, 900MiB or 1GB")
    return int(match[1]) * _UNITS[(match[2] or "").lower()]


def parse_chunk_bytes(text: str) -> int:
    """Return a size that a chunk may have at most, in bytes."""
    size = parse_size(text)
    if size >= CHUNK_BYTES_LIMIT:
        raise ConfigError(
            f"{text!r} is {size} bytes; expected less than {CHUNK_BYTES_LIMIT}, "
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


def parse_jobs(text: str) -> int:
    """Return a number of worker processes."""
    if not re.fullmatch("[0-9]+", text, re.ASCII) or int(text) < 1:
        raise ConfigError(f"{text!r}; expected a number of processes, 1 or more")
    return int(text)


def parse_batch(text: str) -> int:
    """Return how many ids a retriever is given at once."""
    if not re.fullmatch("[0-9]+", text, re.ASCII) or int(text) < 1:
        raise ConfigError(f"{text!r}; expected a number of ids, 1 or more")
    return int(text)


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
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError) as exc:  # not there, a path out of it, a folder in it
        zones = available_timezones()
        message = f"{text!r}; expected an IANA time zone{_did_you_mean(text, zones)}"
        raise ConfigError(message) from exc
    return text


def parse_mimetype(text: str) -> str:
    """Return a MIME type."""
    if not _MIMETYPE.fullmatch(text):
        raise ConfigError(f"{text!r}; expected a MIME type such as text/html")
    return text


@cache
def loss_fields() -> tuple[str, ...]:
    """What a target may be unable to hold, by the names that a Loss has."""
    fields = (*Record.__struct_fields__, *Crawl.__struct_fields__)
    return tuple(_key(name) for name in fields if name not in _NO_LOSS)


def _parse_word(name: str, word: object) -> object:
    """A word that is no text, and one without a parser, is its own value."""
    flag, parse_text = _PARSERS.get(name, ("", None))
    if parse_text is None:
        return word
    try:
        return parse_text(word)
    except ConfigError as exc:
        raise ConfigError(f"{flag}: {exc}") from exc


def _parse_field(name: str) -> str:
    if name not in loss_fields():
        raise ConfigError(
            f"{name!r}; expected a field of a record, such as acl or crawl-once"
            f"{_did_you_mean(name, loss_fields())}"
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


def _check_losses(options: ConvertOptions) -> None:
    both = sorted(options.accept_loss & options.fail_on_loss)
    if both:
        raise ConfigError(
            f"--accept-loss and --fail-on-loss: both name {', '.join(both)}; expected only one to"
        )


def _one_of(text: str, known: Iterable[str]) -> str:
    names = tuple(known)
    if text not in names:
        hint = _did_you_mean(text, names)
        raise ConfigError(f"{text!r}; expected one of {', '.join(names)}{hint}")
    return text


def _did_you_mean(text: str, names: Iterable[str]) -> str:
    by_key = {_key(name): name for name in sorted(names)}
    close = difflib.get_close_matches(_key(text), by_key, n=1)
    return f"; did you mean {by_key[close[0]]!r}?" if close else ""


def _key(name: str) -> str:
    return name.lower().replace("_", "-")


def _choice(*names: str) -> Callable[[str], str]:
    return partial(_one_of, known=names)


# Last, for it names what stands above. What is not here is taken as it is.
_PARSERS: dict[str, tuple[str, Callable[..., object]]] = {
    "to_format": ("--to", _choice(*(format_.name for format_ in FORMATS if format_.writes))),
    "from_format": ("--from", _choice(*(format_.name for format_ in FORMATS if format_.reads))),
    "feedtype": ("--feedtype", _choice(*FEEDTYPES)),
    "dialect": ("--dialect", _choice(*DIALECTS)),
    "max_chunk_bytes": ("--max-chunk-bytes", parse_chunk_bytes),
    "span_bytes": ("--span-bytes", parse_positive_size),
    "max_content_bytes": ("--max-content-bytes", parse_positive_size),
    "jobs": ("--jobs", parse_jobs),
    "max_rejects": ("--max-rejects", parse_rejects),
    "accept_loss": ("--accept-loss", parse_fields),
    "fail_on_loss": ("--fail-on-loss", parse_fields),
    "zone": ("--zone", parse_zone),
    "empty_metadata": ("--empty-metadata", _choice(*(choice.value for choice in EmptyMetadata))),
    "default_mimetype": ("--default-mimetype", parse_mimetype),
    "fields": ("--field", parse_mappings),
    "delimiter": ("--delimiter", parse_delimiter),
    "not_found": ("--not-found", _choice(*(choice.value for choice in NotFound))),
    "max_token_bytes": ("--max-token-bytes", parse_positive_size),
    "batch": ("--batch", parse_batch),
    "progress": ("--progress", _choice(*(style.value for style in ProgressStyle))),
    "report_format": ("--format", _choice(*(format_.value for format_ in ReportFormat))),
}


def docids(options: ConvertOptions) -> Docids:
    """Return the rule by which ids become urls; raise ConfigError if it is none."""
    flag = "--url-template" if options.base_url is None else "--base-url"
    try:
        return check_docids(Docids(base_url=options.base_url, template=options.url_template))
    except ConfigError as exc:
        raise ConfigError(f"{flag}: {exc}") from exc


def _check_streams(options: ConvertOptions) -> None:
    docids(options)
    if options.strict and options.from_format not in (None, "command", *STREAMS):
        raise ConfigError(
            f"--strict: not for --from {options.from_format}; expected a command stream, which is"
            " the one thing that has a deployed reader to be compared with"
        )


def _check_feed(options: ConvertOptions) -> None:
    if options.to_format == "gsa-groups" and options.feedtype == METADATA_AND_URL:
        raise ConfigError(
            f"--feedtype {METADATA_AND_URL}: not for --to gsa-groups; expected full or incremental"
        )
    if options.to_format not in ("thunderstone", *STREAMS):
        return
    for flag, stated in (("--datasource", options.datasource), ("--feedtype", options.feedtype)):
        if stated is not None:
            raise ConfigError(
                f"{flag} {stated}: not for --to {options.to_format}, which has no feeds"
            )
