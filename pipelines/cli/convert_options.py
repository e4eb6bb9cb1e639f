"""What `feedferry convert` is told: from the words of a command line to checked options.

Every parser returns its value or raises ConfigError; none opens a file.
"""

import enum
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from pipelines.cli.format_list import parse_from, parse_to
from pipelines.cli.value_parsers import (
    FieldMapping,
    RejectLimit,
    choice,
    number_of,
    parse_charset,
    parse_chunk_bytes,
    parse_delimiter,
    parse_encoding,
    parse_fields,
    parse_mappings,
    parse_mimetype,
    parse_percent,
    parse_positive_size,
    parse_rejects,
    parse_word,
    parse_zone,
)
from schemas.content import MAX_CONTENT_BYTES
from schemas.errors import ConfigError
from schemas.feed import FEEDTYPES, FULL, METADATA_AND_URL, check_datasource
from transforms.formats import all_formats, by_name, find_format
from transforms.formats.base import DIALECT_5_0, DIALECTS, MAX_TOKEN_BYTES, Docids, NotFound
from transforms.formats.command_stream.doc_ids import check_docids
from transforms.formats.target import CONTENT_ENCODINGS
from transforms.sources import PROGRAMS, ROWS, SPOOLS, TREE, Source, find_source
from transforms.sources.spool import History
from transforms.sources.tree.tree import Oversize

MAX_DELETE_PERCENT = Decimal(20)
"""Of the documents that are known, so many may be deleted by a run that is not told otherwise."""

_TREE_TEMPLATE = re.compile(r"\{(?:path|name|stem|extension)\}")


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


class ConvertOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All that `convert` is told; `None` means that its user does not say.

    `verbosity` is -1 for `-q`, else the number of `-v`; `beam_flags` is what stood behind `--`.
    """

    inputs: tuple[str, ...]
    output: str
    to_format: str
    from_format: str | None = None
    encoding: str | None = None
    datasource: str | None = None
    feedtype: str | None = None
    dialect: str = DIALECTS[0]
    max_chunk_bytes: int = 900 * 1024 * 1024
    max_chunk_records: int | None = None
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
    allow_empty_full: bool = False
    accept_holes: bool = False
    base_url: str | None = None
    url_template: str | None = None
    delimiter: str = "\0"
    not_found: str = NotFound.SKIP.value
    max_token_bytes: int = MAX_TOKEN_BYTES
    content_encoding: str = CONTENT_ENCODINGS[0]
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    hidden: bool = False
    follow_links: bool = False
    open_archives: bool = False
    oversize: str = Oversize.REJECT.value
    path_metadata: bool = False
    charset: str | None = None
    display_url: str | None = None
    acl: str | None = None
    acl_namespace: str | None = None
    acl_everyone: str | None = None
    mapping: str | None = None
    history: str = History.LATEST.value
    only: tuple[str, ...] = ()
    state: str | None = None
    refresh: bool = False
    min_records: int = 1
    max_delete_percent: Decimal = MAX_DELETE_PERCENT
    fresh: bool = False
    verify: bool = True
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
    if given.get("from_format") == ROWS.name and not given.get("inputs"):
        given["inputs"] = _mapping_file(given.get("mapping"))
    if not given.get("inputs"):
        raise ConfigError("INPUT: none given; expected files, folders, globs, uris or -")
    for name, flag in (("output", "-o/--output"), ("to_format", "--to")):
        if name not in given:
            raise ConfigError(f"{flag}: not given; see feedferry convert --help")
    options = msgspec.convert(
        {name: parse_word(name, word, _PARSERS) for name, word in given.items()}, ConvertOptions
    )
    if options.datasource is not None:
        check_datasource(options.datasource)
    _check_losses(options)
    _check_feed(options)
    _check_streams(options)
    _check_sources(options)
    _check_content_encoding(options)
    return options


def _check_losses(options: ConvertOptions) -> None:
    both = sorted(options.accept_loss & options.fail_on_loss)
    if both:
        raise ConfigError(
            f"--accept-loss and --fail-on-loss: both name {', '.join(both)}; expected only one to"
        )


# Last, for it names what stands above. What is not here is taken as it is.
_PARSERS: dict[str, tuple[str, Callable[..., object]]] = {
    "to_format": ("--to", parse_to),
    "from_format": ("--from", parse_from),
    "encoding": ("--encoding", parse_encoding),
    "feedtype": ("--feedtype", choice(*FEEDTYPES)),
    "dialect": ("--dialect", choice(*DIALECTS)),
    "max_chunk_bytes": ("--max-chunk-bytes", parse_chunk_bytes),
    "max_chunk_records": ("--max-chunk-records", number_of("records", least=1)),
    "span_bytes": ("--span-bytes", parse_positive_size),
    "max_content_bytes": ("--max-content-bytes", parse_positive_size),
    "jobs": ("--jobs", number_of("processes", least=1)),
    "max_rejects": ("--max-rejects", parse_rejects),
    "accept_loss": ("--accept-loss", parse_fields),
    "fail_on_loss": ("--fail-on-loss", parse_fields),
    "zone": ("--zone", parse_zone),
    "empty_metadata": ("--empty-metadata", choice(*(choice.value for choice in EmptyMetadata))),
    "default_mimetype": ("--default-mimetype", parse_mimetype),
    "fields": ("--field", parse_mappings),
    "delimiter": ("--delimiter", parse_delimiter),
    "not_found": ("--not-found", choice(*(choice.value for choice in NotFound))),
    "max_token_bytes": ("--max-token-bytes", parse_positive_size),
    "content_encoding": ("--content-encoding", choice(*CONTENT_ENCODINGS)),
    "include": ("--include", tuple),
    "exclude": ("--exclude", tuple),
    "oversize": ("--oversize", choice(*(way.value for way in Oversize))),
    "charset": ("--charset", parse_charset),
    "history": ("--history", choice(*(history.value for history in History))),
    "only": ("--only", tuple),
    "min_records": ("--min-records", number_of("records")),
    "max_delete_percent": ("--max-delete-percent", parse_percent),
    "progress": ("--progress", choice(*(style.value for style in ProgressStyle))),
    "report_format": ("--format", choice(*(format_.value for format_ in ReportFormat))),
}


def docids(options: ConvertOptions) -> Docids:
    """Return the rule by which ids become urls; raise ConfigError if it is none.

    Urls of files and rows are made by rules of their own.
    """
    template = options.url_template
    source = find_source(options.from_format)
    if (source is not None and source.makes_urls) or (template and _TREE_TEMPLATE.search(template)):
        return Docids()
    flag = "--url-template" if options.base_url is None else "--base-url"
    try:
        return check_docids(Docids(base_url=options.base_url, template=template))
    except ConfigError as exc:
        raise ConfigError(f"{flag}: {exc}") from exc


def _mapping_file(mapping: object) -> tuple[str, ...]:
    if mapping is None:
        raise ConfigError("--mapping: not given; expected the YAML file of a database")
    return (str(mapping),)


def _check_streams(options: ConvertOptions) -> None:
    docids(options)
    read = find_format(options.from_format)
    is_stream = options.from_format == PROGRAMS.name or (
        read is not None and read.is_command_stream
    )
    if options.strict and options.from_format is not None and not is_stream:
        raise ConfigError(
            f"--strict: not for --from {options.from_format}; expected a command stream, which is"
            " the one thing that has a deployed reader to be compared with"
        )


def _check_sources(options: ConvertOptions) -> None:
    xml = [format_.name for format_ in all_formats() if format_.is_xml]
    if options.encoding is not None and options.from_format not in (None, SPOOLS.name, *xml):
        raise ConfigError(
            f"--encoding: not for --from {options.from_format}; expected a format in XML:"
            f" {', '.join(xml)}"
        )
    if options.mapping is not None and options.from_format != ROWS.name:
        raise ConfigError(f"--mapping: not for this source; expected --from {ROWS.name} with it")
    for source in (TREE, SPOOLS):
        if options.from_format not in (None, source.name):
            refuse_flags(options, source)
    _check_acl(options)
    _check_state(options)


def refuse_flags(options: ConvertOptions, source: Source[Any]) -> None:
    """Raise ConfigError for a flag that only this source has."""
    usual = ConvertOptions(inputs=(), output="", to_format="")
    for name, flag in source.flags.items():
        if getattr(options, name) != getattr(usual, name):
            raise ConfigError(
                f"{flag}: not for this source; expected {source.noun} (--from {source.name})"
            )


def _check_acl(options: ConvertOptions) -> None:
    is_posix = options.acl is not None and options.acl.startswith("posix")
    for flag, stated in (
        ("--acl-namespace", options.acl_namespace),
        ("--acl-everyone", options.acl_everyone),
    ):
        if stated is not None and not is_posix:
            raise ConfigError(f"{flag}: nothing to go with it; expected --acl posix beside it")


def _check_state(options: ConvertOptions) -> None:
    if options.refresh and options.state is None:
        raise ConfigError("--refresh: of no state; expected --state FILE beside it")
    if options.state is not None and options.feedtype == FULL and not options.refresh:
        raise ConfigError(
            "--feedtype full: not with --state, as a full feed deletes what has not changed and so"
            " is not in it; --refresh sends all"
        )


def _check_content_encoding(options: ConvertOptions) -> None:
    chosen = options.content_encoding
    if chosen == CONTENT_ENCODINGS[0]:
        return
    if not by_name(options.to_format).has_content_encodings:
        raise ConfigError(
            f"--content-encoding {chosen}: not for --to {options.to_format}, which has one of its"
            " own; expected auto"
        )
    if chosen == "zlib" and options.dialect == DIALECT_5_0:
        raise ConfigError(
            "--content-encoding zlib: not for --dialect 5.0, which has no compression; expected"
            " auto or base64"
        )


def _check_feed(options: ConvertOptions) -> None:
    target = by_name(options.to_format)
    if target.holds_only_memberships and options.feedtype == METADATA_AND_URL:
        raise ConfigError(
            f"--feedtype {METADATA_AND_URL}: not for --to {target.name};"
            " expected full or incremental"
        )
    if target.keeps_feedtypes:
        return
    for flag, stated in (("--datasource", options.datasource), ("--feedtype", options.feedtype)):
        if stated is not None:
            raise ConfigError(
                f"{flag} {stated}: not for --to {options.to_format}, which has no feeds"
            )
