"""Options of `feedferry convert`, `plan` and `inspect`, each declared with its flag."""

from decimal import Decimal
from typing import Annotated, Any

import msgspec

from pipelines.options.flags import Flag, Section
from pipelines.options.value_parsers import (
    ACL,
    CHARSET,
    CHUNK_SIZE,
    DELIMITER,
    ENCODING,
    FIELDS,
    FROM,
    MAPPINGS,
    MIMETYPE,
    OUTPUT_FILE,
    OUTPUT_FOLDER,
    PATH,
    PATHS,
    PERCENT,
    POSITIVE_SIZE,
    REJECTS,
    SAMPLE,
    TO,
    ZONE,
    RejectLimit,
    SampleSize,
    choice,
    count_of,
)
from schemas.choices import (
    CONTENT_ENCODINGS,
    DIALECTS,
    EMPTY_METADATA,
    MAX_TOKEN_BYTES,
    URL_CHECKS,
    NotFound,
    Oversize,
    SpoolHistory,
)
from schemas.content import MAX_CONTENT_BYTES
from schemas.feed import FEEDTYPES

_READ = Section.READ
_TREE = Section.TREE
_SPOOL = Section.SPOOL
_STATE = Section.STATE
_STREAM = Section.STREAM
_WRITE = Section.WRITE
_RUN = Section.RUN


def _is_database(source: Any) -> bool:
    return bool(source.name == "database")


def _has_inputs(source: Any) -> bool:
    return not _is_database(source)


def _is_xml(source: Any) -> bool:
    return source.name == "spool" or bool(getattr(source, "is_xml", False))


def _is_stream(kind: Any) -> bool:
    return kind.name == "adaptor" or bool(getattr(kind, "is_command_stream", False))


def _has_docids(source: Any) -> bool:
    return source.name == "files" or _is_stream(source)


def _has_feedtypes(target: Any) -> bool:
    return bool(target.keeps_feedtypes)


def _has_encodings(target: Any) -> bool:
    return bool(target.has_content_encodings)


class HeadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The option that only `inspect` has."""

    head: Annotated[
        int | None,
        Flag("Print the first N records as JSON.", _READ, count_of("records", minimum=1)),
    ] = None


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The option that only `plan` has."""

    sample: Annotated[
        SampleSize | None,
        Flag(
            "Read at least this much of the input, evenly spread, and estimate the rest.",
            _READ,
            SAMPLE,
            default="all",
        ),
    ] = None


class ConvertOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a conversion; `None` means not stated. `beam_flags` are the words after `--`."""

    inputs: Annotated[
        tuple[str, ...],
        Flag(
            "Files, folders, globs and URLs to read.",
            _READ,
            PATHS,
            names=("INPUT",),
            key="source.path",
            fits=_has_inputs,
            affects_output=False,
        ),
    ]

    from_format: Annotated[
        str | None,
        Flag(
            "Format of the input.",
            _READ,
            FROM,
            names=("--from",),
            default="detected",
            key="source.type",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        Flag("Encoding of XML feeds; overrides their declaration.", _READ, ENCODING, fits=_is_xml),
    ] = None
    base_url: Annotated[
        str | None,
        Flag(
            "URL that paths of files or document ids are appended to.",
            _READ,
            metavar="URL",
            fits=_has_docids,
        ),
    ] = None
    url_template: Annotated[
        str | None,
        Flag(
            "URL of a document, with {path} for the path of a file or {id} for a document id.",
            _READ,
            metavar="URL",
            fits=_has_docids,
        ),
    ] = None
    mapping: Annotated[
        str | None,
        Flag(
            "YAML file that maps the rows of a database to documents.",
            _READ,
            PATH,
            fits=_is_database,
        ),
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
            ACL,
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
        tuple[str, ...], Flag("Read only this datasource or profile.", _SPOOL, metavar="NAME")
    ] = ()

    state: Annotated[
        str | None,
        Flag("Read only what changed since the last run with this file.", _STATE, OUTPUT_FILE),
    ] = None
    refresh: Annotated[bool, Flag("Read everything, and update the state.", _STATE)] = False
    min_records: Annotated[
        int,
        Flag(
            "Stop if the source has fewer records.",
            _STATE,
            count_of("records"),
            key="safety.min_records",
        ),
    ] = 1
    max_delete_percent: Annotated[
        Decimal,
        Flag(
            "Stop if a larger share of the source is gone.",
            _STATE,
            PERCENT,
            key="safety.max_delete_percent",
        ),
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
            OUTPUT_FOLDER,
            names=("-o", "--output"),
            key=None,
            affects_output=False,
        ),
    ]
    to_format: Annotated[
        str,
        Flag(
            "Format to write; `feedferry formats` lists them.",
            _WRITE,
            TO,
            names=("--to",),
            key="target.type",
        ),
    ]
    datasource: Annotated[
        str | None, Flag("Datasource of the feeds.", _WRITE, metavar="NAME", fits=_has_feedtypes)
    ] = None
    feedtype: Annotated[
        str | None, Flag("Feedtype of the feeds.", _WRITE, choice(*FEEDTYPES), fits=_has_feedtypes)
    ] = None
    dialect: Annotated[
        str, Flag("Protocol version of GSA feeds.", _WRITE, choice(*DIALECTS), fits=_has_encodings)
    ] = DIALECTS[0]
    max_chunk_bytes: Annotated[
        int,
        Flag(
            "Most bytes of one chunk, below 1,000,000,000.",
            _WRITE,
            CHUNK_SIZE,
            key="chunk.max_bytes",
        ),
    ] = 900 * 1024 * 1024
    max_chunk_records: Annotated[
        int | None,
        Flag(
            "Most records of one chunk.",
            _WRITE,
            count_of("records", minimum=1),
            default="no limit",
            key="chunk.max_records",
        ),
    ] = None
    content_encoding: Annotated[
        str,
        Flag(
            "Encoding of contents in feeds.",
            _WRITE,
            choice(*CONTENT_ENCODINGS),
            fits=_has_encodings,
        ),
    ] = CONTENT_ENCODINGS[0]
    empty_metadata: Annotated[
        str,
        Flag(
            "Drop metadata without a value, or write a placeholder.",
            _WRITE,
            choice(*EMPTY_METADATA),
        ),
    ] = EMPTY_METADATA[0]
    urls: Annotated[
        str,
        Flag("Accept or reject URLs that no appliance can serve.", _WRITE, choice(*URL_CHECKS)),
    ] = URL_CHECKS[0]
    default_mimetype: Annotated[
        str | None, Flag("MIME type of documents that state none.", _WRITE, MIMETYPE)
    ] = None
    fields: Annotated[
        tuple[tuple[str, str], ...],
        Flag("Write metadata NAME to FIELD of the target.", _WRITE, MAPPINGS, names=("--field",)),
    ] = ()
    known_urls: Annotated[
        str | None,
        Flag("Known URLs, one per line, to expand deletions by pattern.", _WRITE, PATH),
    ] = None
    allow_wide_deletes: Annotated[bool, Flag("Let a pattern delete a whole host.", _WRITE)] = False
    allow_empty_full: Annotated[
        bool,
        Flag(
            "Write a full feed without records. It deletes all documents of its datasource.",
            _WRITE,
            affects_output=False,
            key="safety.allow_empty_full",
        ),
    ] = False
    accept_holes: Annotated[
        bool,
        Flag(
            "Write a full feed from which documents are missing. It deletes them.",
            _WRITE,
            affects_output=False,
            key="safety.accept_holes",
        ),
    ] = False
    delimiter: Annotated[
        str,
        Flag(
            "Delimiter of the command streams that are written.", _WRITE, DELIMITER, fits=_is_stream
        ),
    ] = "\0"

    jobs: Annotated[
        int,
        Flag(
            "Worker processes.",
            _RUN,
            count_of("processes", minimum=1),
            affects_output=False,
            key="jobs",
        ),
    ] = 1
    max_rejects: Annotated[
        RejectLimit | None,
        Flag(
            "Stop if more records are rejected.",
            _RUN,
            REJECTS,
            default="no limit",
            key="rejects.max",
        ),
    ] = None
    accepted_rejects: Annotated[
        str | None,
        Flag(
            "List of known rejects, which do not count as new.",
            _RUN,
            PATH,
            key="rejects.accepted",
            affects_output=False,
        ),
    ] = None
    accept_loss: Annotated[
        frozenset[str],
        Flag(
            "Convert without these fields, even acl and content.", _RUN, FIELDS, key="loss.accept"
        ),
    ] = frozenset()
    fail_on_loss: Annotated[
        frozenset[str],
        Flag("Stop if the target cannot hold these fields.", _RUN, FIELDS, key="loss.fail_on"),
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
