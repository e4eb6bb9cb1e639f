"""The interface of a format: `Format`, and the options of readers, adapters and writers."""

import enum
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from importlib import import_module
from typing import IO, Any, NamedTuple, Protocol

import msgspec

from feedferry.schemas.choices import CONTENT_ENCODINGS
from feedferry.schemas.content import MAX_CONTENT_BYTES
from feedferry.schemas.errors import ConfigError, FormatError
from feedferry.schemas.feed import Feed, FeedHeader
from feedferry.schemas.membership import RecordOrMembership
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.own_key import Own
from feedferry.schemas.record import Action, Crawl, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.span import Span, SpanEnd
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.places import Places

MORE_BYTES = 4 << 20
"""The most bytes of a record besides its content."""
MIN_TAGS = 10_000
BYTES_A_TAG = 100
"""A record may have one tag more for each of these bytes of the largest content."""

_FRAME_BYTES = 64 << 10


ReadResult = (
    RecordOrMembership
    | Reject
    | Filtered
    | Notice
    | FeedHeader
    | RecordBatch
    | ElementBlock
    | SpanEnd
)
"""An item that a reader yields; most formats have records and rejects only.

A SpanEnd is the last item, and only of a span with a grid.
"""

Outcome = Record | Reject | Filtered
Adapted = tuple[tuple[Outcome, ...], tuple[Loss, ...]]
"""The outcomes of one record, at least one, and its losses."""

Adapter = Callable[[Record], Adapted]


class OwnOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of all formats, and `own`: those of single formats, in the structs they declare."""

    own: tuple[msgspec.Struct, ...] = ()

    def of(self, kind: type[Own]) -> Own:
        """Return the options of a format; the defaults of its struct if none are stated."""
        return next((options for options in self.own if isinstance(options, kind)), None) or kind()


class ContentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The encoding of contents, for formats that leave it to the user.

    `auto` keeps it, and text stays text; `zlib`, in base64, is used where it is shorter.
    """

    content_encoding: str = CONTENT_ENCODINGS[0]


