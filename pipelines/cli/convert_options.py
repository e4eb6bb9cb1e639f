"""Options of `feedferry convert`, each declared with its flag, and the checks between options.

No check opens a file.
"""

import enum
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pipelines.cli.display_options import DisplayOptions
from pipelines.cli.flags import Flag, decode, flags_of
from pipelines.cli.format_list import parse_from, parse_to
from pipelines.cli.value_parsers import (
    CHARSET,
    CHUNK_SIZE,
    DELIMITER,
    ENCODING,
    FIELDS,
    MAPPINGS,
    MIMETYPE,
    PERCENT,
    POSITIVE_SIZE,
    REJECTS,
    ZONE,
    FieldMapping,
    RejectLimit,
    ValueType,
    choice,
    count_of,
)
from pipelines.cli.verb import Section
from schemas.content import MAX_CONTENT_BYTES
from schemas.errors import ConfigError
from schemas.feed import FEEDTYPES, FULL, METADATA_AND_URL, check_datasource
from transforms.formats import (
    CONTENT_ENCODINGS,
    DIALECT_5_0,
    DIALECTS,
    MAX_TOKEN_BYTES,
    Docids,
    NotFound,
    all_formats,
    by_name,
    check_docids,
    find_format,
)
from transforms.sources import (
    PROGRAMS,
    ROWS,
    SPOOLS,
    TREE,
    Oversize,
    Source,
    SpoolHistory,
    find_source,
)

_TREE_TEMPLATE = re.compile(r"\{(?:path|name|stem|extension)\}")
_READ = Section.READ
_TREE = Section.TREE
_SPOOL = Section.SPOOL
_STATE = Section.STATE
_STREAM = Section.STREAM
_WRITE = Section.WRITE
_RUN = Section.RUN


class EmptyMetadata(enum.Enum):
    """What to do with a metadata pair without a value."""

    DROP = "drop"
    PLACEHOLDER = "placeholder"


