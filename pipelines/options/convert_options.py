"""Options of `feedferry convert`, `plan` and `inspect`, each declared with its flag."""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

import msgspec

from feedferry.pipelines.options.flags import Flag, SourceOrFormat, declare
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import (
    ACL,
    CHARSET,
    CHUNK_SIZE,
    DELIMITER,
    ENCODING,
    FIELDS,
    FROM,
    MAPPINGS,
    MIMETYPE,
    PATH,
    PATHS,
    PERCENT,
    POSITIVE_SIZE,
    RUN_FOLDER,
    SAMPLE,
    SPAN_SIZE,
    STATE_FILE,
    TIMEOUT,
    TO,
    ZONE,
    SampleSize,
    choice,
    count_of,
    share_limit_of,
)
from feedferry.schemas.choices import (
    CONTENT_ENCODINGS,
    DIALECTS,
    EMPTY_METADATA,
    GROUPS,
    MAX_TOKEN_BYTES,
    SEARCH_DIALECTS,
    SOLR_DIALECTS,
    URL_CHECKS,
    NotFound,
)
from feedferry.schemas.content import MAX_CONTENT_BYTES
from feedferry.schemas.feed import FEEDTYPES
from feedferry.schemas.share_limit import ShareLimit
from feedferry.schemas.source_options import SourceOptions


def _is_database(kind: SourceOrFormat) -> bool:
    return kind.name == "database"


def _is_tree(kind: SourceOrFormat) -> bool:
    return kind.name == "files"


def _is_spool(kind: SourceOrFormat) -> bool:
    return kind.name == "spool"


def _is_xml(kind: SourceOrFormat) -> bool:
    return _is_spool(kind) or bool(getattr(kind, "is_xml", False))


def _is_stream(kind: SourceOrFormat) -> bool:
    return kind.name == "adaptor" or _has_option("docids", kind)


def _has_docids(kind: SourceOrFormat) -> bool:
    return _is_tree(kind) or _is_stream(kind)


def _has_feedtypes(kind: SourceOrFormat) -> bool:
    return bool(getattr(kind, "keeps_feedtypes", False))


def _has_option(name: str, kind: SourceOrFormat) -> bool:
    return name in getattr(kind, "option_names", ())


class HeadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The option that only `inspect` has."""

    head: int | None = None


declare(
    HeadOptions,
    Section.READ,
    head=Flag("Print the first N records as JSON.", count_of("records", minimum=1)),
)


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The option that only `plan` has."""

    sample: SampleSize | None = None


declare(
    PlanOptions,
    Section.READ,
    sample=Flag(
        "Read at least this much of the input, evenly spread, and estimate the rest.",
        SAMPLE,
        default="all",
    ),
)


ACLS_SUFFIX = ".acls"
"""Suffix of the file with the ACLs that a job keeps, next to its state."""


class TargetFormat(Protocol):
    """The format of a target, which decides over options; its type loads the codecs."""

    @property
    def chunk_bytes(self) -> int: ...

    @property
    def has_document_feeds(self) -> bool: ...

    @property
    def keeps_feedtypes(self) -> bool: ...

    @property
    def needs_decisions(self) -> bool: ...


class ConvertOptions(SourceOptions, frozen=True, kw_only=True):
    """Options of a conversion; `None` means not stated.

    `beam_flags` are the words after `--`, `kept_acls` is the file with the ACLs that a job keeps,
    and `own` are the options that formats and appliances declare, by name (see `own_options`).
    """

    inputs: tuple[str, ...]
    from_format: str | None = None
    encoding: str | None = None
    mapping: str | None = None
    zone: str = "UTC"
    max_content_bytes: int = MAX_CONTENT_BYTES
    strict: bool = False
    not_found: NotFound = NotFound.SKIP
    max_token_bytes: int = MAX_TOKEN_BYTES
    output: str
    transform: str | None = None
    dialect: str | None = None
    max_chunk_bytes: int | None = None
    max_chunk_records: int | None = None
    content_encoding: str = CONTENT_ENCODINGS[0]
    empty_metadata: str = EMPTY_METADATA[0]
    groups: str = GROUPS[0]
    urls: str = URL_CHECKS[0]
    default_mimetype: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    known_urls: str | None = None
    allow_wide_deletes: bool = False
    allow_empty_full: bool = False
    accept_holes: bool = False
    delimiter: str = "\0"
    max_rejects: ShareLimit | None = None
    accepted_rejects: str | None = None
    withhold: bool = True
    max_widened: ShareLimit | None = None
    accept_loss: frozenset[str] = frozenset()
    fail_on_loss: frozenset[str] = frozenset()
    fresh: bool = False
    verify: bool = True
    runner: str | None = None
    cluster: str | None = None
    parallelism: int | None = None
    workers_per_node: int | None = None
    stall: float = 900.0
    beam_flags: tuple[str, ...] = ()
    own: Mapping[str, object] = {}
    kept_acls: str | None = None

    @property
    def acls_path(self) -> str | None:
        """The file of the ACLs that later runs need: that of the job, else next to the state."""
        return self.kept_acls or (self.state and f"{self.state}{ACLS_SUFFIX}")

    @property
    def target_format(self) -> TargetFormat:
        """The format of the target; raises ConfigError if there is none of its name."""
        from feedferry.transforms.formats import by_name

        return by_name(self.to_format)


