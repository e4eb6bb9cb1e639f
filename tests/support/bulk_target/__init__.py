"""A format and an appliance of another package: lines for a search server with an `_bulk` page.

A document is two lines, a deletion is one::

    {"index": {"_id": "http://intranet.example.com/quay"}}
    {"url": "http://intranet.example.com/quay", "title": "The quay", "text": "Ships.", …}
    {"delete": {"_id": "http://intranet.example.com/harbour"}}

The server knows a document by its URL, the digest of its fields, the SHA-256 of its text, and who
may see it. `verify` compares these.
"""

from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from typing import IO

import msgspec

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.check import CheckLine, fail, ok
from feedferry.schemas.content import decode
from feedferry.schemas.errors import RecordError, TargetError
from feedferry.schemas.receipt import Refusal
from feedferry.schemas.record import Action, Content, Field, Provenance, Record
from feedferry.schemas.reject import Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import Span
from feedferry.transforms.formats import Format, Holds, ReadOptions, ReadResult, WriteOptions
from feedferry.transforms.formats.base import Encoder
from feedferry.transforms.formats.places import LinePlaces
from feedferry.transforms.sinks.push.model import (
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.protocol import (
    Address,
    ApplianceProtocol,
    ApplianceReader,
    Endpoint,
    ListedDocument,
    SendContext,
)

PATH = "/_bulk"
EVERYONE = "*"
PAGE_DOCUMENTS = 100
_ACTIONS = (b'{"index":', b'{"delete":')


class BulkDocument(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A document of the index."""

    url: str
    title: str | None = None
    text: str | None = None
    allow: list[str] = []
    deny: list[str] = []
    size: int | None = None
    sha256: str | None = None
    digest: str = ""
    generation: int = 0


class BulkAction(msgspec.Struct, omit_defaults=True):
    """The first line of a document."""

    index: dict[str, str] | None = None
    delete: dict[str, str] | None = None

    @property
    def url(self) -> str | None:
        return (self.index or self.delete or {}).get("_id")


class BulkEncoder(Encoder):
    """Writes one or two lines for a record."""

    extension = "ndjson"

    def __init__(self, options: WriteOptions) -> None:
        self._generation = options.generation

    def encode(self, record: Record) -> bytes:
        if record.action is Action.DELETE:
            return msgspec.json.encode(BulkAction(delete={"_id": record.url})) + b"\n"
        document = BulkDocument(
            url=record.url,
            title=record.title,
            allow=_tokens(record.acl, Access.PERMIT),
            deny=_tokens(record.acl, Access.DENY),
            digest=digest_of(record),
            generation=self._generation,
        )
        if record.content is not None:
            data = decode(record.content)
            document.text, document.size = _text_of(data), len(data)
            document.sha256 = sha256(data).hexdigest()
        lines = BulkAction(index={"_id": record.url}), document
        return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield a record for each action."""
    offset, unit = span.offset, b""
    for line in chain(stream, (b"",)):
        if unit and (not line or line.startswith(_ACTIONS)):
            yield _read(unit, offset, span)
            offset, unit = offset + len(unit), b""
        unit += line


def as_listed(record: Record) -> Record:
    """Return what the server knows of a record: its access, and the digest of its fields."""
    return Record(
        url=record.url,
        action=record.action,
        content=record.content,
        acl=_acl(_tokens(record.acl, Access.PERMIT), _tokens(record.acl, Access.DENY)),
        fields=(Field("digest", (digest_of(record),)),),
    )


def digest_of(record: Record) -> str:
    return sha256(msgspec.json.encode([record.title])).hexdigest()


def list_documents(reader: ApplianceReader, _held_in: str | None) -> Iterator[ListedDocument]:
    """Yield the documents by pages, each after the last URL of the page before it."""
    after = ""
    while True:
        data = msgspec.json.encode({"size": PAGE_DOCUMENTS, "after": after})
        body = RequestBody(content_type="application/json", length=len(data), before=data)
        response = reader.request("/_search", body, method="POST")
        if not response.is_success:
            raise TargetError(f"{response.url}: status {response.status}; expected a page")
        page = msgspec.json.decode(response.body, type=list[BulkDocument])
        yield from map(_listed, page)
        if len(page) < PAGE_DOCUMENTS:
            return
        after = page[-1].url


def check(reader: ApplianceReader) -> Iterator[CheckLine]:
    """Check that the server knows who may see a document."""
    response = reader.request("/_mapping")
    if response.is_success and b'"allow"' in response.body:
        yield ok("fields", "allow and deny are there")
    else:
        yield fail("fields", f"{response.url}: no field allow", "make the index anew")


def _listed(document: BulkDocument) -> ListedDocument:
    return ListedDocument(
        record=Record(
            url=document.url,
            action=Action.ADD,
            acl=_acl(document.allow, document.deny),
            fields=(Field("digest", (document.digest,)),),
        ),
        size=document.size,
        sha256=None if document.sha256 is None else bytes.fromhex(document.sha256),
    )


def _read(data: bytes, offset: int, span: Span) -> Record | Reject:
    try:
        return _record(data, Provenance(source=span.source, span=span.ordinal, offset=offset))
    except Exception as exc:
        error = record_error(exc)  # of one record; other exceptions are raised again
        return reject_bytes(error, span=span, place=Place(offset, len(data)), data=data)


def _record(data: bytes, provenance: Provenance) -> Record:
    first, _, second = data.partition(b"\n")
    try:
        action = msgspec.json.decode(first, type=BulkAction)
        document = msgspec.json.decode(second, type=BulkDocument) if action.index else None
    except msgspec.MsgspecError as exc:
        raise RecordError("bad-block", f"{exc}; expected an action and a document") from exc
    if document is None:
        return Record(url=action.url or "", action=Action.DELETE, provenance=provenance)
    return Record(
        url=document.url,
        action=Action.ADD,
        title=document.title,
        content=None if document.text is None else Content(document.text.encode()),
        mimetype=None if document.text is None else "text/plain",
        acl=_acl(document.allow, document.deny),
        provenance=provenance,
    )


def _tokens(acl: Acl | None, access: Access) -> list[str]:
    """Return a token for each principal; a document without an ACL is permitted to everyone."""
    if acl is None:
        return [EVERYONE] if access is Access.PERMIT else []
    return sorted(
        f"{principal.scope.value}:{principal.name}"
        for principal in acl.principals
        if principal.access is access
    )


def _acl(allow: list[str], deny: list[str]) -> Acl | None:
    if allow == [EVERYONE]:
        return None
    access = {Access.PERMIT: allow, Access.DENY: deny}
    principals = tuple(
        Principal(name=name, scope=Scope(scope), access=kind)
        for kind, tokens in access.items()
        for scope, _, name in (token.partition(":") for token in tokens)
    )
    return Acl(principals=principals)


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise RecordError("not-text", f"{exc.reason}; expected a text in UTF-8") from exc


def _find_record_url(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(line, type=BulkAction).url
    except msgspec.MsgspecError:
        return None


def places(stream: IO[bytes], *, source: str = "") -> LinePlaces:
    return LinePlaces(
        stream,
        source=source,
        begins_record=lambda line: line.startswith(_ACTIONS),
        find_url=_find_record_url,
    )


BULK = Format(
    name="bulk",
    title="lines for a search server",
    read=read,
    matches=lambda head: head.startswith(_ACTIONS),
    encoder=BulkEncoder,
    holds=Holds(
        fields={"title", "content", "mimetype", "acl"}, actions={Action.ADD, Action.DELETE}
    ),
    places=places,
    content_type="application/x-ndjson",
)


class _Item(msgspec.Struct):
    status: int
    error: str = ""


class _Reply(msgspec.Struct):
    items: list[_Item]


def _find_url(address: Address) -> str | None:
    if not address.path.endswith(PATH):
        return None
    return "{}://{}{}{}".format(*address).removesuffix(PATH)


def _request(part: ChunkPart, _context: SendContext) -> tuple[str, RequestBody]:
    type_ = "application/x-ndjson"
    return PATH, RequestBody(content_type=type_, length=part.size, part=part)


def _judge(response: ApplianceResponse, part: ChunkPart | None) -> Verdict | None:
    """Return what happened to each item; None for a response of the whole request."""
    if not response.is_success or part is None:
        return None
    try:
        items = msgspec.json.decode(response.body, type=_Reply).items
    except msgspec.MsgspecError:
        return None
    if len(items) != part.records:
        found = f"{len(items)} items; expected {part.records}"
        return Verdict(meaning=ResponseMeaning.RETRY, message=found)
    if any(item.status == 429 for item in items):
        return Verdict(meaning=ResponseMeaning.RETRY, message="an item is to be sent later")
    refused = tuple(
        Refusal(number, f"{item.status} {item.error}")
        for number, item in enumerate(items)
        if item.status >= 400
    )
    return Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message=f"{len(items) - len(refused)} of {len(items)} items",
        refused=refused,
    )


def _judge_probe(response: ApplianceResponse) -> CheckLine:
    if response.is_success:
        return ok("index", "is there")
    return fail("index", f"status {response.status}", "make the index")


BULK_SERVER = ApplianceProtocol(
    name="bulk-server",
    endpoints=(Endpoint(name="bulk", formats=(BULK.name,)),),
    addresses="http://HOST:PORT/INDEX/_bulk",
    find_url=_find_url,
    acceptance="a status for each item",
    fix_server="expected the search server there",
    fix_address="check ⟦url⟧",
    fix_trust="check ⟦auth⟧",
    make_request=_request,
    judge=_judge,
    judge_probe=_judge_probe,
    check=check,
    list_documents=list_documents,
    listed_fields=frozenset({"acl", "content", "field"}),
    as_listed=as_listed,
)
