"""Write documents of Discovery Engine, one a line.

**Spec:** Discovery Engine v1, `Document`, `GcsSource` with the schema `document`.

**Keeps:** texts, metadata, the content of types that the service indexes, and the readers: the
decision of an ACL and all above it, if it has no denials.

**Drops:** hints for crawling but the display URL, statistics, extras.
"""

import msgspec
import pybase64

from feedferry.schemas.errors import not_unicode_error
from feedferry.schemas.record import Action, Record
from feedferry.transforms.formats.base import Encoder, WriteOptions
from feedferry.transforms.formats.discovery_engine.discovery_format import MAX_CONTENT_BYTES
from feedferry.transforms.formats.discovery_engine.reader_lists import HIDDEN, readers_of_document
from feedferry.transforms.formats.holding.decided_documents import hashed_id

_TEXTS = ("title", "description", "keywords", "categories", "modified")
_PLAIN = "text/plain"
_EMPTY = {"mimeType": _PLAIN, "rawBytes": "LQ=="}
"""The content of a document that no user finds: data stores may refuse documents without one."""


class DiscoveryEncoder(Encoder):
    """Encodes records as lines; there is nothing around them."""

    extension = "jsonl"

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        self._datasource = options.feed.datasource

    def encode(self, record: Record) -> bytes:
        """Return the line of a record; raise RecordError for a text that is no Unicode."""
        try:
            return msgspec.json.encode(self._line(record)) + b"\n"
        except UnicodeEncodeError as exc:
            raise not_unicode_error(exc) from exc

    def _line(self, record: Record) -> dict[str, object]:
        data: dict[str, object] = {"url": record.url, "datasource": self._datasource}
        readers = HIDDEN if record.action is Action.DELETE else readers_of_document(record.acl)
        content: dict[str, object] | None = {**_EMPTY}
        if readers is not HIDDEN:
            data |= _data_of(record)
            content = _content_of(record)
        line: dict[str, object] = {"id": hashed_id(record.url), "structData": data}
        if content is not None:
            line["content"] = content
        return line | {"acl_info": {"readers": readers}}


def _data_of(record: Record) -> dict[str, object]:
    """Return the fields of a document but its URL and its datasource."""
    data = {name: value for name in _TEXTS if (value := getattr(record, name)) not in (None, ())}
    if record.crawl is not None and record.crawl.display_url is not None:
        data["display_url"] = record.crawl.display_url
    values: dict[str, list[str]] = {}
    for meta in record.metadata:
        values.setdefault(meta.name, []).append(meta.value)
    return data | ({"meta": values} if values else {})


def _content_of(record: Record) -> dict[str, object] | None:
    """Return the content: its bytes, or the object of Cloud Storage that it is."""
    document = record.content.data if record.content is not None else None
    if document is None and record.body is not None:
        document = record.body.encode()
    is_object = record.url.startswith("gs://")
    if is_object and (document is None or len(document) > MAX_CONTENT_BYTES):
        kind = {} if record.mimetype is None else {"mimeType": record.mimetype}
        return {**kind, "uri": record.url}
    if document is None:
        return None
    kind = {"mimeType": record.mimetype or _PLAIN}
    return {**kind, "rawBytes": pybase64.b64encode(document).decode()}