class ConvertOptions(DisplayOptions, frozen=True, kw_only=True):
    """Options of a conversion; `None` means not stated. `beam_flags` are the words after `--`."""

    inputs: tuple[str, ...]

    from_format: Annotated[
        str | None,
        Flag(
            "Format of the input.",
            _READ,
            ValueType("FORMAT", parse_from),
            names=("--from",),
            default="detected",
        ),
    ] = None
    encoding: Annotated[
        str | None, Flag("Encoding of XML feeds; overrides their declaration.", _READ, ENCODING)
    ] = None
    base_url: Annotated[
        str | None,
        Flag("URL that paths of files or document ids are appended to.", _READ, metavar="URL"),
    ] = None
    url_template: Annotated[
        str | None,
        Flag(
            "URL of a document, with {path} for the path of a file or {id} for a document id.",
            _READ,
            metavar="URL",
        ),
    ] = None
    mapping: Annotated[
        str | None,
        Flag("YAML file that maps the rows of a database to documents.", _READ, metavar="FILE"),
    ] = None
    zone: Annotated[str, Flag("Time zone of dates that state none.", _READ, ZONE)] = "UTC"
    span_bytes: Annotated[
        int, Flag("Size of the parts that the input is divided into.", _READ, POSITIVE_SIZE)
    ] = 32 * 1024 * 1024
    max_content_bytes: Annotated[
        int, Flag("Most bytes of one document, decoded.", _READ, POSITIVE_SIZE)
    ] = MAX_CONTENT_BYTES

    include: Annotated[
        tuple[str, ...],
        Flag("Read only files that match; re:REGEX is possible.", _TREE, metavar="GLOB"),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Flag("Do not read files that match; re:REGEX is possible.", _TREE, metavar="GLOB"),
    ] = ()
    hidden: Annotated[bool, Flag("Also read files whose names begin with a dot.", _TREE)] = False
    follow_links: Annotated[bool, Flag("Follow symbolic links.", _TREE)] = False
    open_archives: Annotated[bool, Flag("Read the files in zip, tar and gz archives.", _TREE)] = (
        False
    )
    oversize: Annotated[
        Oversize,
        Flag("Reject files above --max-content-bytes, or send only their metadata.", _TREE),
    ] = Oversize.REJECT
    charset: Annotated[
        str | None, Flag("Charset of text that is not UTF-8 and declares none.", _TREE, CHARSET)
    ] = None
    path_metadata: Annotated[bool, Flag("Add the parts of the path as metadata.", _TREE)] = False
    display_url: Annotated[
        str | None, Flag("URL that users see, with {path} in it.", _TREE, metavar="URL")
    ] = None
    acl: Annotated[
        str | None,
        Flag(
            "Who may see the files: as their permissions say, everyone, or as a CSV file says.",
            _TREE,
            metavar="posix|posix-inherited|public|CSV",
        ),
    ] = None
    acl_namespace: Annotated[
        str | None, Flag("Namespace of the users and groups of --acl posix.", _TREE, metavar="NAME")
    ] = None
    acl_everyone: Annotated[
        str | None, Flag("Group that file permissions call others.", _TREE, metavar="GROUP")
    ] = None

    history: Annotated[
        SpoolHistory, Flag("Skip feeds that a later feed replaced, or read all.", _SPOOL)
    ] = SpoolHistory.LATEST
    only: Annotated[
        tuple[str, ...],
        Flag("Read only this datasource or profile.", _SPOOL, metavar="NAME"),
    ] = ()

    state: Annotated[
        str | None,
        Flag("Read only what changed since the last run with this file.", _STATE, metavar="FILE"),
    ] = None
    refresh: Annotated[bool, Flag("Read everything, and update the state.", _STATE)] = False
    min_records: Annotated[
        int, Flag("Stop if the source has fewer records.", _STATE, count_of("records"))
    ] = 1
    max_delete_percent: Annotated[
        Decimal, Flag("Stop if a larger share of the source is gone.", _STATE, PERCENT)
    ] = Decimal(20)

    strict: Annotated[bool, Flag("Read command streams as the deployed parser does.", _STREAM)] = (
        False
    )
    not_found: Annotated[
        NotFound, Flag("Skip or delete documents that the retriever does not find.", _STREAM)
    ] = NotFound.SKIP
    max_token_bytes: Annotated[
        int, Flag("Most bytes of one token of a stream.", _STREAM, POSITIVE_SIZE)
    ] = MAX_TOKEN_BYTES

    output: Annotated[
        str,
        Flag(
            "Folder of the run: chunks, rejects, report.",
            _WRITE,
            names=("-o", "--output"),
            metavar="DIR",
            affects_output=False,
        ),
    ]
    to_format: Annotated[
        str,
        Flag(
            "Format to write; `feedferry formats` lists them.",
            _WRITE,
            ValueType("FORMAT", parse_to),
            names=("--to",),
        ),
    ]
    datasource: Annotated[str | None, Flag("Datasource of the feeds.", _WRITE, metavar="NAME")] = (
        None
    )
    feedtype: Annotated[str | None, Flag("Feedtype of the feeds.", _WRITE, choice(*FEEDTYPES))] = (
        None
    )
    dialect: Annotated[str, Flag("Protocol version of GSA feeds.", _WRITE, choice(*DIALECTS))] = (
        DIALECTS[0]
    )
    max_chunk_bytes: Annotated[
        int, Flag("Most bytes of one chunk, below 1,000,000,000.", _WRITE, CHUNK_SIZE)
    ] = 900 * 1024 * 1024
    max_chunk_records: Annotated[
        int | None,
        Flag(
            "Most records of one chunk.", _WRITE, count_of("records", minimum=1), default="no limit"
        ),
    ] = None
    content_encoding: Annotated[
        str, Flag("Encoding of contents in feeds.", _WRITE, choice(*CONTENT_ENCODINGS))
    ] = CONTENT_ENCODINGS[0]
    empty_metadata: Annotated[
        EmptyMetadata, Flag("Drop metadata without a value, or write a placeholder.", _WRITE)
    ] = EmptyMetadata.DROP
    default_mimetype: Annotated[
        str | None, Flag("MIME type of documents that state none.", _WRITE, MIMETYPE)
    ] = None
    fields: Annotated[
        tuple[FieldMapping, ...],
        Flag("Write metadata NAME to FIELD of the target.", _WRITE, MAPPINGS, names=("--field",)),
    ] = ()
    known_urls: Annotated[
        str | None,
        Flag("Known URLs, one per line, to expand deletions by pattern.", _WRITE, metavar="FILE"),
    ] = None
    allow_wide_deletes: Annotated[bool, Flag("Let a pattern delete a whole host.", _WRITE)] = False
    allow_empty_full: Annotated[
        bool,
        Flag(
            "Write a full feed without records. It deletes all documents of its datasource.",
            _WRITE,
            affects_output=False,
        ),
    ] = False
    accept_holes: Annotated[
        bool,
        Flag(
            "Write a full feed from which documents are missing. It deletes them.",
            _WRITE,
            affects_output=False,
        ),
    ] = False
    delimiter: Annotated[
        str, Flag("Delimiter of the command streams that are written.", _WRITE, DELIMITER)
    ] = "\0"

    jobs: Annotated[
        int, Flag("Worker processes.", _RUN, count_of("processes", minimum=1), affects_output=False)
    ] = 1
    max_rejects: Annotated[
        RejectLimit | None,
        Flag("Stop if more records are rejected.", _RUN, REJECTS, default="no limit"),
    ] = None
    accept_loss: Annotated[
        frozenset[str],
        Flag("Convert without these fields, even acl and content.", _RUN, FIELDS),
    ] = frozenset()
    fail_on_loss: Annotated[
        frozenset[str], Flag("Stop if the target cannot hold these fields.", _RUN, FIELDS)
    ] = frozenset()
    fresh: Annotated[
        bool, Flag("Remove the files of an earlier run from DIR.", _RUN, affects_output=False)
    ] = False
    verify: Annotated[
        bool,
        Flag(
            "Resume on chunks of the right size without checking their SHA-256.",
            _RUN,
            affects_output=False,
        ),
    ] = True
    runner: Annotated[
        str | None,
        Flag(
            "Beam runner, by name or class.",
            _RUN,
            metavar="NAME",
            default="in this process",
            affects_output=False,
        ),
    ] = None
    beam_flags: tuple[str, ...] = ()


