"""The kinds of appliances: one `ApplianceProtocol` object for each.

Another kind is added by an object of another package, which names it as an entry point of the group
`feedferry.appliances`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from feedferry.schemas.account import Chunk
from feedferry.schemas.check import CheckLine
from feedferry.schemas.feed import FULL
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.own_key import Own
from feedferry.schemas.record import Record
from feedferry.schemas.share_limit import ShareLimit
from feedferry.transforms.rules.acl_changes import AccessComparison
from feedferry.transforms.sinks.push.model import (
    REQUEST_BYTES_LIMIT,
    ApplianceResponse,
    ChunkPart,
    Verdict,
)
from feedferry.transforms.sinks.push.throttle.backlog import BacklogCount
from feedferry.transforms.sinks.push.wire.auth import Auth
from feedferry.transforms.sinks.push.wire.body import RequestBody

_NOT_IN_NAME = re.compile("[^A-Za-z0-9.-]")
_PORTS = {"http": 80, "https": 443}


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where an appliance takes feeds of some formats, and in which form.

    `name` is the last part of its path, `formats` are the names of the formats that it takes.
    `path` follows the address of the appliance. `source_field` is the form field with the name of
    the datasource; forms without one have no feedtypes either. `feedtypes` can be sent; a file that
    states none is sent with `default_feedtype`. A datasource in `feedtypes_of` has those instead,
    and needs none.
    """

    name: str
    formats: tuple[str, ...]
    path: str = ""
    source_field: str = ""
    feedtypes: tuple[str, ...] = ()
    default_feedtype: str | None = None
    feedtypes_of: Mapping[str, tuple[str, ...]] = {}


class Address(NamedTuple):
    """The parts of a URL; `port` is `:PORT`, or empty if it is not stated."""

    scheme: str
    host: str
    port: str
    path: str


class SendContext(NamedTuple):
    """What a request depends on apart from its part of a chunk.

    `feedtype` replaces that of the chunk. `begun` is what `begin` of the appliance has returned.
    """

    profile: str = ""
    feedtype: str | None = None
    begun: object = None


Hide = Callable[[list[tuple[int, str]], ChunkPart, SendContext], tuple[str, RequestBody]]
"""Makes a request that shows documents to no user, by their numbers in a chunk and their URLs."""


Guard = Callable[["ApplianceReader", ChunkPart, object], None]