declare(
    ConvertOptions,
    Section.READ,
    inputs=Flag(
        "Files, folders, globs and URLs to read.",
        PATHS,
        key="source.path",
        fits=lambda source: not _is_database(source),
        affects_output=False,
    ),
    from_format=Flag("Format of the input.", FROM, default="detected", key="source.type"),
    encoding=Flag("Encoding of XML feeds; overrides their declaration.", ENCODING, fits=_is_xml),
    base_url=Flag(
        "URL that paths of files or document ids are appended to.", metavar="URL", fits=_has_docids
    ),
    url_template=Flag(
        "URL of a document, with {path} for the path of a file or {id} for a document id.",
        metavar="URL",
        fits=_has_docids,
    ),
    mapping=Flag(
        "YAML file that maps the rows of a database to documents.", PATH, fits=_is_database
    ),
    zone=Flag("Time zone of dates that state none.", ZONE),
    span_bytes=Flag(
        "Size of the parts of the input; auto is 32MiB, and up to 900MiB for large inputs.",
        SPAN_SIZE,
        default="auto",
    ),
    max_content_bytes=Flag("Most bytes of one document, decoded.", POSITIVE_SIZE),
)
declare(
    ConvertOptions,
    Section.TREE,
    _is_tree,
    include=Flag("Read only files that match; re:REGEX is possible.", metavar="GLOB"),
    exclude=Flag("Do not read files that match; re:REGEX is possible.", metavar="GLOB"),
    hidden=Flag("Also read files whose names begin with a dot."),
    follow_links=Flag("Follow symbolic links."),
    open_archives=Flag("Read the files in zip, tar and gz archives."),
    oversize=Flag("Reject files above --max-content-bytes, or send only their metadata."),
    charset=Flag("Charset of text that is not UTF-8 and declares none.", CHARSET),
    name_charset=Flag("Charset of names of files that are not UTF-8, also in archives.", CHARSET),
    path_metadata=Flag("Add the parts of the path as metadata."),
    display_url=Flag("URL that users see, with {path} in it.", metavar="URL"),
    acl=Flag(
        "Who may see the files: as their permissions say, everyone, or as a CSV file says.", ACL
    ),
    acl_namespace=Flag("Namespace of the users and groups of --acl posix.", metavar="NAME"),
    acl_everyone=Flag("Group that file permissions call others.", metavar="GROUP"),
)
declare(
    ConvertOptions,
    Section.SPOOL,
    _is_spool,
    history=Flag("Skip feeds that a later feed replaced, or read all."),
    only=Flag("Read only this datasource or profile.", metavar="NAME"),
)
declare(
    ConvertOptions,
    Section.STATE,
    state=Flag("Read only what changed since the last run with this file, or URI.", STATE_FILE),
    refresh=Flag("Read everything, and update the state."),
    min_records=Flag(
        "Stop if the source has fewer records.", count_of("records"), key="safety.min_records"
    ),
    max_delete_percent=Flag(
        "Stop if a larger share of the source is gone.", PERCENT, key="safety.max_delete_percent"
    ),
)
declare(
    ConvertOptions,
    Section.STREAM,
    _is_stream,
    strict=Flag("Read command streams as the deployed parser does."),
    not_found=Flag("Skip or delete documents that the retriever does not find."),
    max_token_bytes=Flag("Most bytes of one token of a stream.", POSITIVE_SIZE),
)
declare(
    ConvertOptions,
    Section.WRITE,
    output=Flag(
        "Folder of the run: chunks, rejects, report; or a URI of object storage.",
        RUN_FOLDER,
        names=("-o", "--output"),
        key=None,
        affects_output=False,
    ),
    to_format=Flag("Format to write; `feedferry formats` lists them.", TO, key="target.type"),
    transform=Flag("YAML file with steps that change records.", PATH, key="transform"),
    datasource=Flag("Datasource of the feeds.", metavar="NAME", fits=_has_feedtypes),
    feedtype=Flag("Feedtype of the feeds.", choice(*FEEDTYPES), fits=_has_feedtypes),
    dialect=Flag(
        "Protocol version of GSA feeds, or the kind of a search server.",
        choice(*DIALECTS, *SEARCH_DIALECTS, *SOLR_DIALECTS),
        default=f"{DIALECTS[0]} for feeds; a server is asked",
        fits=lambda kind: bool(getattr(kind, "dialects", ())),
    ),
    max_chunk_bytes=Flag(
        "Most bytes of one chunk, below 1,000,000,000.",
        CHUNK_SIZE,
        default="900MiB, or the size that suits the target",
        key="chunk.max_bytes",
    ),
    max_chunk_records=Flag(
        "Most records of one chunk.",
        count_of("records", minimum=1),
        default="no limit",
        key="chunk.max_records",
    ),
    content_encoding=Flag(
        "Encoding of contents in feeds.",
        choice(*CONTENT_ENCODINGS),
        fits=partial(_has_option, "content_encoding"),
    ),
    empty_metadata=Flag(
        "Drop metadata without a value, or write a placeholder.", choice(*EMPTY_METADATA)
    ),
    groups=Flag(
        "Send groups after the documents, as groups feeds, or leave them out.",
        choice(*GROUPS),
        fits=partial(_has_option, "groups"),
    ),
    urls=Flag("Accept or reject URLs that no appliance can serve.", choice(*URL_CHECKS)),
    default_mimetype=Flag("MIME type of documents that state none.", MIMETYPE),
    fields=Flag("Write metadata NAME to FIELD of the target.", MAPPINGS),
    known_urls=Flag("Known URLs, one per line, to expand deletions by pattern.", PATH),
    allow_wide_deletes=Flag("Let a pattern delete a whole host."),
    allow_empty_full=Flag(
        "Write a full feed without records. It deletes all documents of its datasource.",
        affects_output=False,
        key="safety.allow_empty_full",
    ),
    accept_holes=Flag(
        "Write a full feed from which documents are missing. It deletes them.",
        affects_output=False,
        key="safety.accept_holes",
    ),
    delimiter=Flag(
        "Delimiter of the command streams that are written.", DELIMITER, fits=_is_stream
    ),
)
declare(
    ConvertOptions,
    Section.RUN,
    jobs=Flag(
        "Worker processes.", count_of("processes", minimum=1), affects_output=False, key="jobs"
    ),
    max_rejects=Flag(
        "Stop if more records are rejected.",
        share_limit_of("records"),
        default="no limit",
        key="rejects.max",
    ),
    accepted_rejects=Flag(
        "List of known rejects, which do not count as new.",
        PATH,
        key="rejects.accepted",
        affects_output=False,
    ),
    withhold=Flag(
        "Do not hide documents of a search server whose new versions are rejected.",
        key="rejects.withhold",
    ),
    max_widened=Flag(
        "Stop a push if more documents would be seen by more users.",
        share_limit_of("documents"),
        default="no limit",
        affects_output=False,
        key="safety.max_widened",
    ),
    accept_loss=Flag(
        "Convert without these fields, even acl and content.", FIELDS, key="loss.accept"
    ),
    fail_on_loss=Flag("Stop if the target cannot hold these fields.", FIELDS, key="loss.fail_on"),
    fresh=Flag("Remove the files of an earlier run from DIR.", affects_output=False),
    verify=Flag(
        "Resume on chunks of the right size without checking their SHA-256.", affects_output=False
    ),
    runner=Flag(
        "Beam runner, by name or class.",
        metavar="NAME",
        default="in this process",
        affects_output=False,
        key="cluster.runner",
    ),
    cluster=Flag(
        "Address of the cluster of --runner: a Dask scheduler, a Flink or Spark master, or a job"
        " service of Beam.",
        metavar="URL",
        affects_output=False,
        key="cluster.url",
    ),
    parallelism=Flag(
        "With --runner, spans that the cluster converts at the same time.",
        count_of("spans", minimum=1),
        default="that of the cluster",
        affects_output=False,
        key="cluster.parallelism",
    ),
    workers_per_node=Flag(
        "With --runner, Python processes for each worker node.",
        count_of("processes", minimum=1),
        default="that of the runner, 1 for Flink",
        affects_output=False,
        key="cluster.workers_per_node",
    ),
    stall=Flag(
        "With --runner, cancel the job after this time without progress.",
        TIMEOUT,
        affects_output=False,
        key="cluster.stall",
    ),
)


ON_A_CLUSTER = ("runner", "cluster", "parallelism", "workers_per_node", "stall")
"""The options of where a conversion runs."""
