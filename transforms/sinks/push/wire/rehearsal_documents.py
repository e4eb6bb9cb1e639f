"""The documents of a rehearsal appliance, which lists them at `GET /documents`.

A real appliance has no such page. Both kinds of appliance that a receiver plays are listed so.
"""

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import urlencode

import msgspec

from feedferry.schemas.errors import BusyError, TargetError
from feedferry.schemas.indexed_document import DocumentOrigin, IndexedDocument
from feedferry.schemas.record import Action, Crawl, Field, Provenance, Record
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.protocol import ApplianceReader, ListedDocument
from feedferry.transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES

LISTED_FIELDS = frozenset(
    (
        *("mimetype", "content", "metadata", "acl", "title", "description", "keywords", "modified"),
        *("categories", "field", "datasource"),
        *(name for name in Crawl.__struct_fields__ if name != "anchors"),
    )
)
"""The fields that a listing states."""

_PAGE_DOCUMENTS = 1000
_WAIT_SECONDS = 60.0
_EXPECTED = "expected the address of a rehearsal appliance (feedferry serve), which lists documents"


class _Page(msgspec.Struct):
    documents: list[IndexedDocument]
    next: str | None
    backlog: int = 0


def list_documents(reader: ApplianceReader, held_in: str | None) -> Iterator[ListedDocument]:
    """Yield the documents, those of one datasource or profile if it is given.

    Waits up to a minute for feeds that are not digested yet. Raises BusyError if there are more,
    TargetError if there is no listing.
    """
    after, limit, waited = None, _PAGE_DOCUMENTS, 0.0
    while True:
        stated = {"datasource": held_in, "after": after, "limit": limit}
        query = {name: value for name, value in stated.items() if value is not None}
        response = reader.request(f"/documents?{urlencode(query)}", is_below_address=False)
        if len(response.body) >= MAX_RESPONSE_BYTES and limit > 1:
            limit //= 2
            continue
        page = _page(response)
        if page.backlog and after is None:
            if waited >= _WAIT_SECONDS:
                url = reader.appliance.url
                raise BusyError(f"{url}: {page.backlog} feeds are not indexed yet")
            reader.pause(1.0)
            waited += 1.0
            continue
        yield from map(listed_document, page.documents)
        after = page.next
        if after is None:
            return


def _page(response: ApplianceResponse) -> _Page:
    if not response.is_success:
        raise TargetError(f"{response.url}: status {response.status}; {_EXPECTED}")
    try:
        return msgspec.json.decode(response.body, type=_Page)
    except msgspec.MsgspecError as exc:
        raise TargetError(f"{response.url}: {exc}; {_EXPECTED}") from exc


def listed_document(document: IndexedDocument) -> ListedDocument:
    """Return a document of a page as a record, with the size and the digest of its content."""
    fields = document.fields
    hints = {name: fields[name] for name in Crawl.__struct_fields__ if name in fields}
    modified = fields.get("modified")
    record = Record(
        url=document.url,
        action=Action.UPDATE if document.kind is DocumentOrigin.ACL else Action.ADD,
        arrival=document.arrival,
        mimetype=document.mimetype,
        metadata=document.metadata,
        modified=datetime.fromisoformat(modified) if isinstance(modified, str) else None,
        categories=tuple(map(str, _texts(fields.get("categories")))),
        fields=tuple(
            Field(name.removeprefix("u:"), tuple(map(str, _texts(values))))
            for name, values in fields.items()
            if name.startswith("u:")
        ),
        acl=document.acl,
        crawl=msgspec.convert(hints, Crawl) if hints else None,
        provenance=Provenance(datasource=document.datasource),
        title=_text(fields.get("title")),
        description=_text(fields.get("description")),
        keywords=_text(fields.get("keywords")),
    )
    sha256 = None if document.sha256 is None else bytes.fromhex(document.sha256)
    return ListedDocument(record=record, size=document.bytes, sha256=sha256)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else []