_SECTIONS = {TREE.name: Section.TREE, SPOOLS.name: Section.SPOOL}
"""Flags that only one source has."""


def parse(words: Mapping[str, object]) -> ConvertOptions:
    """Return the options whose texts `words` holds by field names; `None` means not given.

    Raises ConfigError for the first text or combination that cannot be used.
    """
    given = dict(words)
    if given.get("from_format") == ROWS.name and not given.get("inputs"):
        if given.get("mapping") is None:
            raise ConfigError("--mapping: not given; expected the YAML file of a database")
        given["inputs"] = (str(given["mapping"]),)
    if not given.get("inputs"):
        raise ConfigError("INPUT: none given; expected files, folders, globs, URLs or -")
    for name, flag in (("output", "-o/--output"), ("to_format", "--to")):
        if given.get(name) is None:
            raise ConfigError(f"{flag}: not given; see feedferry convert --help")
    options = decode(ConvertOptions, given)
    if options.datasource is not None:
        check_datasource(options.datasource)
    _check_losses(options)
    _check_feed(options)
    _check_streams(options)
    _check_sources(options)
    _check_state(options)
    _check_content_encoding(options)
    return options


def docids(options: ConvertOptions) -> Docids:
    """Return the rule that makes URLs of document ids; files and rows have rules of their own.

    Raises ConfigError for options that are no rule.
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


def refuse_flags(options: ConvertOptions, source: Source[Any]) -> None:
    """Raise ConfigError for a flag that only this source has."""
    for name, declared in flags_of(ConvertOptions).items():
        is_its_own = declared.flag.section is _SECTIONS.get(source.name)
        if is_its_own and getattr(options, name) != declared.default:
            raise ConfigError(
                f"{declared.names[0]}: not for this source; expected {source.noun}"
                f" (--from {source.name})"
            )


def _check_losses(options: ConvertOptions) -> None:
    both = sorted(options.accept_loss & options.fail_on_loss)
    if both:
        raise ConfigError(
            f"--accept-loss and --fail-on-loss: both name {', '.join(both)}; expected each field"
            " in one of them"
        )


def _check_feed(options: ConvertOptions) -> None:
    target = by_name(options.to_format)
    if target.holds_only_memberships and options.feedtype == METADATA_AND_URL:
        raise ConfigError(
            f"--feedtype {METADATA_AND_URL}: not for --to {target.name}; expected full or"
            " incremental"
        )
    if target.keeps_feedtypes:
        return
    for flag, value in (("--datasource", options.datasource), ("--feedtype", options.feedtype)):
        if value is not None:
            raise ConfigError(
                f"{flag} {value}: not for --to {options.to_format}, which has no feeds"
            )


def _check_streams(options: ConvertOptions) -> None:
    docids(options)
    if not options.strict or options.from_format in (None, PROGRAMS.name):
        return
    source = find_format(options.from_format)
    if source is None or not source.is_command_stream:
        raise ConfigError(
            f"--strict: not for --from {options.from_format}; expected a command stream"
        )


def _check_sources(options: ConvertOptions) -> None:
    source = options.from_format
    xml = [format_.name for format_ in all_formats() if format_.is_xml]
    if options.encoding is not None and source not in (None, SPOOLS.name, *xml):
        raise ConfigError(
            f"--encoding: not for --from {source}; expected a format in XML: {', '.join(xml)}"
        )
    if options.mapping is not None and source != ROWS.name:
        raise ConfigError(f"--mapping: not for this source; expected it with --from {ROWS.name}")
    for owner in (TREE, SPOOLS):
        if source not in (None, owner.name):
            refuse_flags(options, owner)
    if options.acl is None or not options.acl.startswith("posix"):
        for flag, value in (
            ("--acl-namespace", options.acl_namespace),
            ("--acl-everyone", options.acl_everyone),
        ):
            if value is not None:
                raise ConfigError(f"{flag}: given without --acl posix; expected both")


def _check_state(options: ConvertOptions) -> None:
    if options.refresh and options.state is None:
        raise ConfigError("--refresh: given without --state FILE; expected both")
    if options.state is not None and options.feedtype == FULL and not options.refresh:
        raise ConfigError(
            "--feedtype full: not with --state, because a full feed deletes documents that are not"
            " in it, and unchanged documents are left out; --refresh sends all"
        )


def _check_content_encoding(options: ConvertOptions) -> None:
    encoding = options.content_encoding
    if encoding == CONTENT_ENCODINGS[0]:
        return
    if not by_name(options.to_format).has_content_encodings:
        raise ConfigError(
            f"--content-encoding {encoding}: not for --to {options.to_format}, which has its own"
            " encoding; expected auto"
        )
    if encoding == "zlib" and options.dialect == DIALECT_5_0:
        raise ConfigError(
            "--content-encoding zlib: not for --dialect 5.0, which has no compression; expected"
            " auto or base64"
        )