class ReadOptions(OwnOptions, frozen=True, kw_only=True):
    """Limits and conventions of reading.

    `max_content_bytes` is the limit of one decoded document. `zone` is the IANA time zone of dates
    without one. `used_header` are the values in the header of a feed that the run uses, and that
    must therefore be right. Records that are alike may come in batches of at most `batch_records`;
    with 0, there are no batches. With `acls_in_blocks`, records with ACLs come in blocks instead,
    for a target that has one piece for a whole ACL.
    """

    batch_records: int = 0
    acls_in_blocks: bool = False
    max_content_bytes: int = MAX_CONTENT_BYTES
    used_header: frozenset[str] = frozenset()
    zone: str = "UTC"

    @property
    def max_unit_bytes(self) -> int:
        """The most bytes of an encoded record: its content in base64 or with entities, and more."""
        return self.max_content_bytes * 3 // 2 + MORE_BYTES

    @property
    def max_tags(self) -> int:
        """The most tags of a record that is parsed; each takes about a kilobyte of memory."""
        return max(MIN_TAGS, self.max_content_bytes // BYTES_A_TAG)


class WriteOptions(OwnOptions, frozen=True, kw_only=True):
    """Conventions of writing; each format uses the options that concern it.

    `feed` is the feed that a chunk states, `zone` the IANA time zone of dates without one,
    `max_content_bytes` the limit of a document that is decoded to be written. With `memberships`,
    the chunk has groups and no documents, in formats that hold both.

    `run` is the name of the run, the same when it is resumed, and `generation` a number from 1 that
    grows from run to run of a job. A replay of rejects has the generation of the run that read the
    documents, so they are no newer than those of later runs. A conversion without a job, which
    writes the same bytes in any folder, has no name and the generation 0, older than any run. In a
    gateway, each delivery is a run, and its ordinal is the generation.
    """

    feed: Feed = Feed(datasource="default", feedtype="incremental")
    zone: str = "UTC"
    max_content_bytes: int = MAX_CONTENT_BYTES
    memberships: bool = False
    run: str = ""
    generation: int = 0


class Target(OwnOptions, frozen=True, kw_only=True):
    """A format, and the user's choices for values that it holds only in part.

    A deletion by pattern is expanded against `known_urls` where the target has no patterns; where
    it has, `allow_wide_deletes` allows one that empties a host. `max_content_bytes` is the limit of
    a document that must be decoded. With `urls` strict, documents whose URL no appliance can serve
    are rejected.
    """

    format: str
    feedtype: str | None = None
    datasource: str | None = None
    known_urls: tuple[str, ...] = ()
    allow_wide_deletes: bool = False
    default_mimetype: str | None = None
    max_content_bytes: int = MAX_CONTENT_BYTES
    urls: str = "any"


class Reader(Protocol):
    """Yields the records of a stream in order; raises FormatError if no record can be found."""

    def __call__(
        self, stream: IO[bytes], *, span: Span = ..., options: ReadOptions = ...
    ) -> Iterator[ReadResult]: ...


class Splitter(Protocol):
    """Yields adjacent spans of about `span_bytes`; together, they read as the whole stream does.

    A record that the reader does not take by its options is not examined by the splitter either.
    """

    def __call__(
        self, stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ...
    ) -> Iterator[Span]: ...


class Encoder(Protocol):
    """The writer of a format, in parts, so that chunks have an exact size.

    A chunk is `prolog()`, then `frame(…)` of each part of the encoded records, then `epilog()`. A
    frame is at most `frame_bytes` longer than its records. No method has state.
    """

    extension: str
    frame_bytes: int = 0

    def prolog(self) -> bytes:
        return b""

    def encode(self, record: Any) -> bytes:  # a Record, a Membership, or either
        """Return one record's bytes; raise RecordError if the format cannot hold it."""
        ...

    def frame(self, records: list[bytes]) -> bytes:
        return b"".join(records)

    def epilog(self) -> bytes:
        return b""


def deferred(place: str) -> Any:  # the type is that of the function, which is not known yet
    """Return a function that imports the function at `MODULE:NAME` when it is first called.

    Codecs take a tenth of a second to load, and most commands need one or two of them.
    """
    module, _, name = place.partition(":")

    def call(*args: object, **options: object) -> object:
        return getattr(import_module(f"feedferry.transforms.formats.{module}"), name)(
            *args, **options
        )

    return call


def _keep_whole(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    yield Span(source=source)


def _no_reader(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    raise FormatError(f"{span.source}: of a format that is only written; expected one that is read")


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What the bytes of a file from one multiple of its grid to the next show of its borders.

    `begin` is the place of what looks like the first record there, None without one. The format
    decides which line ends are counted as `lines`, and which pieces that state a context are the
    `frames`.
    """

    begin: int | None
    lines: int = 0
    frames: tuple[bytes, ...] = ()


OpenAt = Callable[[int], AbstractContextManager[IO[bytes]]]
"""Opens a file at an offset."""


class Borders(Protocol):
    """Guesses the borders of a grid, so that its spans can be read at the same time.

    A guess may be wrong: only the reader of a span knows its end.
    """

    def survey(self, open_at: OpenAt, span: Span) -> Survey:
        """Survey the file of a span from the offset of the span, a multiple of its grid."""
        ...

    def guess(self, surveys: Iterable[Survey]) -> Iterator[SpanEnd]:
        """Yield the guesses from the surveys of a file, each after the survey of its part."""
        ...


HINTS = Crawl.__struct_fields__
MAX_MATCH_BYTES = 4096
"""The most bytes that a search of a stream for a pattern keeps."""

FIELDS = frozenset((*Record.__struct_fields__, *HINTS)) - {"url", "action", "crawl", "extras"}
"""The names of fields that a format may hold: those of a record, and those of its hints."""


class Kind(enum.Enum):
    """The kinds of records that formats hold or refuse, as the tables of losses name them."""

    CONTENT = "document with content"
    TEXT = "document with text only"
    UNTYPED = "document without MIME type"
    EMPTY = "document without content"
    CRAWLED = "URL to be crawled"
    DOCUMENT_ID = "document id, not a URL"
    UPDATE = "update of metadata"
    UPDATE_OF_FIELDS = "update of single fields"
    UPDATE_OF_NOTHING = "update of a URL alone"
    DELETION = "deletion"
    PATTERN = "deletion by pattern"
    WIDE = "deletion of a whole host"
    INDEX = "update of the search indexes"
    ALONE = "ACL without a document"
    ANY = "documents of any kind"
    GROUP = "group with members"


class KindRefusal(NamedTuple):
    """The code and the reason of a reject; the reason ends with a clause that names its cure."""

    code: str
    reason: str


WHOLE_DOCUMENTS = dict.fromkeys(
    (Kind.UPDATE, Kind.UPDATE_OF_FIELDS, Kind.UPDATE_OF_NOTHING),
    KindRefusal(
        "partial-update",
        "an update of some fields; expected a whole document: the step `merge` makes one",
    ),
)
"""What is refused by a target that replaces all of a document."""


class Holds(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a record that a format holds, next to the URL. Undeclared fields are lost.

    The default is closed: URLs of documents. `holding.hold` applies the consequences: what is
    a loss, what is rejected, and what moves to another field. A lost protection is a loss of `acl`.
    """

    fields: AbstractSet[str] = frozenset()
    """Names of `FIELDS`; with `arrival`, a URL to be crawled remains one."""

    extras: tuple[str, ...] = ()
    """The begin of the places of held extras."""

    encodings: bool = False
    """Whether a content may be in base64 or zlib; otherwise, it is decoded."""

    actions: AbstractSet[Action] = frozenset({Action.ADD})
    """Empty for a format that holds no documents."""

    acls_alone: bool = False
    """Whether an ACL may be written without a document."""

    decisions: bool = False
    """Whether an ACL is held by the decision of its whole chain, which a step resolves."""

    memberships: bool = False

    groups_feed: str = ""
    """The name of the format of groups, if the target takes them as feeds of their own."""

    partly: Mapping[str, str] = {}
    """The values that are lost of fields that are held, for the tables of losses."""

    refuses: Mapping[Kind, KindRefusal] = {}
    """Kinds of records that are rejected for a reason that the other declarations do not give."""

    absolute_urls: bool = False
    """Whether a document needs an absolute URL."""

    empty_metadata: bool = True
    """Whether metadata may have an empty value; otherwise, an empty text is not moved there."""

    def __post_init__(self) -> None:
        unknown = sorted(self.fields - FIELDS)
        if unknown:
            raise ValueError(f"{unknown[0]!r}; expected fields of {', '.join(sorted(FIELDS))}")
        if self.actions and Action.ADD not in self.actions:
            raise ValueError("actions without ADD; expected ADD, or no actions")

    @property
    def keeps_acls_alone(self) -> bool:
        return self.acls_alone and "acl" in self.fields


EVERYTHING = Holds(
    fields=FIELDS,
    extras=("",),
    encodings=True,
    actions=frozenset(Action),
    acls_alone=True,
    decisions=True,
    memberships=True,
)


class StatedValue(NamedTuple):
    """A field of a record, the name of its loss, and the form of its values in words."""

    field: str
    loss: str
    expected: str


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A format of records: how it is recognised, read and written, and what it can hold.

    Each format has one object, in `FORMATS`. The rest of the program asks the object and never
    compares names. The defaults are the safe ones.
    """

    name: str
    """The name on the command line and in manifests, in kebab-case."""

    title: str
    """One line for `feedferry formats`."""

    read: Reader = _no_reader
    """Without it, the format is only written."""

    split: Splitter = _keep_whole
    """Without it, a file is one span."""

    borders: Callable[[], Borders] | None = None
    """With it, the reader ends a span with a grid at a border, and `split` yields such spans."""

    encoder: Callable[[WriteOptions], Encoder] | None = None
    """Without it, the format is only read."""

    holds: Holds = Holds()
    """What a record may have in the format."""

    values: Callable[[], Mapping[str, StatedValue]] = dict
    """Returns the values of a known form, by the place of an extra that has another form."""

    options: tuple[type[msgspec.Struct], ...] = ()
    """The structs of the options that only this format has, or few formats have."""

    variant: Callable[[Target], Holds] | None = None
    """Returns what a chunk for a target holds, where that depends on its feedtype or release."""

    adapter: Callable[[Target], Adapter] | None = None
    """Returns the function that adapts records to the format; without it, `holds` decides."""

    matches: Callable[[bytes], bool] = lambda _head: False
    """Whether the first bytes of a stream begin a stream of this format."""

    element_names: ElementNames | None = None
    """The elements of an XML format: its root, and those of its records.

    By these, the format is recognised.
    """

    find_records: Callable[[IO[bytes], Collection[str]], Iterator[Record]] | None = None
    """Finds the records of a URL in a chunk, without reading the others."""

    places: Callable[..., Places] | None = None
    """Finds the records of a chunk, so that it can be sent in parts.

    It is called with a stream, and `source`, its name in messages. Raises FormatError for a stream
    of another format. Without it, a chunk is sent as a whole.
    """

    dtd: str | None = None
    """The name of the DTD of these elements, a file in `schemas`."""

    is_common_text: bool = False
    """Whether documents that are no feeds often match: a folder of such files may be either."""

    related_acls: tuple[re.Pattern[bytes], ...] = ()
    """One of them is found in each text, in lower case, in which an ACL inherits or is alone.

    A match has at most `MAX_MATCH_BYTES`. Without patterns, any stream may have such ACLs. Patterns
    that begin with a text are found several times as fast as alternatives in one.
    """

    has_one_record: bool = False
    """Whether a file holds one record."""

    has_record_ends: bool = False
    """Whether a record states its end, so that the last record before a fault is known whole."""

    dialects: tuple[str, ...] = ()
    """The releases or kinds of the target that a user may state."""

    has_feedtypes: bool = False
    """Whether a chunk is pushed as a full or an incremental feed of a datasource."""

    keeps_unlisted: bool = False
    """Whether the target keeps the documents that a full feed leaves out."""

    content_type: str = "text/xml"
    """The content type of a chunk in a multipart form."""

    chunk_bytes: int = 900 << 20
    """The most bytes of a chunk, unless the user states another size: what targets take well."""

    @property
    def needs_decisions(self) -> bool:
        """Whether the target has no ACLs, so that what they decide is resolved before."""
        return self.holds.decisions and not self.keeps_everything

    @property
    def withholds(self) -> bool:
        """Whether a document whose new version is rejected can be shown to nobody."""
        return self.needs_decisions and self.holds.keeps_acls_alone

    def may_relate_acls(self, text: bytes) -> bool:
        """Whether an ACL in a text may inherit or be alone; texts with NUL may be in UTF-16."""
        if not self.related_acls or b"\0" in text:
            return True
        lower = text.lower()
        return any(pattern.search(lower) for pattern in self.related_acls)

    @property
    def option_names(self) -> frozenset[str]:
        return frozenset(name for kind in self.options for name in kind.__struct_fields__)

    @property
    def is_read(self) -> bool:
        return self.read is not _no_reader

    @property
    def is_xml(self) -> bool:
        return self.element_names is not None

    def held_by(self, target: Target) -> Holds:
        """Return what a record may have in a chunk for a target."""
        return self.holds if self.variant is None else self.variant(target)

    def takes_updates(self, target: Target) -> bool:
        """Whether a target takes changes of fields without the content."""
        holds = self.held_by(target)
        return Action.UPDATE in holds.actions and Kind.UPDATE not in holds.refuses

    @property
    def keeps_everything(self) -> bool:
        """Whether a record is written without losing a field; it is then not adapted."""
        return self.holds == EVERYTHING

    @property
    def holds_only_memberships(self) -> bool:
        return self.holds.memberships and not self.holds.actions

    @property
    def has_document_feeds(self) -> bool:
        """Whether a chunk is a feed of documents, and may state which in its first bytes."""
        return self.has_feedtypes and bool(self.holds.actions)

    @property
    def keeps_feedtypes(self) -> bool:
        """Whether the feedtype of a feed survives, in the push or in the records."""
        return self.has_feedtypes or self.keeps_everything

    def is_fetched_by_target(self, *, datasource: str | None, feedtype: str | None) -> bool:
        """Whether the target fetches the documents of such a feed itself."""
        held = self.held_by(Target(format=self.name, datasource=datasource, feedtype=feedtype))
        return "arrival" in held.fields and "content" not in held.fields

    def find_places(self, stream: IO[bytes], *, source: str = "") -> Places:
        """Return the places of the records of a chunk.

        Raise FormatError, which names the `source`, if it is no chunk of the format, or if chunks
        of the format have no parts.
        """
        if self.places is None:
            raise FormatError(f"{source}: {self.name}; expected a format whose chunks have parts")
        return self.places(stream, source=source)

    def make_encoder(self, options: WriteOptions) -> Encoder:
        """Return an encoder; raise ConfigError if the format is only read."""
        if self.encoder is None:
            raise ConfigError(
                f"⟦to_format⟧ {self.name}: only read; expected a format that is written"
            )
        return self.encoder(options)


def write_all(encoder: Encoder, records: Iterable[RecordOrMembership], stream: IO[bytes]) -> None:
    """Write all records as one chunk; the stream stays open."""
    stream.write(encoder.prolog())
    stream.writelines(frames(encoder, map(encoder.encode, records)))
    stream.write(encoder.epilog())


def frames(encoder: Encoder, encoded: Iterable[bytes]) -> Iterator[bytes]:
    """Yield encoded records in frames of about 64 kB; a larger record has its own."""
    pending: list[bytes] = []
    size = 0
    for data in encoded:
        pending.append(data)
        size += len(data)
        if size >= _FRAME_BYTES:
            yield encoder.frame(pending)
            pending, size = [], 0
    if pending:
        yield encoder.frame(pending)
