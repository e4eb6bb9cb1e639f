"""The documents that a rehearsal appliance lists at `GET /documents`, as events of a comparison."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from urllib.parse import urlencode, urlsplit

import httpx2
import msgspec

from feedferry.schemas.errors import BusyError, ConfigError, TargetError
from feedferry.schemas.indexed_document import DocumentOrigin, IndexedDocument
from feedferry.schemas.record import Action, Crawl, Field, Provenance, Record
from feedferry.transforms.compare.events import Event

HELD_FIELDS = frozenset(
    (
        *("mimetype", "content", "metadata", "acl", "title", "description", "keywords", "modified"),
        *("categories", "field", "datasource"),
        *(name for name in Crawl.__struct_fields__ if name != "anchors"),
    )
)
"""The fields that a listing states."""

_TIMEOUT_SECONDS = 60.0
_WAIT_SECONDS = 60.0
_EXPECTED = "expected the address of a rehearsal appliance (feedferry serve), which lists documents"


class _Page(msgspec.Struct):
    documents: list[IndexedDocument]
    next: str | None
    backlog: int = 0


def listed_documents(
    address: str,
    *,
    held_in: str | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Event]:
    """Yield the documents that an appliance has, those of one datasource or profile if it is given.

    Waits up to a minute for feeds that are not digested yet. Raises BusyError if there are more,
    TargetError if there is no listing.
    """
    root = urlsplit(address)
    if root.scheme not in ("http", "https") or not root.netloc:
        raise ConfigError(f"⟦against⟧: {address!r}; {_EXPECTED}")
    listing = f"{root.scheme}://{root.netloc}/documents"
    after, waited = None, 0.0
    with httpx2.Client(timeout=_TIMEOUT_SECONDS, trust_env=False) as client:
        while True:
            stated = {"datasource": held_in, "after": after}
            query = {name: value for name, value in stated.items() if value is not None}
            page = _page(client, f"{listing}?{urlencode(query)}")
            if page.backlog and after is None:
                if waited >= _WAIT_SECONDS:
                    raise BusyError(f"{address}: {page.backlog} feeds are not indexed yet")
                sleep(1.0)
                waited += 1.0
                continue
            yield from map(document_event, page.documents)
            after = page.next
            if after is None:
                return


def _page(client: httpx2.Client, url: str) -> _Page:
    try:
        response = client.get(url)
    except httpx2.HTTPError as exc:
        raise TargetError(f"{url}: {str(exc) or type(exc).__name__}; {_EXPECTED}") from exc
    if response.status_code != httpx2.codes.OK:
        raise TargetError(f"{url}: status {response.status_code}; {_EXPECTED}")
    try:
        return msgspec.json.decode(response.content, type=_Page)
    except msgspec.MsgspecError as exc:
        raise TargetError(f"{url}: {exc}; {_EXPECTED}") from exc


def document_event(document: IndexedDocument) -> Event:
    """Return the event that makes a document of a listing."""
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
    digest = None if document.sha256 is None else bytes.fromhex(document.sha256)
    return Event(record, document.bytes, digest)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else []