class ComparedRun(Protocol):
    """A run whose chunks are compared with an appliance, which changes nothing there."""

    chunks: Sequence[Chunk]
    folder: Path

    @property
    def appliance(self) -> "Appliance": ...

    @property
    def max_widened(self) -> ShareLimit | None: ...

    def open(self, chunk: Chunk) -> AbstractContextManager[IO[bytes]]:
        """Open the file of a chunk; raise SourceError if it cannot be read."""
        ...

    def show(self, progress: str) -> None:
        """Show the progress of a step, until the step ends."""
        ...

    def request(
        self,
        path: str,
        body: RequestBody | None = None,
        *,
        method: str = "GET",
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        """Return a response of any status, as `ApplianceReader` does; it may be sent twice."""
        ...


class RunSession(ComparedRun, Protocol):
    """A run at an appliance; `PushSession` is its class.

    The paths of `chunks` are relative to `root`.

    `earlier` is what `begin` has returned for the run before it, of the same client, if each of its
    requests had a reply: none of them can arrive late. Otherwise it is None.
    """

    root: Path
    refused: int
    accepted_refusals: int
    earlier: object

    def step(self, name: str, action: Callable[[], str]) -> str:
        """Do a step, unless an earlier push has done it; return its reply."""
        ...

    def send(
        self,
        path: str,
        body: RequestBody | None,
        *,
        method: str = "POST",
        is_below_address: bool = True,
    ) -> str:
        """Send a request until it is accepted; return the words of the appliance."""
        ...


class ListedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that an appliance has, without its content.

    `size` and `sha256` are those of the decoded content; both are None if there is none.
    """

    record: Record
    size: int | None = None
    sha256: bytes | None = None


class FailedProbe(msgspec.Struct, frozen=True, kw_only=True):
    """A search that has found a document, or not found it, against its ACL."""

    person: str
    is_found: bool


class ApplianceReader(Protocol):
    """Sends the requests that read from an appliance; `TargetReader` is its class."""

    @property
    def appliance(self) -> "Appliance": ...

    def request(
        self,
        path: str,
        body: RequestBody | None = None,
        *,
        method: str = "GET",
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        """Return a response of any status; raise TargetError if there is none.

        A request that fails for a while is repeated, so it must state the place where it reads on.
        The path follows the address of the appliance, or else its host.
        """
        ...

    def pause(self, seconds: float) -> None: ...


WriteGroups = Callable[[ApplianceReader, Sequence[Membership] | None, str], Iterator[str]]


class ApplianceProtocol(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of appliance takes feeds, and what it can do.

    `options` is the struct of the options that only this kind has; fields that have an `OwnKey` are
    keys of a job. The option `path_option` follows the address that a user states.

    The first of its `endpoints` takes documents. `find_url` returns the URL of an appliance at an
    address, None for an address of another kind; `addresses` describes them in messages. A kind
    that `takes_any_path` is asked after the others. `make_cleanup` makes the request that removes
    the groups of a groupsource.

    `exchange` returns what a full feed of a datasource exchanges, in words for a plan.
    `check_feeds` raises TargetError or ConfigError for chunks that no run can send.
    `compare_access` compares who sees documents before and after a run, which has not begun, and
    writes the list of changes to its folder. It reads only the lines that `access_lines` yields of
    those of a chunk.

    `begin` prepares the appliance for the chunks of a run, before the first of them is sent, and
    `finish` ends the run when all of them are settled. Both do what they do in steps of the session
    (see `PushSession`), and raise TargetError if the push cannot go on.

    `make_request` returns the path and the body of a request; it raises SourceError if the file of
    the part cannot be read. `hide` returns those of a request that shows documents to no user:
    of records that were refused, by their numbers in the chunk and their URLs.

    `guard` is called before each request for a part of a chunk, with what `begin` has returned. It
    raises TargetError if another run has taken over.

    A kind that `fetches_chunks` reads the files of chunks itself: `finish` names them, and no chunk
    is sent.

    `judge` returns the meaning of a complete response to a part of a chunk, or to another request;
    it returns None for an unknown text, whose status then decides.
    `judge_probe` returns whether this machine is trusted, by the response to a GET of `probe_path`,
    which changes nothing. `check` yields the lines of further requests, which change nothing
    either, for a job before its first run. `read_backlog` reads how many feeds wait; without it,
    the appliance does not report that. A request has at most `max_records`, and fewer bytes than
    `max_request_bytes`; fewer bytes than `gzip_bytes` may be compressed. Messages contain
    `acceptance`, what the appliance says when it accepts a feed, and what fixes a server, an
    address or a missing trust.

    `list_documents` yields the documents of a datasource or profile, or all without one, in any
    order, for a comparison with what was sent. It reads page by page, so that memory does not
    depend on their number. It raises BusyError if feeds wait to be indexed, and TargetError if
    there is no list. Without it, `no_list` is the reason. `listed_fields` are the fields that its
    records state, by the names of differences; others are not compared.

    `as_listed` returns a record of the input in the form of the list: an appliance that has an ACL
    in other terms, or a digest in place of fields, has them computed for both sides. Without it,
    records are compared as they are. `probe` searches for a document, in the form of `as_listed`,
    as people who may see it and as people who may not. `find_versions` yields the document of a URL
    in each datasource with the decision that it has.

    `takes_groups` returns whether the groups of a job are written to an appliance, too.
    `write_groups` writes those of a job where they have changed, and yields notices; None in place
    of groups that are not all known removes them. `find_groups` returns the groups of users and
    groups.
    """

    name: str
    endpoints: tuple[Endpoint, ...]
    options: type[msgspec.Struct] | None = None
    path_option: str = ""
    addresses: str
    find_url: Callable[[Address], str | None]
    takes_any_path: bool = False
    fetches_chunks: bool = False
    acceptance: str
    fix_server: str
    fix_address: str
    fix_trust: str
    make_request: Callable[[ChunkPart, SendContext], tuple[str, RequestBody]]
    hide: Hide | None = None
    guard: Guard | None = None
    judge: Callable[[ApplianceResponse, ChunkPart | None], Verdict | None]
    judge_probe: Callable[[ApplianceResponse], CheckLine]
    check: Callable[[ApplianceReader], Iterable[CheckLine]] | None = None
    make_cleanup: Callable[[str], tuple[str, RequestBody]] | None = None
    exchange: Callable[["Appliance", str], str] | None = None
    check_feeds: Callable[["Appliance", Sequence[Chunk]], None] | None = None
    compare_access: Callable[[ComparedRun], AccessComparison] | None = None
    access_lines: Callable[[Iterable[bytes]], Iterator[bytes]] | None = None
    begin: Callable[[RunSession], object] | None = None
    finish: Callable[[RunSession], object] | None = None
    list_documents: Callable[[ApplianceReader, str | None], Iterator[ListedDocument]] | None = None
    no_list: str = ""
    listed_fields: frozenset[str] = frozenset()
    as_listed: Callable[[Record], Record] | None = None
    find_versions: Callable[[ApplianceReader, str], Iterator[Record]] | None = None
    probe: Callable[[ApplianceReader, Record], Iterator[FailedProbe]] | None = None
    takes_groups: Callable[["Appliance"], bool] | None = None
    write_groups: WriteGroups | None = None
    find_groups: Callable[[ApplianceReader, Sequence[Member]], list[Member]] | None = None
    probe_path: str = ""
    read_backlog: Callable[[ApplianceResponse], BacklogCount] | None = None
    max_records: int | None = None
    has_profiles: bool = False
    max_request_bytes: int = REQUEST_BYTES_LIMIT
    gzip_bytes: int = 0

    def __post_init__(self) -> None:
        if not any(endpoint.formats for endpoint in self.endpoints[:1]):
            raise ValueError(f"{self.name}: no endpoints with formats; expected one for documents")

    @property
    def default_format(self) -> str:
        """The name of the format of documents."""
        return self.endpoints[0].formats[0]

    @property
    def has_full_feeds(self) -> bool:
        return any(FULL in endpoint.feedtypes for endpoint in self.endpoints)

    def endpoint_of(self, format: str | None) -> Endpoint | None:
        """Return the endpoint for a format, None if it takes none; by default, for documents."""
        if format is None:
            return self.endpoints[0]
        taken = (endpoint for endpoint in self.endpoints if format in endpoint.formats)
        return next(taken, None)


class Appliance(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an appliance and how to connect to it.

    `url` is the one that its kind has found at the address. `ca_file` replaces the certificate
    authorities of the system. Without `proxy`, none is used; without `auth`, no credentials are
    sent. Each timeout limits one step of a request; `reply_seconds` limits the head of a response,
    and again its body. With `gzip`, small requests are compressed. `own` are the options that only
    its kind has.
    """

    protocol: ApplianceProtocol
    url: str
    profile: str = ""
    ca_file: str | None = None
    proxy: str | None = None
    auth: Auth | None = None
    connect_seconds: float = 10.0
    write_seconds: float = 60.0
    reply_seconds: float = 900.0
    gzip: bool = False
    own: msgspec.Struct | None = None

    def of(self, kind: type[Own]) -> Own:
        """Return the options of its kind; the defaults of their struct if none are stated."""
        return self.own if isinstance(self.own, kind) else kind()

    @property
    def target(self) -> str:
        """Its name in accounts and messages."""
        return f"{self.url} {self.profile}".strip()

    @property
    def canonical_target(self) -> str:
        """Its name in receipts, which is the same for all spellings of its address.

        `localhost` is 127.0.0.1, not ::1, where another receiver may listen. In a URL with a path,
        the default port of the scheme may be missing.
        """
        parts = urlsplit(self.url)
        host = parts.netloc.removesuffix(f":{parts.port}")
        host = "127.0.0.1" if host == "localhost" else host
        is_default = parts.path and parts.port in (None, _PORTS[parts.scheme])
        port = "" if is_default else f":{parts.port}"
        return f"{parts.scheme}://{host}{port}{parts.path} {self.profile}".strip()

    @property
    def name(self) -> str:
        """The name of its folder of receipts: letters, digits, `.`, `-` and `_`."""
        address = self.canonical_target.partition("://")[2]
        return _NOT_IN_NAME.sub("_", address).strip("._")
